// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func newRelease(e *env) *cobra.Command {
	a := &action{noun: "release", done: "released", repeatable: true}
	a.post = func(ctx context.Context, c *client, t target, options metav1.CreateOptions) (runtime.Object, **v1alpha1.Operation, error) {
		answer, err := c.windows.WindowsInstances(t.Namespace).Release(ctx, t.Name, &v1alpha1.WindowsInstanceRelease{
			Spec: v1alpha1.WindowsInstanceReleaseSpec{Preconditions: preconditions(t)},
		}, options)
		return answer, &answer.Status.Operation, err
	}
	a.showDryRun = func(e *env, _ target, answer runtime.Object) error {
		return e.print(planTable(answer.(*v1alpha1.WindowsInstanceRelease).Status.Plan, *a.print.NoHeaders))
	}
	cmd := a.command(e, &cobra.Command{
		Use:   "release",
		Short: "Give a host back to the Windows Machine Config Operator",
		Long: `Give a host back to the Windows Machine Config Operator (WMCO), as it is: no service is restarted
and pods run on. Only the service of our agent is removed, with what it has recorded. From then on
the host is only watched. WMCO takes it on when it runs, as it updates its own hosts: one after the
other, with a drain. To take it back before that: kubectl windows adopt. With several hosts it is one after the
other, and after one that fails no other is begun: the error has the command to go on. With --dry-run=server it
shows what would change.`,
		Example: `  kubectl windows release win-6 --dry-run=server
  kubectl windows release win-6
  kubectl windows release --pool windows-instances`,
	})
	a.beCareful(e, cmd, "release")
	return cmd
}
