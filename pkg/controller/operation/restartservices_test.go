// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestRestartServices: the services are restarted, which neither cordons nor drains, and has succeeded when the Node is ready
// and stays so.
func TestRestartServices(t *testing.T) {
	t.Parallel()
	repair := byController(v1alpha1.Operation{Type: v1alpha1.OperationRestartServices, Cause: v1alpha1.CauseNodeNotReady})
	for name, tt := range map[string]struct {
		fails string
		then  func(*fixture)
		want  string // of a failure
	}{
		"it works":               {},
		"a service does not run": {fails: "service kubelet: its program ended with code 1", want: "The services of the node could not be restarted: service kubelet: its program ended with code 1"},
		"it works for a moment":  {then: (*fixture).notReadyWhileWatched, want: "Node win-1 became ready and did not stay so for 1m0s"},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(repair, inPool("p")), remediated())
			f.configure()
			f.setReady(corev1.ConditionFalse)
			f.host.fail["RestartServices"] = func() error { f.setReady(corev1.ConditionTrue); return nil }
			f.host.servicesFail, f.settle = tt.fails, time.Minute
			f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
				if op := i.Status.Operation; after && tt.then != nil && op.FindStep(v1alpha1.StepNodeReady) != nil {
					tt.then(f)
				}
				return nil
			}
			op := f.finish()
			if tt.want != "" {
				if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want) {
					t.Errorf("it is %s: %s", op.Phase, op.Message)
				}
				return
			}
			want := "Connect=Succeeded RestartServices=Succeeded Services=Succeeded MetadataRoute=Skipped NodeReady=Succeeded"
			if got := strings.Join(states(op), " "); op.Phase != v1alpha1.OperationSucceeded || got != want || op.FindStep(v1alpha1.StepRestartServices).Message != "Services that were restarted: containerd, kubelet." {
				t.Errorf("it is %s: %s: %s", op.Phase, op.Message, got)
			}
			if f.drain.runs > 0 || f.host.restarts() > 0 || f.get().Status.RestartedAt != nil {
				t.Errorf("%d drains, %d restarts", f.drain.runs, f.host.restarts())
			}
		})
	}
}

// TestRestartByController: a host that the controller restarts is drained as its pool says, and when that was is
// in the status of the instance.
func TestRestartByController(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(t *testing.T) {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p"}}
		pool.Spec.Restarts.After = &metav1.Time{Time: time.Now()}
		pool.Spec.UpdateStrategy.Drain.GracePeriodSeconds = new(int64(7))
		f := newFixture(t, newInstance(byController(rebootOperation(v1alpha1.RebootGraceful)), func(i *v1alpha1.WindowsInstance) {
			i.Spec.PoolRef, i.Status.Operation.Cause = &v1alpha1.PoolReference{Name: "p"}, v1alpha1.CauseRestartRequested
		}), pool)
		f.configure()
		before := time.Now()
		op := f.finish()
		if op.Phase != v1alpha1.OperationSucceeded {
			t.Fatalf("it is %s: %s", op.Phase, op.Message)
		}
		if o := f.drain.options; o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 7 || !o.DeleteEmptyDirData || !o.Force {
			t.Errorf("drained with %+v", o)
		}
		if at := f.get().Status.RestartedAt; at == nil || at.Time.Before(before.Truncate(time.Second)) || at.After(op.FinishedAt.Time) {
			t.Errorf("restarted at %v", at)
		}
	})
}
