// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

func newInspect(e *env) *cobra.Command {
	var (
		s selection
		o outputFlags
	)
	cmd := &cobra.Command{
		Use:   "inspect (NAME... | -l SELECTOR | --pool POOL | -A)",
		Short: "Inspect a host, now",
		Long: `Inspect a host at this moment: what it was configured with and what others changed since then, clock, boot, memory, disks, services, network, certificates, recent errors.
Nothing is changed on the host and nothing is stored.`,
		Example: `  kubectl windows inspect win-6
  kubectl windows inspect win-6 -o yaml
  kubectl windows inspect win-6 -o jsonpath='{.configuration.drift.left}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.eachSelected(cmd.Context(), e, args, &s, func(ctx context.Context, e *env, c *client, t target) error {
				return inspect(ctx, e, c, t, &o)
			})
		},
	}
	s.addFlags(e, cmd)
	o.addFlags(cmd)
	s.addParallel(cmd, readersAtOnce)
	return cmd
}

// inspect prints what a host reports about itself: the server's table, or the object.
func inspect(ctx context.Context, e *env, c *client, t target, o *outputFlags) error {
	reader, err := o.reader(c)
	if err != nil {
		return err
	}
	obj, err := read(ctx, reader.Get().Namespace(t.Namespace).Resource(instancesResource).Name(t.Name).SubResource("inspect"))
	if err != nil {
		return err
	}
	if !o.asTable() {
		return o.printTyped(e, obj)
	}
	if _, ok := obj.(*metav1.Table); !ok {
		// A server that has no table for it gives the object.
		return (&printers.YAMLPrinter{}).PrintObj(obj, e.Out)
	}
	printer, err := o.printer()
	if err != nil {
		return err
	}
	return printer.PrintObj(obj, e.Out)
}
