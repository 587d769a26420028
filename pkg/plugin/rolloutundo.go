// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// undoAnswered is how long the controller may take to say what it does about a request to undo a revision.
const undoAnswered = 20 * time.Second

// rolloutUndo has the hosts of a pool go back to an earlier revision.
type rolloutUndo struct {
	revision int64
	reason   string
	dryRun   string
}

func newRolloutUndo(e *env) *cobra.Command {
	o := &rolloutUndo{}
	cmd := &cobra.Command{
		Use:   "undo POOL",
		Short: "Have the hosts of a pool go back to an earlier revision",
		Long: `Have the hosts of a pool go back to an earlier revision, by default the last before it that all of them worked with: its template
and the programs that they had with it (spec.updateStrategy.rollingUpdate.undo). They go back one after the other, within
maxUnavailable and window of the pool; canary does not hold them up. What comes from the cluster, such as trust, credentials and network,
does not go back, nor does the kubelet to a version that does not suit the API server. Hosts that can get the earlier programs
neither from their own disk nor from windows-controller are named, and keep what they have.

While a pool is pinned so, only --to-revision has its hosts go back further: whoever repeats the command does not want that.

The pool is pinned so until spec.template or the payload changes. To end it before: kubectl windows rollout resume POOL.`,
		Example: `  kubectl windows rollout undo windows-instances --reason='pods cannot mount volumes'
  kubectl windows rollout undo windows-instances --to-revision=3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completePool,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args[0]) },
	}
	cmd.Flags().Int64Var(&o.revision, "to-revision", 0, "The revision to go back to, one that all hosts had. 0: the last before the one that they are to have now, unless the pool is pinned.")
	cmd.Flags().StringVar(&o.reason, "reason", "", "Why, for people. It is shown as long as the pool is pinned.")
	addDryRun(cmd, &o.dryRun, "none, or server: the API checks the request, and nothing is changed.")
	return cmd
}

func (o *rolloutUndo) run(ctx context.Context, e *env, name string) error {
	dryRun, err := dryRunOf(o.dryRun)
	if err != nil {
		return err
	}
	c, pool, revisions, err := e.revisions(ctx, name)
	if err != nil {
		return err
	}
	to, err := undoTo(pool, revisions, o.revision)
	if err != nil {
		return err
	}
	undo := map[string]any{"revision": pool.Status.UpdateRevision, "to": to.Name, "reason": nil}
	if o.reason != "" {
		undo["reason"] = o.reason
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pool.UID},
		"spec":     map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"undo": undo}}},
	})
	if err != nil {
		return fmt.Errorf("making the change: %w", err)
	}
	pools := c.windows.WindowsNodePools(pool.Namespace)
	if dryRun == nil && o.repeats(pool, to.Name) {
		if _, err := pools.Patch(ctx, pool.Name, types.MergePatchType, fmt.Appendf(nil, withoutUndo, pool.UID), metav1.PatchOptions{FieldValidation: strictly}); err != nil {
			return err
		}
	}
	pool, err = pools.Patch(ctx, pool.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun, FieldValidation: strictly})
	if err != nil {
		return err
	}
	if dryRun != nil {
		return e.print(fmt.Sprintf("windowsnodepool/%s goes back to revision %d (server dry run)\n", pool.Name, to.Revision))
	}
	asked := pool.Spec.UpdateStrategy.RollingUpdate.Undo
	ctx, cancel := context.WithTimeoutCause(ctx, undoAnswered, &ExitError{Code: ExitWaitTimeout, Err: fmt.Errorf(
		"the request is recorded, so that it need not be repeated, and windows-controller has not answered yet; see what it does: kubectl windows rollout status %s -n %s", pool.Name, pool.Namespace)})
	defer cancel()
	for {
		back := pool.RolledBack(pool.Status.UpdateRevision)
		refusal := undoRefusal(pool)
		switch {
		case asked == nil:
			return errors.New("the API has not recorded the request")
		case asked.Follows(back):
			return e.print(fmt.Sprintf("windowsnodepool/%s goes back to revision %d\n%s\n", pool.Name, to.Revision, pinText(pool, back)))
		case pool.Status.ObservedGeneration >= pool.Generation && refusal != nil:
			return errors.New(refusal.Message)
		case pool.Status.UpdateRevision != asked.Revision: // as the template, or the payload of windows-controller, was changed just before
			return fmt.Errorf("windowsnodepool/%s was to go back from revision %s, and has another one now, %s, so that nothing is undone: ask again: kubectl windows rollout undo %[1]s -n %[4]s",
				pool.Name, asked.Revision, pool.Status.UpdateRevision, pool.Namespace)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryWatch):
		}
		found, err := pools.Get(ctx, pool.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			pool = found
		case ctx.Err() == nil && (isRefusal(err) || !mayPass(err, 0)):
			return fmt.Errorf("the request is recorded, and what becomes of it cannot be seen: %w", err)
		}
	}
}

// withoutUndo is the patch that takes a request away from the pool with a UID.
const withoutUndo = `{"metadata":{"uid":%q},"spec":{"updateStrategy":{"rollingUpdate":{"undo":null}}}}`

// repeats says whether the pool has the same request already, and does not follow it, say because that is from when the pool had this
// revision before. To the API it is a new one only if the former is taken away first: who applies a spec repeats what is in it for ever. One of
// a pool that is pinned is not taken away, as that ends the pin: the controller still has it, and has said why it is refused.
func (o *rolloutUndo) repeats(pool *v1alpha1.WindowsNodePool, to string) bool {
	known := pool.Spec.UpdateStrategy.RollingUpdate.Undo
	return known != nil && known.Revision == pool.Status.UpdateRevision && known.To == to && known.Reason == o.reason && !pool.RolledBack(known.Revision).ByPerson()
}

// undoTo is the revision that a pool is to go back to. 0 is the last before the one that its hosts are to have now, unless the pool is
// pinned.
func undoTo(pool *v1alpha1.WindowsNodePool, revisions []appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	now, worked := pool.Status.UpdateRevision, pool.Status.Worked()
	back := pool.RolledBack(now)
	if back.ByPerson() {
		now = back.To
	}
	if number == 0 {
		switch at := slices.Index(worked, now); {
		case at < 0:
		case back.ByPerson():
			worked = worked[:at]
		default: // it may have worked long ago, and be rolled out again
			worked = slices.Delete(slices.Clone(worked), at, at+1)
		}
		if current := pool.Status.CurrentRevision; !back.ByPerson() && slices.Contains(worked, current) {
			worked = append(slices.Clone(worked), current) // a pin may have gone back past others
		}
		for _, name := range slices.Backward(worked) {
			at := slices.IndexFunc(revisions, func(r appsv1.ControllerRevision) bool { return r.Name == name })
			switch {
			case at < 0: // one before it is not what was asked for
				return nil, fmt.Errorf("ControllerRevision %s, which all hosts of windowsnodepool/%s worked with before, no longer exists: choose another one with --to-revision: kubectl windows rollout history %[2]s -n %[3]s",
					name, pool.Name, pool.Namespace)
			case back.ByPerson(): // who repeats a request that was answered late must not take the pool back past that
				return nil, fmt.Errorf("windowsnodepool/%s is undone already. %s To go back further, to revision %d: kubectl windows rollout undo %[1]s -n %[4]s --to-revision=%[3]d",
					pool.Name, back.Message, revisions[at].Revision, pool.Namespace)
			default:
				return &revisions[at], nil
			}
		}
		if back.ByPerson() {
			return nil, fmt.Errorf("windowsnodepool/%s is undone already, and has no revision before that all its hosts worked with. %s", pool.Name, back.Message)
		}
		return nil, fmt.Errorf("windowsnodepool/%s has no earlier revision that all its hosts worked with: kubectl windows rollout history %s -n %s", pool.Name, pool.Name, pool.Namespace)
	}
	found, err := revisionOfPool(pool, revisions, number)
	switch {
	case err != nil:
		return nil, err
	case found.Name == now && back.ByPerson() && !asksForAnother(pool, back):
		return nil, fmt.Errorf("windowsnodepool/%s is pinned to revision %d already", pool.Name, number)
	case found.Name == now && !back.ByPerson():
		return nil, fmt.Errorf("windowsnodepool/%s has revision %d already", pool.Name, number)
	case found.Name == pool.Status.UpdateRevision:
		return nil, fmt.Errorf("revision %d of windowsnodepool/%s was undone. To have its hosts get it again: kubectl windows rollout resume %s -n %s", number, pool.Name, pool.Name, pool.Namespace)
	case !slices.Contains(worked, found.Name):
		return nil, fmt.Errorf("revision %d of windowsnodepool/%s is none that all its hosts worked with, or it was undone. To give them its template nevertheless, set spec.template to it: kubectl windows rollout history %s -n %s --revision=%d",
			number, pool.Name, pool.Name, pool.Namespace, number)
	}
	return found, nil
}

// asksForAnother says whether somebody has asked since for another revision than the one that a pool is pinned to, so that to ask for that
// one again is how a request goes that was refused.
func asksForAnother(pool *v1alpha1.WindowsNodePool, back *v1alpha1.PoolRollback) bool {
	asked := pool.Undo(back.Revision)
	return asked != nil && asked.To != back.To
}

// pinText says why a pool has an earlier revision, and how that ends.
func pinText(pool *v1alpha1.WindowsNodePool, back *v1alpha1.PoolRollback) string {
	text := back.Message
	if len(back.WithoutPrograms) > 0 {
		text += fmt.Sprintf("\nThese hosts cannot go back, for example because neither they nor windows-controller have the programs, and keep the revision they worked with last: %s.", strings.Join(back.WithoutPrograms, ", "))
	}
	return text + fmt.Sprintf("\nIt ends with another template or payload. To end it: kubectl windows rollout resume %s -n %s", pool.Name, pool.Namespace)
}
