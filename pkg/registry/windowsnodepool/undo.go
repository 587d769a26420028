// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

// maxAhead is by how much the clock of who sets spec.updateStrategy.rollingUpdate.resumedAt may be ahead of the one of this process.
const maxAhead = 5 * time.Minute

// validateResumed refuses a time that is still to come: until then, what a revision breaks would not be taken back, and whatever is to be confirmed would be.
// One that is there already is left alone, and so is the time of a rollback, which the controller has set after such a one.
func validateResumed(pool, old *windows.WindowsNodePool, now time.Time) field.ErrorList {
	at, before, back := pool.Spec.UpdateStrategy.RollingUpdate.ResumedAt, old.Spec.UpdateStrategy.RollingUpdate.ResumedAt, old.Status.RolledBack
	if at == nil || at.Equal(before) || !at.After(now.Add(maxAhead)) || back != nil && !at.After(back.Time.Time) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "updateStrategy", "rollingUpdate", "resumedAt"), at.UTC().Format(time.RFC3339),
		fmt.Sprintf("this is still to come: it is %s here. Set it to a time that has passed, or have the command do it: kubectl windows rollout resume %s -n %s",
			now.UTC().Format(time.RFC3339), pool.Name, pool.Namespace))}
}

// recordUndo notes who asks for a revision to be undone, and when: later than somebody has resumed it, by whichever clock. What is
// asked for already stays as it was recorded, and goes when it is over. So does one that was recorded before somebody has resumed it, as in a file that
// was exported before: to apply that must not take all hosts back again.
func recordUndo(ctx context.Context, pool, old *windows.WindowsNodePool, now time.Time) {
	rolling := &pool.Spec.UpdateStrategy.RollingUpdate
	undo, resumed := rolling.Undo, rolling.ResumedAt
	if undo == nil {
		return
	}
	if known := old.Spec.UpdateStrategy.RollingUpdate.Undo; known != nil && undo.Revision == known.Revision && undo.To == known.To && undo.Reason == known.Reason {
		if rolling.Undo = known.DeepCopy(); resumed != nil && known.RequestedAt != nil && !resumed.Before(known.RequestedAt) {
			rolling.Undo = nil
		}
		return
	}
	if before := old.Spec.UpdateStrategy.RollingUpdate.ResumedAt; resumed == nil || resumed.Before(before) {
		resumed = before
	}
	if recorded := undo.RequestedAt; resumed != nil && !recorded.IsZero() && !resumed.Before(recorded) {
		rolling.Undo = nil
		return
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	if resumed != nil && !resumed.Before(&at) {
		at = metav1.NewTime(resumed.Add(time.Second))
	}
	undo.RequestedAt, undo.RequestedBy = &at, ""
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		undo.RequestedBy = user.GetName()
	}
}

// checkUndo refuses to undo a revision that the pool does not have, and to go back to one that its hosts did not work with. Hosts run the
// programs of a revision as administrators, and whoever may make ControllerRevisions can make any: only those of
// status.workedRevisions, which the controller writes, are gone back to.
func checkUndo(_ context.Context, pool, old *windows.WindowsNodePool) error {
	undo, known := pool.Spec.UpdateStrategy.RollingUpdate.Undo, old.Spec.UpdateStrategy.RollingUpdate.Undo
	if undo == nil || known != nil && *undo.RequestedAt == *known.RequestedAt && undo.To == known.To && undo.Revision == known.Revision {
		return nil
	}
	path, history := field.NewPath("spec", "updateStrategy", "rollingUpdate", "undo"), fmt.Sprintf("kubectl windows rollout history %s -n %s", pool.Name, pool.Namespace)
	worked := old.Status.WorkedRevisions
	if len(worked) == 0 {
		worked = []string{old.Status.CurrentRevision} // as releases before have recorded it
	}
	var wrong *field.Error
	switch {
	case undo.Revision != old.Status.UpdateRevision:
		wrong = field.Invalid(path.Child("revision"), undo.Revision, "the pool does not have this revision now. See which one it has: "+history)
	case undo.To == undo.Revision || undo.To == "" || !slices.Contains(worked, undo.To):
		wrong = field.Invalid(path.Child("to"), undo.To, "this is no earlier revision that all hosts of the pool worked with. See which ones are: "+history)
	default:
		return nil
	}
	return apierrors.NewInvalid(windows.Kind("WindowsNodePool"), pool.Name, field.ErrorList{wrong})
}
