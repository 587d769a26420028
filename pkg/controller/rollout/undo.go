// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// eventUndone is the reason of the event that hosts go back from a revision because somebody has asked for it.
const eventUndone = "Undone"

// maxWorked bounds how many revisions a pool can go back to, as its field does.
const maxWorked = 10

// undo is the rollback of the newest revision of a pool that somebody has asked for. refused says why what was asked for is not done.
// Nil and empty: nobody has asked for it, or it is not known yet whether it can be. What was accepted once holds, whatever becomes of
// it, and until another request is accepted: one that is not must not give hosts again what was undone.
func (r *Reconciler) undo(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, newest string) (back *v1alpha1.PoolRollback, refused string, err error) {
	asked := pool.Undo(newest)
	if asked == nil {
		return nil, "", nil
	}
	if known := pool.RolledBack(newest); known.ByPerson() {
		back = known.DeepCopy()
		back.Instances = notTakenBack(known, instances)
	}
	if !asked.Follows(back) {
		if over, err := r.isOver(ctx, pool, asked); over || err != nil {
			return back, "", err
		}
		accepted, why, err := r.accept(ctx, pool, instances, asked)
		switch {
		case accepted != nil:
			return accepted, "", nil
		case err != nil:
			return back, "", err
		case why != "":
			refused = refusal(pool, asked, why, back)
		}
	}
	if back == nil {
		return nil, refused, nil
	}
	to, _, err := revision.Read(ctx, r.client, pool, back.To)
	if to == nil || err != nil {
		return back, refused, err
	}
	why, ships, known := r.mayGoBack(to)
	if !known {
		return back, refused, nil
	}
	if why != "" {
		back.WithoutPrograms = notBack(pool, instances, back.To)
		return back, cmp.Or(refused, unsuited(pool, back, why)), nil
	}
	without, err := r.lacking(ctx, pool, instances, to, ships)
	if err != nil {
		return back, refused, err
	}
	back.WithoutPrograms = without
	return back, refused, nil
}

// noteOver notes in a revision that a pool is about to have that the request of its spec, if it is about that one and is not what the pool follows,
// is over. The API takes none about a revision that the pool does not have. If it has it, somebody has deleted the ControllerRevision, and with it
// what was noted: a request that was not answered yet has to be made again then.
func noteOver(pool *v1alpha1.WindowsNodePool, kept *appsv1.ControllerRevision) {
	asked := pool.Undo(kept.Name)
	if asked == nil || kept.Name == pool.Status.UpdateRevision && asked.Follows(pool.RolledBack(kept.Name)) {
		return
	}
	if kept.Annotations == nil {
		kept.Annotations = map[string]string{}
	}
	kept.Annotations[v1alpha1.UndoOverAnnotation] = asked.RequestedAt.UTC().Format(time.RFC3339)
}

// isOver says whether the pool has had another revision since somebody has asked for one to be undone. It does not read the cache, which
// may not have yet what was noted in the same pass.
func (r *Reconciler) isOver(ctx context.Context, pool *v1alpha1.WindowsNodePool, asked *v1alpha1.PoolUndo) (bool, error) {
	at := asked.RequestedAt.UTC().Format(time.RFC3339)
	isOver := func(kept appsv1.ControllerRevision) bool {
		return kept.Name == asked.Revision && kept.Annotations[v1alpha1.UndoOverAnnotation] == at
	}
	revisions, err := r.revisionsOf(ctx, pool)
	return slices.ContainsFunc(revisions, isOver), err
}

// accept is what becomes of a request that was not answered before: a rollback, or why there is none. Nil and empty: that is not known
// yet.
func (r *Reconciler) accept(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, asked *v1alpha1.PoolUndo) (back *v1alpha1.PoolRollback, why string, err error) {
	if !slices.Contains(pool.Status.Worked(), asked.To) {
		return nil, "Revision " + asked.To + " is none that all hosts of the pool worked with, or it was undone", nil
	}
	to, number, err := revision.Read(ctx, r.client, pool, asked.To)
	if err != nil {
		return nil, "", err
	}
	if to == nil {
		return nil, "ControllerRevision " + asked.To + " no longer exists as it was kept", nil
	}
	why, ships, known := r.mayGoBack(to)
	if !known || why != "" {
		return nil, why, nil
	}
	without, err := r.lacking(ctx, pool, instances, to, ships)
	if err != nil {
		return nil, "", err
	}
	if len(without) > 0 && len(without) == min(staying(instances), maxRolledBack) {
		return nil, "neither the hosts nor windows-controller have the programs of " + asked.To + ". Give windows-controller the payload that has them, or change spec.template", nil
	}
	return &v1alpha1.PoolRollback{
		Revision: asked.Revision, To: asked.To, Time: *asked.RequestedAt, RequestedBy: asked.RequestedBy,
		Message: message.ConditionMessage(pinned(asked, number)), WithoutPrograms: without, Instances: notTakenBack(pool.RolledBack(asked.Revision), instances),
	}, "", nil
}

// mayGoBack says why hosts must not go back to the programs of a revision, and whether windows-controller can send them. It reports
// false for known as long as that cannot be said.
func (r *Reconciler) mayGoBack(to *revision.Revision) (why string, ships, known bool) {
	if r.goesBack == nil || len(to.Programs) == 0 {
		return "", true, true
	}
	return r.goesBack(to.Payload())
}

// lacking are the instances whose hosts cannot have the programs of a revision, as many as a rollback names.
func (r *Reconciler) lacking(ctx context.Context, pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, to *revision.Revision, ships bool) ([]string, error) {
	if ships {
		return nil, nil
	}
	without, err := r.withoutPrograms(ctx, pool, instances, to.Programs)
	return without[:min(len(without), maxRolledBack)], err
}

// notBack are the instances whose hosts do not work with a revision, as many as a rollback names.
func notBack(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, to string) []string {
	var names []string
	for _, i := range instances {
		if i.DeletionTimestamp.IsZero() && revision.Had(i, pool) != to {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxRolledBack)]
}

// pinned says which revision a pool has been taken back to, by whom and why.
func pinned(asked *v1alpha1.PoolUndo, number int64) string {
	text := fmt.Sprintf("Pinned to revision %d (%s) since %s by %s", number, asked.To, asked.RequestedAt.UTC().Format(time.RFC3339), asked.RequestedBy)
	if reason := strings.Join(strings.Fields(asked.Reason), " "); reason != "" {
		text += ": " + reason
	}
	return message.Sentence(text)
}

// refusal says that a revision is not undone, or, if it is, that its hosts do not go back to another one.
func refusal(pool *v1alpha1.WindowsNodePool, asked *v1alpha1.PoolUndo, why string, back *v1alpha1.PoolRollback) string {
	if back != nil {
		return fmt.Sprintf("Revision %s stays undone as it was, to %s, and not to %s, as %s has asked for: %s To go back to another one: kubectl windows rollout undo %s -n %s --to-revision=NUMBER",
			asked.Revision, back.To, asked.To, asked.RequestedBy, message.Sentence(why), pool.Name, pool.Namespace)
	}
	// Not with the plugin's resume, which ends a pause, and confirms hosts, besides.
	return fmt.Sprintf(`Revision %s is not undone, as %s has asked for: %s To remove the request: kubectl patch wnp %s -n %s --type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":{"undo":null}}}}'`,
		asked.Revision, asked.RequestedBy, message.Sentence(why), pool.Name, pool.Namespace)
}

// unsuited says that hosts do not go back any more to the revision that their pool is pinned to.
func unsuited(pool *v1alpha1.WindowsNodePool, back *v1alpha1.PoolRollback, why string) string {
	return fmt.Sprintf("The pool is pinned to revision %s, and hosts can no longer go back to it: %s Hosts that have gone back keep it as long as they run it; the others keep what they worked with last, and new ones get what was undone. Change spec.template, or end it: kubectl windows rollout resume %s -n %s",
		back.To, message.Sentence(why), pool.Name, pool.Namespace)
}

// unpins says how hosts get the revision again that was undone, and which of them have it still.
func unpins(pool *v1alpha1.WindowsNodePool, back *v1alpha1.PoolRollback) string {
	text := back.Message + " "
	if len(back.WithoutPrograms) > 0 {
		text += fmt.Sprintf("These hosts cannot go back to %s, for example because neither they nor windows-controller have its programs, and keep the revision they worked with last: %s. ", back.To, words.Enumerate(back.WithoutPrograms, maxNamed))
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

// goesBack says whether the host of an instance is to get another revision because somebody has undone that of its pool. One that the pool had
// taken back by itself before is said to work with the other one when its way back begins.
func goesBack(i *v1alpha1.WindowsInstance, back *v1alpha1.PoolRollback) bool {
	return back.ByPerson() && !back.Keeps(i.Name) && (i.Status.PoolRevision != back.To || back.Broke(i.Name) && !hasGoneBack(i, back))
}

// notTakenBack are the instances that a rollback names whose hosts have not gone back yet: neither is that known of what was done to them, nor have
// they what they are to have, which may have been asked for before somebody has undone the revision. Nil may be known, which names none.
func notTakenBack(known *v1alpha1.PoolRollback, instances []*v1alpha1.WindowsInstance) []string {
	if known == nil || len(known.Instances) == 0 {
		return nil
	}
	yet := map[string]bool{}
	for _, i := range instances {
		yet[i.Name] = !hasGoneBack(i, known) && !(isUpdated(i) && hasOwn(i, known))
	}
	return slices.DeleteFunc(asNamedNow(known, instances), func(name string) bool { return !yet[name] })
}

// nowWorked returns the revisions that work after one of them was found to, or was undone.
func nowWorked(worked []string, name string, undone bool) []string {
	worked = slices.DeleteFunc(slices.Clone(worked), func(other string) bool { return other == name })
	if !undone {
		worked = append(worked, name)
	}
	return worked[max(0, len(worked)-maxWorked):]
}
