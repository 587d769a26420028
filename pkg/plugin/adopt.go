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

func newAdopt(e *env) *cobra.Command {
	a := &action{noun: "adoption", done: "adopted", repeatable: true}
	a.post = func(ctx context.Context, c *client, t target, options metav1.CreateOptions) (runtime.Object, **v1alpha1.Operation, error) {
		answer, err := c.windows.WindowsInstances(t.Namespace).Adopt(ctx, t.Name, &v1alpha1.WindowsInstanceAdopt{
			Spec: v1alpha1.WindowsInstanceAdoptSpec{Preconditions: preconditions(t)},
		}, options)
		return answer, &answer.Status.Operation, err
	}
	a.showDryRun = func(e *env, _ target, answer runtime.Object) error {
		return e.print(planTable(answer.(*v1alpha1.WindowsInstanceAdopt).Status.Plan, *a.print.NoHeaders))
	}
	cmd := a.command(e, &cobra.Command{
		Use:   "adopt",
		Short: "Take a host over from the Windows Machine Config Operator",
		Long: `Take a host over that the Windows Machine Config Operator (WMCO) has configured, as it is: no
service is restarted and pods run on. Only the daemon of WMCO is removed. What differs from the
desired configuration waits for the next update of the pool, which is done as its strategy says.
It is refused while WMCO runs. With several hosts it is one after the other, and after one that fails
no other is begun: the error has the command to go on. With --dry-run=server it shows what is removed at once, and what
the next update will change.`,
		Example: `  kubectl windows adopt win-6 --dry-run=server
  kubectl windows adopt win-6
  kubectl windows adopt --pool windows-instances`,
	})
	a.beCareful(e, cmd, "adopt")
	return cmd
}
