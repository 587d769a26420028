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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

func newDescribe(e *env) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:   "describe (NAME... | wnp/POOL... | -l SELECTOR | --pool POOL | -A)",
		Short: "Show everything about a host, or a pool with its hosts",
		Long: `Show everything that is known of a host: how it is reached, what it is, its conditions with
what to do about them, its host keys, its operations, and its events. Of a pool: what it does with its hosts, how
far each is, and what they wait for.`,
		Example: `  kubectl windows describe win-6
  kubectl windows describe wnp/windows-instances
  kubectl windows describe -A --field-selector status.phase=Failed`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.ContainsFunc(args, func(arg string) bool { return !namesPool(arg) }) {
				return e.describePools(cmd.Context(), args)
			}
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
					// The error explains why the instance cannot be read.
					if _, err := c.windows.WindowsInstances(t.Namespace).Get(cmd.Context(), t.Name, metav1.GetOptions{}); err != nil {
						return err
					}
				}
				if i > 0 {
					if err := e.print("\n\n"); err != nil {
						return err
					}
				}
				events, err := c.events(cmd.Context(), "WindowsInstance", &t.ObjectMeta)
				switch {
				case cmd.Context().Err() != nil:
					return cmd.Context().Err()
				case err != nil:
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

// events are those of an object, oldest first.
func (c *client) events(ctx context.Context, kind string, object *metav1.ObjectMeta) ([]corev1.Event, error) {
	list, err := c.core.Events(object.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": kind, "involvedObject.name": object.Name, "involvedObject.uid": string(object.UID),
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
	paused := "no"
	if spec.Paused {
		paused = "yes"
	}
	rows := [][]string{
		{"Name:", instance.Name},
		{"Namespace:", instance.Namespace},
		{"Labels:", labels.FormatLabels(instance.Labels)},
		{"Source:", cmp.Or(instance.Annotations[v1alpha1.SourceAnnotation], "created by hand")},
		{"Created:", ago(instance.CreationTimestamp.Time, now) + " ago"},
		{"Address:", addressOf(spec, status)},
		{"User:", orNone(spec.Username)},
		{"Credentials:", credentials(spec)},
		{"Key:", loginKey(status, now)},
		{"Pool:", poolOf(spec)},
		{"Paused:", paused},
		{"Phase:", phaseOf(instance)},
		{"Node:", nodeAndName(spec, status)},
		{"System:", systemOf(status.System, now)},
		{"Updates:", pendingUpdates(status.WindowsUpdates, now)},
	}
	rows = append(rows, failedUpdates(instance, now)...)
	rows = append(rows, []string{"Version:", orNone(status.Version)}, []string{"Revision:", revisionOf(status)})
	if bastion := bastionOf(spec, status); bastion != "" {
		rows = append(rows, []string{"Bastion:", bastion})
	}
	if spec.Removal != nil {
		rows = append(rows, []string{"Removal:", removalOf(spec.Removal)})
	}
	b.WriteString(columns(rows))
	describeHostKeys(&b, status.HostKeys, now)
	describeConditions(&b, status.Conditions, now, needsAttention)
	describeOperations(&b, status, now)
	describeEvents(&b, events, now)
	return b.String()
}

// pendingUpdates says which updates of Windows wait.
func pendingUpdates(u *v1alpha1.WindowsUpdatesStatus, now time.Time) string {
	if u == nil {
		return none
	}
	text := "not searched for yet"
	if u.SearchedAt != nil {
		text = fmt.Sprintf("%d pending, %d of them for security, searched for %s ago", u.Pending, u.Security, ago(u.SearchedAt.Time, now))
	}
	if u.Message != "" {
		text += "; the last search failed: " + words.OneLine(u.Message)
	}
	return text
}

// failedUpdates says which updates of Windows could not be installed, and until when they are left alone.
func failedUpdates(i *v1alpha1.WindowsInstance, now time.Time) [][]string {
	if i.Status.WindowsUpdates == nil {
		return nil
	}
	var rows [][]string
	for _, f := range i.Status.WindowsUpdates.Failed {
		install := v1alpha1.InstallAll
		if f.Security {
			install = v1alpha1.InstallSecurity
		}
		text := f.Name + ": " + orNone(words.OneLine(f.Message))
		if f.Interactive {
			rows = append(rows, []string{"Failed update:", text})
			continue
		}
		if f.RetryAt.After(now) {
			text += "; not tried again for " + duration.HumanDuration(f.RetryAt.Sub(now))
		}
		rows = append(rows, []string{"Failed update:", fmt.Sprintf("%s; to try it now: kubectl windows reboot %s -n %s --install-updates=%s", text, i.Name, i.Namespace, install)})
	}
	return rows
}

func addressOf(spec *v1alpha1.WindowsInstanceSpec, status *v1alpha1.WindowsInstanceStatus) string {
	text := fmt.Sprintf("%s port %d", spec.Address, spec.Port)
	if len(status.Addresses) > 0 && !slices.Equal(status.Addresses, []string{spec.Address}) {
		text += " (" + strings.Join(status.Addresses, ", ") + ")"
	}
	return text
}

// bastionOf is the bastion of the instance itself, else the one that its host was last reached through. Empty: none.
func bastionOf(spec *v1alpha1.WindowsInstanceSpec, status *v1alpha1.WindowsInstanceStatus) string {
	switch b := spec.Bastion; {
	case b != nil:
		return describeBastion(b)
	case status.Bastion != "":
		return status.Bastion + ", of the pool"
	}
	return ""
}

func describeBastion(b *v1alpha1.Bastion) string {
	return fmt.Sprintf("%s, user %s, Secret %s", b.Endpoint(), b.Username, b.CredentialsSecretRef.Name)
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
	case removal.AfterSeconds != nil:
		return "the host is cleaned; given up if it cannot be reached for " + duration.HumanDuration(time.Duration(*removal.AfterSeconds)*time.Second)
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

// section writes a part of the text: rows below a title.
func section(b *strings.Builder, title string, rows [][]string) {
	b.WriteString("\n" + title + ":\n")
	for line := range strings.Lines(columns(rows)) {
		b.WriteString("  " + line)
	}
}

// tableSection writes a section with a table, or that there is nothing for it. The first row
// are the names of the columns.
func tableSection(b *strings.Builder, title string, rows [][]string) {
	if len(rows) == 1 {
		b.WriteString("\n" + title + ": " + none + "\n")
		return
	}
	section(b, title, rows)
}

func describeHostKeys(b *strings.Builder, keys []v1alpha1.HostKeyStatus, now time.Time) {
	rows := [][]string{{"TYPE", "FINGERPRINT", "TRUSTED BY", "SINCE"}}
	for _, key := range keys {
		rows = append(rows, []string{key.Type, key.Fingerprint, string(key.TrustedBy), ago(key.FirstSeen.Time, now)})
	}
	tableSection(b, "Host keys", rows)
}

func describeConditions(b *strings.Builder, conditions []metav1.Condition, now time.Time, important func(metav1.Condition) bool) {
	rows := [][]string{{"TYPE", "STATUS", "SINCE", "REASON"}}
	for _, condition := range conditions {
		rows = append(rows, []string{condition.Type, string(condition.Status), ago(condition.LastTransitionTime.Time, now), condition.Reason})
	}
	tableSection(b, "Conditions", rows)
	// What to do stands below the table: messages are whole sentences, with commands
	// to copy.
	for _, condition := range conditions {
		if advice := strings.TrimSpace(condition.Message); advice != "" && important(condition) {
			fmt.Fprintf(b, "\n  %s: %s\n", condition.Type, strings.ReplaceAll(advice, "\n", "\n    "))
		}
	}
}

// needsAttention says whether somebody may have to act because of a condition.
func needsAttention(condition metav1.Condition) bool {
	switch condition.Type {
	case v1alpha1.ConditionReady:
		return false // it only repeats the one that is in the way
	case v1alpha1.ConditionConfigured:
		if condition.Reason == v1alpha1.ReasonNotManaged {
			return false // the cluster does not configure hosts on purpose
		}
	case v1alpha1.ConditionUpToDate:
		if condition.Status == metav1.ConditionTrue {
			return saysMore(condition) // what is to come, or was changed by others, after the revision
		}
	case v1alpha1.ConditionCredentialsCurrent:
		if condition.Status == metav1.ConditionTrue {
			return saysMore(condition) // of former keys that the host may still accept
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

// saysMore says whether the message of a condition that holds has more than one sentence. The first one is what is well.
func saysMore(condition metav1.Condition) bool {
	return strings.Contains(condition.Message, ". ") || strings.Contains(condition.Message, ".\n")
}

func describeOperations(b *strings.Builder, status *v1alpha1.WindowsInstanceStatus, now time.Time) {
	if op := status.Operation; op != nil {
		section(b, "Operation", operationRows(op, now))
		rows := [][]string{{"STEP", "STATE", "TOOK", "MESSAGE"}}
		for _, step := range op.Steps {
			rows = append(rows, []string{step.Name, string(step.State), took(step.StartedAt, step.FinishedAt, now), words.OneLine(step.Message)})
		}
		if len(op.Steps) > 0 {
			section(b, "Steps", rows)
		}
	} else {
		b.WriteString("\nOperation: " + none + "\n")
	}
	rows := [][]string{{"OPERATION", "PHASE", "BY", "AGE", "TOOK", "MESSAGE"}}
	for _, op := range status.History {
		rows = append(rows, []string{string(op.Type), string(op.Phase), op.RequestedBy, ago(op.RequestedAt.Time, now), took(op.StartedAt, op.FinishedAt, now), words.OneLine(op.Message)})
	}
	if len(status.History) > 0 {
		section(b, "History", rows)
	}
}

// operationRows are the fields of an operation that have a value.
func operationRows(op *v1alpha1.Operation, now time.Time) [][]string {
	rows := [][]string{
		{"Type:", string(op.Type)},
		{"Phase:", string(op.Phase)},
		{"Requested by:", op.RequestedBy + ", " + ago(op.RequestedAt.Time, now) + " ago"},
		{"Origin:", string(originOf(op))},
		{"Took:", took(op.StartedAt, op.FinishedAt, now)},
		{"ID:", op.ID},
		{"Revision:", v1alpha1.ShortRevision(op.Revision)},
		{"Pool revision:", op.PoolRevision},
		{"Impact:", string(op.Impact)},
		{"Message:", words.OneLine(op.Message)},
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
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })
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

func describeEvents(b *strings.Builder, events []corev1.Event, now time.Time) {
	rows := [][]string{{"TYPE", "REASON", "AGE", "FROM", "MESSAGE"}}
	for _, event := range events {
		count := event.Count
		if event.Series != nil {
			count = max(count, event.Series.Count)
		}
		age := ago(lastSeen(event), now)
		if count > 1 {
			age += fmt.Sprintf(" (x%d)", count)
		}
		rows = append(rows, []string{event.Type, event.Reason, age, cmp.Or(event.ReportingController, event.Source.Component), words.OneLine(event.Message)})
	}
	tableSection(b, "Events", rows)
}
