// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func newDescribe(e *env) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:   "describe (NAME... | -l SELECTOR | --pool POOL | -A)",
		Short: "Tell everything about a host",
		Long: `Tell everything that is known of a host: how it is reached, what it is, its conditions with
what to do about them, its host keys, what is being done with it and what was, and its events.`,
		Example: `  kubectl windows describe win-6
  kubectl windows describe -A --field-selector status.phase=Failed`,
		ValidArgsFunction: e.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := e.client()
			if err != nil {
				return err
			}
			targets, err := c.targets(cmd.Context(), args, &s)
			if err != nil {
				return err
			}
			for i, t := range targets {
				if t.UID == "" {
					// One that may not be seen says so itself.
					if _, err := c.windows.WindowsInstances(t.Namespace).Get(cmd.Context(), t.Name, metav1.GetOptions{}); err != nil {
						return err
					}
				}
				if i > 0 {
					if err := e.print("\n\n"); err != nil {
						return err
					}
				}
				events, err := c.events(cmd.Context(), t)
				if err != nil {
					e.note("the events cannot be read: %s", describeError(err))
				}
				if err := e.print(describe(t.WindowsInstance, events, time.Now())); err != nil {
					return err
				}
			}
			return nil
		},
	}
	s.addFlags(e, cmd)
	return cmd
}

// events are those of an instance, oldest first.
func (c *client) events(ctx context.Context, t target) ([]corev1.Event, error) {
	list, err := c.core.Events(t.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": "WindowsInstance", "involvedObject.name": t.Name, "involvedObject.uid": string(t.UID),
	}.AsSelector().String()})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return lastSeen(a).Compare(lastSeen(b)) })
	return list.Items, nil
}

// lastSeen is when an event happened last, in whichever field that is.
func lastSeen(event corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}

const none = "<none>"

func orNone(s string) string { return cmp.Or(s, none) }

// ago is how long ago a time was.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// describe is a host in words.
func describe(instance *v1alpha1.WindowsInstance, events []corev1.Event, now time.Time) string {
	spec, status := &instance.Spec, &instance.Status
	var b strings.Builder
	rows := [][]string{
		{"Name:", instance.Name},
		{"Namespace:", instance.Namespace},
		{"Labels:", pairs(instance.Labels)},
		{"Source:", cmp.Or(instance.Annotations[v1alpha1.SourceAnnotation], "made by hand")},
		{"Created:", ago(instance.CreationTimestamp.Time, now) + " ago"},
		{"Address:", addressOf(spec, status)},
		{"User:", orNone(spec.Username)},
		{"Credentials:", credentials(spec)},
		{"Pool:", poolOf(spec)},
		{"Paused:", yesNo(spec.Paused)},
		{"Phase:", phaseOf(instance)},
		{"Node:", nodeAndName(spec, status)},
		{"System:", systemOf(status.System, now)},
		{"Version:", orNone(status.Version)},
		{"Revision:", revisionOf(status)},
	}
	if spec.Removal != nil {
		rows = append(rows, []string{"Removal:", removalOf(spec.Removal)})
	}
	b.WriteString(columns(rows))
	describeHostKeys(&b, instance, now)
	describeConditions(&b, status.Conditions, now)
	describeOperations(&b, status, now)
	describeEvents(&b, events, now)
	return b.String()
}

func pairs(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return orNone(strings.Join(all, ", "))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func addressOf(spec *v1alpha1.WindowsInstanceSpec, status *v1alpha1.WindowsInstanceStatus) string {
	text := fmt.Sprintf("%s port %d", spec.Address, spec.Port)
	if len(status.Addresses) > 0 && !slices.Equal(status.Addresses, []string{spec.Address}) {
		text += " (" + strings.Join(status.Addresses, ", ") + ")"
	}
	return text
}

func credentials(spec *v1alpha1.WindowsInstanceSpec) string {
	if spec.CredentialsSecretRef == nil {
		return "those of the pool or of the cluster"
	}
	return "Secret " + spec.CredentialsSecretRef.Name
}

func poolOf(spec *v1alpha1.WindowsInstanceSpec) string {
	if spec.PoolRef == nil {
		return none
	}
	return spec.PoolRef.Name
}

func phaseOf(instance *v1alpha1.WindowsInstance) string {
	if instance.DeletionTimestamp != nil {
		return "Removing"
	}
	return orNone(string(instance.Status.Phase))
}

func nodeOf(status *v1alpha1.WindowsInstanceStatus) string {
	if status.Node == nil {
		return none
	}
	return status.Node.Name
}

// nodeAndName is the Node of a host, and the name that it is to have.
func nodeAndName(spec *v1alpha1.WindowsInstanceSpec, status *v1alpha1.WindowsInstanceStatus) string {
	name := nodeOf(status)
	if spec.NodeName != "" && !strings.EqualFold(spec.NodeName, name) {
		name += ", will be " + strings.ToLower(spec.NodeName)
	}
	return name
}

// removalOf says what becomes of the host when its object is deleted.
func removalOf(removal *v1alpha1.RemovalOptions) string {
	switch {
	case removal.Policy == v1alpha1.RemovalAbandon:
		return "the host is left as it is, services and credentials included"
	case removal.After != nil:
		return "the host is cleaned; given up if it cannot be reached for " + duration.HumanDuration(removal.After.Duration)
	default:
		return "the host is cleaned"
	}
}

func systemOf(system *v1alpha1.SystemStatus, now time.Time) string {
	if system == nil {
		return none
	}
	parts := []string{strings.TrimSpace(system.Product + " " + system.Build), system.Architecture}
	if system.CPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d CPUs", system.CPUs))
	}
	if system.Memory != nil {
		parts = append(parts, bytesOf(*system.Memory)+" memory")
	}
	parts = append(parts, cmp.Or(system.FQDN, system.Hostname))
	if system.BootTime != nil {
		parts = append(parts, "started "+ago(system.BootTime.Time, now)+" ago")
	}
	return orNone(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", "))
}

func revisionOf(status *v1alpha1.WindowsInstanceStatus) string {
	current, desired := v1alpha1.ShortRevision(status.CurrentRevision), v1alpha1.ShortRevision(status.DesiredRevision)
	if status.CurrentRevision == status.DesiredRevision {
		return orNone(current)
	}
	return fmt.Sprintf("%s, will become %s", orNone(current), orNone(desired))
}

// section begins a part of the text.
func section(b *strings.Builder, title string, rows [][]string) {
	b.WriteString("\n" + title + "\n")
	for line := range strings.Lines(columns(rows)) {
		b.WriteString("  " + line)
	}
}

func describeHostKeys(b *strings.Builder, instance *v1alpha1.WindowsInstance, now time.Time) {
	if len(instance.Status.HostKeys) == 0 {
		b.WriteString("\nHost keys: " + none + "\n")
		return
	}
	rows := [][]string{{"TYPE", "FINGERPRINT", "TRUSTED BY", "SINCE"}}
	for _, key := range instance.Status.HostKeys {
		rows = append(rows, []string{key.Type, key.Fingerprint, string(key.TrustedBy), ago(key.FirstSeen.Time, now)})
	}
	section(b, "Host keys:", rows)
}

func describeConditions(b *strings.Builder, conditions []metav1.Condition, now time.Time) {
	if len(conditions) == 0 {
		b.WriteString("\nConditions: " + none + "\n")
		return
	}
	rows := [][]string{{"TYPE", "STATUS", "SINCE", "REASON"}}
	for _, condition := range conditions {
		rows = append(rows, []string{condition.Type, string(condition.Status), ago(condition.LastTransitionTime.Time, now), condition.Reason})
	}
	section(b, "Conditions:", rows)
	// What to do stands below the table: messages are whole sentences, with commands
	// that are to be copied.
	for _, condition := range conditions {
		if advice := strings.TrimSpace(condition.Message); advice != "" && wantsAttention(condition) {
			fmt.Fprintf(b, "\n  %s: %s\n", condition.Type, strings.ReplaceAll(advice, "\n", "\n    "))
		}
	}
}

// wantsAttention says whether somebody may have to act because of a condition.
func wantsAttention(condition metav1.Condition) bool {
	switch condition.Type {
	case v1alpha1.ConditionReady:
		return false // it only repeats the one that is in the way
	case v1alpha1.ConditionConfigured:
		if condition.Reason == v1alpha1.ReasonNotManaged {
			return false // that nothing is set up on hosts is how the cluster is run
		}
	case v1alpha1.ConditionUpToDate:
		if condition.Status == metav1.ConditionTrue {
			// The first sentence is the revision. More is what is to come, or was changed by others.
			return strings.Contains(condition.Message, ". ")
		}
	case v1alpha1.ConditionRebootRequired:
		return condition.Status == metav1.ConditionTrue
	case v1alpha1.ConditionPreflightPassed:
		return condition.Reason != v1alpha1.ReasonNotTried // true, it may have warnings
	case v1alpha1.ConditionHostKeyTrusted:
		return condition.Reason != v1alpha1.ReasonNotTried && condition.Reason != v1alpha1.ReasonPinned
	}
	return condition.Status != metav1.ConditionTrue && condition.Reason != v1alpha1.ReasonNotTried
}

func describeOperations(b *strings.Builder, status *v1alpha1.WindowsInstanceStatus, now time.Time) {
	if op := status.Operation; op != nil {
		section(b, "Operation:", operationRows(op, now))
		if len(op.Steps) > 0 {
			rows := [][]string{{"STEP", "STATE", "TOOK", "MESSAGE"}}
			for _, step := range op.Steps {
				rows = append(rows, []string{step.Name, string(step.State), took(step.StartedAt, step.FinishedAt, now), oneLine(step.Message)})
			}
			section(b, "Steps:", rows)
		}
	} else {
		b.WriteString("\nOperation: " + none + "\n")
	}
	if len(status.History) == 0 {
		return
	}
	rows := [][]string{{"OPERATION", "PHASE", "BY", "AGE", "TOOK", "MESSAGE"}}
	for i := range status.History {
		op := &status.History[i]
		rows = append(rows, []string{string(op.Type), string(op.Phase), op.RequestedBy, ago(op.RequestedAt.Time, now), took(op.StartedAt, op.FinishedAt, now), oneLine(op.Message)})
	}
	section(b, "History:", rows)
}

func operationRows(op *v1alpha1.Operation, now time.Time) [][]string {
	rows := [][]string{
		{"Type:", string(op.Type)},
		{"Phase:", string(op.Phase)},
		{"Asked for by:", op.RequestedBy + ", " + ago(op.RequestedAt.Time, now) + " ago"},
		{"Origin:", string(originOf(op))},
		{"Took:", took(op.StartedAt, op.FinishedAt, now)},
		{"ID:", op.ID},
	}
	if op.Revision != "" {
		rows = append(rows, []string{"Revision:", v1alpha1.ShortRevision(op.Revision)})
	}
	if op.Impact != "" {
		rows = append(rows, []string{"Impact:", string(op.Impact)})
	}
	if op.Message != "" {
		rows = append(rows, []string{"Message:", oneLine(op.Message)})
	}
	if op.Progress != nil && op.Active() {
		rows = append(rows, []string{"Progress:", progressOf(op.Progress)})
	}
	for _, pod := range op.BlockedBy {
		rows = append(rows, []string{"Blocked by:", pod.String()})
	}
	if op.CancelRequestedAt != nil {
		rows = append(rows, []string{"Cancel by:", op.CancelRequestedBy + ", " + ago(op.CancelRequestedAt.Time, now) + " ago"})
	}
	return rows
}

// originOf says who wanted an operation, also of one that an earlier release recorded.
func originOf(op *v1alpha1.Operation) v1alpha1.OperationOrigin {
	if op.ByController() {
		return v1alpha1.OriginController
	}
	return v1alpha1.OriginUser
}

// took is how long something lasted, or has been lasting.
func took(from, to *metav1.Time, now time.Time) string {
	switch {
	case from == nil:
		return "-"
	case to == nil:
		return duration.HumanDuration(now.Sub(from.Time))
	}
	return duration.HumanDuration(to.Sub(from.Time))
}

// oneLine keeps a message in its cell.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func describeEvents(b *strings.Builder, events []corev1.Event, now time.Time) {
	if len(events) == 0 {
		b.WriteString("\nEvents: " + none + "\n")
		return
	}
	rows := [][]string{{"TYPE", "REASON", "AGE", "FROM", "MESSAGE"}}
	for _, event := range events {
		age := ago(lastSeen(event), now)
		if count := max(event.Count, seriesCount(event)); count > 1 {
			age += fmt.Sprintf(" (x%d)", count)
		}
		rows = append(rows, []string{event.Type, event.Reason, age, cmp.Or(event.ReportingController, event.Source.Component), oneLine(event.Message)})
	}
	section(b, "Events:", rows)
}

func seriesCount(event corev1.Event) int32 {
	if event.Series == nil {
		return 0
	}
	return event.Series.Count
}
