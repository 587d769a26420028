// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

type topOptions struct {
	selection
	sortBy    string
	noHeaders bool
}

// topSorts order hosts, those that are short of it first.
var topSorts = map[string]func(a, b *v1alpha1.WindowsInstanceInspection) int{
	"memory": func(a, b *v1alpha1.WindowsInstanceInspection) int {
		return cmp.Compare(share(b.Memory.Total, b.Memory.Available), share(a.Memory.Total, a.Memory.Available))
	},
	"disk": func(a, b *v1alpha1.WindowsInstanceInspection) int {
		return cmp.Compare(systemFree(a), systemFree(b))
	},
	"uptime": func(a, b *v1alpha1.WindowsInstanceInspection) int {
		return cmp.Compare(b.Boot.Uptime.Duration, a.Boot.Uptime.Duration)
	},
}

func newTop(e *env) *cobra.Command {
	o := &topOptions{}
	cmd := &cobra.Command{
		Use:   "top [NAME... | -l SELECTOR | --pool POOL | -A]",
		Short: "Show what hosts have and use, now",
		Long: `Inspect hosts at this moment and show processors, memory, free space of the system drive, uptime,
and whether Windows waits for a restart. A host that does not answer is shown with the reason,
and makes the command exit with 1.`,
		Example: `  kubectl windows top -A
  kubectl windows top -A --pool windows-instances --sort-by=disk`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args) },
	}
	o.selection.addFlags(e, cmd)
	o.all = true
	o.addParallel(cmd, 20)
	cmd.Flags().StringVar(&o.sortBy, "sort-by", "", "memory (most used first), disk (least free first) or uptime (longest first). Empty: by name.")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print no line with the names of the columns.")
	completeWords(cmd, "sort-by", "memory", "disk", "uptime")
	return cmd
}

// topAnswer is the inspection of a host, or why there is none.
type topAnswer struct {
	target
	inspection *v1alpha1.WindowsInstanceInspection
	err        error
}

func (o *topOptions) run(ctx context.Context, e *env, args []string) error {
	order := topSorts[o.sortBy]
	if o.sortBy != "" && order == nil {
		return fmt.Errorf("--sort-by=%s: must be memory, disk or uptime", o.sortBy)
	}
	c, err := e.client()
	if err != nil {
		return err
	}
	targets, err := c.targets(ctx, args, &o.selection)
	if err != nil {
		return err
	}
	answers := make([]topAnswer, len(targets))
	var group errgroup.Group
	group.SetLimit(max(o.parallel, 1))
	for i, t := range targets {
		group.Go(func() error {
			inspection, err := c.windows.WindowsInstances(t.Namespace).Inspect(ctx, t.Name, metav1.GetOptions{})
			answers[i] = topAnswer{t, inspection, err}
			return nil
		})
	}
	_ = group.Wait() // each answer has its error
	if ctx.Err() != nil {
		return ctx.Err()
	}
	slices.SortStableFunc(answers, func(a, b topAnswer) int {
		switch { // those that did not answer come last
		case (a.err == nil) != (b.err == nil):
			if a.err != nil {
				return 1
			}
			return -1
		case order == nil || a.err != nil:
			return 0
		}
		return order(a.inspection, b.inspection)
	})
	if err := e.print(topTable(answers, o.allNamespaces, o.noHeaders)); err != nil {
		return err
	}
	errs := make([]error, len(answers))
	for i, answer := range answers {
		errs[i] = answer.err
	}
	return e.sumUp(errs)
}

func topTable(answers []topAnswer, withNamespace, noHeaders bool) string {
	rows := [][]string{{"NAMESPACE", "NAME", "NODE", "CPUS", "MEMORY USED", "MEMORY", "DISK FREE", "DISK", "UPTIME", "REBOOT PENDING"}}
	for _, answer := range answers {
		row := []string{answer.Namespace, answer.Name, nodeOf(&answer.Status)}
		if answer.err != nil {
			row = append(row, "-", "-", "-", "-", "-", "-", describeError(answer.err))
		} else {
			row = append(row, topCells(answer.inspection)...)
		}
		rows = append(rows, row)
	}
	if !withNamespace {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	return formatTable(rows, noHeaders)
}

func topCells(in *v1alpha1.WindowsInstanceInspection) []string {
	used := in.Memory.Total.DeepCopy()
	used.Sub(in.Memory.Available)
	cells := []string{"-", "-", "-", "-", "-", "-", "no"}
	if in.CPUs > 0 {
		cells[0] = fmt.Sprint(in.CPUs)
	}
	if !in.Memory.Total.IsZero() {
		cells[1] = fmt.Sprintf("%s (%d%%)", bytesOf(used), share(in.Memory.Total, in.Memory.Available))
		cells[2] = bytesOf(in.Memory.Total)
	}
	if disk := systemDisk(in); disk != nil {
		cells[3] = fmt.Sprintf("%s (%d%%)", bytesOf(disk.Free), 100-share(disk.Total, disk.Free))
		cells[4] = bytesOf(disk.Total)
	}
	if in.Boot.Uptime.Duration > 0 {
		cells[5] = duration.HumanDuration(in.Boot.Uptime.Round(time.Second))
	}
	if in.PendingReboot.Pending {
		cells[6] = strings.TrimSpace("yes " + strings.Join(in.PendingReboot.Reasons, ", "))
	}
	return cells
}

func systemDisk(in *v1alpha1.WindowsInstanceInspection) *v1alpha1.DiskInspection {
	i := slices.IndexFunc(in.Disks, func(d v1alpha1.DiskInspection) bool { return d.System })
	if i < 0 {
		return nil
	}
	return &in.Disks[i]
}

func systemFree(in *v1alpha1.WindowsInstanceInspection) int64 {
	if disk := systemDisk(in); disk != nil {
		return disk.Free.Value()
	}
	return 0
}

// share is how many percent are used of a total of which some are free.
func share(total, free resource.Quantity) int64 {
	if total.Value() <= 0 {
		return 0
	}
	return (total.Value() - free.Value()) * 100 / total.Value()
}

// bytesOf is an amount of memory or disk as people say it.
func bytesOf(q resource.Quantity) string {
	const kibi = 1024
	value, unit := float64(q.Value()), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for value >= kibi && unit < len(units)-1 {
		value /= kibi
		unit++
	}
	if unit == 0 || value >= 100 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
