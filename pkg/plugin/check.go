// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// errNotPassed ends a check that found something; what it is stands in the table.
var errNotPassed = errors.New("something is in the way")

func newCheck(e *env) *cobra.Command {
	var (
		s selection
		o outputFlags
	)
	cmd := &cobra.Command{
		Use:   "check (NAME... | -l SELECTOR | --pool POOL | -A)",
		Short: "Try the way to a host, layer by layer",
		Long: `Try the way to a host now, over a connection of its own, layer by layer: name, bastion, port,
SSH, host key, login, session, our program there, whether the host is fit to be a node, and its
way back to the API server. Nothing is changed on the host. Exits with 2 when something is in the way.`,
		Example: `  kubectl windows check win-6
  kubectl windows check -A --pool windows-instances || echo "not all of them"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.eachSelected(cmd.Context(), e, args, &s, func(ctx context.Context, e *env, c *client, t target) error {
				check, err := c.windows.WindowsInstances(t.Namespace).Check(ctx, t.Name, &v1alpha1.WindowsInstanceCheck{}, metav1.CreateOptions{FieldValidation: strictly})
				if err != nil {
					return err
				}
				if o.asTable() {
					err = e.print(checkTable(&check.Status, *o.print.NoHeaders))
				} else {
					err = o.printTyped(e, check)
				}
				if err == nil && !check.Status.Passed {
					err = &ExitError{Code: ExitCheckFailed, Err: fmt.Errorf("%s: %w", t.Name, errNotPassed)}
				}
				return err
			})
		},
	}
	s.addFlags(e, cmd)
	o.addFlags(cmd)
	s.addParallel(cmd, readersAtOnce)
	return cmd
}

// checkTable shows the layers and then the findings. It is made here and not by the
// server, because a table does not have whether the check passed, and a second
// request would try the host again.
func checkTable(status *v1alpha1.WindowsInstanceCheckStatus, noHeaders bool) string {
	rows := [][]string{{"LAYER", "RESULT", "TOOK", "REASON", "MESSAGE"}}
	for _, layer := range status.Layers {
		took := "-"
		if layer.Result != v1alpha1.CheckSkipped {
			took = layer.Duration.Round(time.Millisecond).String()
		}
		rows = append(rows, []string{layer.Name, string(layer.Result), took, cmp.Or(layer.Reason, "-"), words.OneLine(layer.Message)})
	}
	text := formatTable(rows, noHeaders)
	if len(status.Findings) == 0 {
		return text
	}
	rows = [][]string{{"FINDING", "SEVERITY", "MESSAGE"}}
	for _, finding := range status.Findings {
		rows = append(rows, []string{finding.Code, string(finding.Severity), words.OneLine(finding.Message)})
	}
	return text + "\n" + formatTable(rows, noHeaders)
}
