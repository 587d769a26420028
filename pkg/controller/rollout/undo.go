// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// eventUndone is the reason of the event that hosts go back from a revision because somebody has asked for it.
const eventUndone = "Undone"

// maxWorked bounds how many revisions a pool can go back to, as its field does.
const maxWorked = 10

// undo is the rollback of the newest revision of a pool that somebody has asked for. refused says why there is none. Nil and empty:
// nobody has asked for it, or it is not known yet whether it can be. What was accepted once holds, whatever becomes of it.
func (r *Reconciler) undo(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, newest string) (back *v1alpha1.PoolRollback, refused string, err error) {
	asked := pool.Undo(newest)
	if asked == nil {
		return nil, "", nil
	}
	if known := pool.RolledBack(newest); asked.Follows(known) {
		back = known.DeepCopy()
	}
	to, number, err := r.numbered(ctx, pool, asked.To)
	switch {
	case err != nil:
		return back, "", err
	case back == nil && !slices.Contains(workedRevisions(pool), asked.To):
		return nil, refusal(pool, asked, "Revision "+asked.To+" is none that all hosts of the pool worked with, or it was undone"), nil
	case to == nil && back == nil:
		return nil, refusal(pool, asked, "ControllerRevision "+asked.To+" no longer exists as it was kept"), nil
	case to == nil:
		return back, "", nil
	}
	why, ships := "", true
	if r.goesBack != nil && len(to.Programs) > 0 {
		var known bool
		if why, ships, known = r.goesBack(to.Payload()); !known {
			return back, "", nil
		}
	}
	if why != "" && back == nil {
		return nil, refusal(pool, asked, why), nil
	}
	var without []string
	if !ships {
		if without, err = r.withoutPrograms(ctx, pool, instances, to.Programs); err != nil {
			return back, "", err
		}
	}
	if back == nil {
		if len(without) > 0 && len(without) == staying(instances) {
			return nil, refusal(pool, asked, "neither the hosts nor windows-controller have the programs of "+asked.To+". Give windows-controller the payload that has them, or change spec.template"), nil
		}
		back = &v1alpha1.PoolRollback{Revision: newest, To: asked.To, Time: *asked.RequestedAt, RequestedBy: asked.RequestedBy, Message: message.ConditionMessage(pinned(asked, number))}
	}
	back.WithoutPrograms = without[:min(len(without), maxRolledBack)]
	return back, "", nil
}

// pinned says which revision a pool has been taken back to, by whom and why.
func pinned(asked *v1alpha1.PoolUndo, number int64) string {
	text := fmt.Sprintf("Pinned to revision %d (%s) since %s by %s", number, asked.To, asked.RequestedAt.UTC().Format(time.RFC3339), asked.RequestedBy)
	if reason := strings.Join(strings.Fields(asked.Reason), " "); reason != "" {
		text += ": " + reason
	}
	return message.Sentence(text)
}

// refusal says that a revision is not undone.
func refusal(pool *v1alpha1.WindowsNodePool, asked *v1alpha1.PoolUndo, why string) string {
	return fmt.Sprintf("Revision %s is not undone, as %s has asked for: %s To remove the request: kubectl windows rollout resume %s -n %s",
		asked.Revision, asked.RequestedBy, message.Sentence(why), pool.Name, pool.Namespace)
}

// unpins says how hosts get the revision again that was undone, and which of them have it still.
func unpins(pool *v1alpha1.WindowsNodePool, back *v1alpha1.PoolRollback) string {
	text := back.Message + " "
	if len(back.WithoutPrograms) > 0 {
		text += fmt.Sprintf("Hosts that keep revision %s, as neither they nor windows-controller have the programs of %s: %s. ", back.Revision, back.To, words.Enumerate(back.WithoutPrograms, maxNamed))
	}
	return text + fmt.Sprintf("It ends with another template or payload. To end it: kubectl windows rollout resume %s -n %s", pool.Name, pool.Namespace)
}

// withoutPrograms are the instances of a pool whose hosts do not have all of these programs: they are neither of the revision that a
// host works with nor of the one that it worked with before, which it keeps.
func (r *Reconciler) withoutPrograms(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, programs []revision.Program) ([]string, error) {
	known := map[string]*revision.Revision{"": {}}
	var without []string
	for _, i := range instances {
		has := &revision.Revision{}
		for _, name := range []string{revision.Had(i, pool), revision.HadBefore(i, pool)} {
			if _, ok := known[name]; !ok {
				kept, err := r.kept(ctx, pool, name)
				if err != nil {
					return nil, err
				}
				if kept == nil {
					kept = &revision.Revision{}
				}
				known[name] = kept
			}
			has.Programs = append(has.Programs, known[name].Programs...)
		}
		if i.DeletionTimestamp.IsZero() && !has.Has(programs) {
			without = append(without, i.Name)
		}
	}
	slices.Sort(without)
	return without, nil
}

// staying counts the instances that were not deleted.
func staying(instances []*v1alpha1.WindowsInstance) (n int) {
	for _, i := range instances {
		if i.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

// goesBack says whether the host of an instance is to get another revision because somebody has undone that of its pool.
func goesBack(i *v1alpha1.WindowsInstance, back *v1alpha1.PoolRollback) bool {
	return back.ByPerson() && !back.Keeps(i.Name) && i.Status.PoolRevision != back.To
}

// workedRevisions are the revisions that the hosts of a pool can go back to, the newest last. Releases before have recorded only one.
func workedRevisions(pool *v1alpha1.WindowsNodePool) []string {
	if worked := pool.Status.WorkedRevisions; len(worked) > 0 || pool.Status.CurrentRevision == "" {
		return worked
	}
	return []string{pool.Status.CurrentRevision}
}

// nowWorked returns the revisions that work after one of them was found to, or was undone.
func nowWorked(worked []string, name string, undone bool) []string {
	worked = slices.DeleteFunc(slices.Clone(worked), func(other string) bool { return other == name })
	if !undone {
		worked = append(worked, name)
	}
	return worked[max(0, len(worked)-maxWorked):]
}
