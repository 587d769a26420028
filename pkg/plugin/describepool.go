// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// describePools shows pools, each with its hosts.
func (e *env) describePools(ctx context.Context, names []string) error {
	for i, name := range names {
		c, pool, err := e.pool(ctx, name)
		if err != nil {
			return err
		}
		f := &rolloutFollower{e: e, c: c, pool: pool}
		if err := f.list(ctx); err != nil {
			return err
		}
		events, err := c.events(ctx, "WindowsNodePool", &f.pool.ObjectMeta)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			e.note("the events cannot be read: %s", describeError(err))
		}
		if i > 0 {
			if err := e.print("\n\n"); err != nil {
				return err
			}
		}
		if err := e.print(describePool(f.pool, f.sorted(), events, time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// describePool is a pool in words.
func describePool(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance, events []corev1.Event, now time.Time) string {
	var b strings.Builder
	paused := "no"
	if pool.Spec.Paused {
		paused = "yes"
	}
	rows := [][]string{
		{"Name:", pool.Name},
		{"Namespace:", pool.Namespace},
		{"Source:", sourceOf(&pool.Spec.Source)},
		{"Created:", ago(pool.CreationTimestamp.Time, now) + " ago"},
		{"Paused:", paused},
		{"Phase:", orNone(string(pool.Status.Phase))},
		{"Updates:", updatesOf(&pool.Spec.UpdateStrategy)},
		{"Restarts:", restartsOf(&pool.Spec.Restarts, now)},
		{"Windows updates:", orNone(strings.TrimPrefix(string(pool.Spec.WindowsUpdates.Install), string(v1alpha1.InstallNone)))},
		{"Remediation:", remediationOf(pool.Spec.Remediation)},
	}
	if bastion := pool.Spec.Template.Bastion; bastion != nil {
		rows = append(rows, []string{"Bastion:", describeBastion(bastion)})
	}
	b.WriteString(columns(rows) + "\n" + poolTree(pool, hosts))
	describeConditions(&b, pool.Status.Conditions, now, needsAttentionOfPool(pool.Status.Conditions))
	describeEvents(&b, events, now)
	return b.String()
}

func sourceOf(source *v1alpha1.PoolSource) string {
	switch {
	case source.ConfigMap != nil:
		return "ConfigMap " + source.ConfigMap.Name
	case source.MachineSet != nil:
		return "MachineSet " + source.MachineSet.Name
	}
	return "instances created by hand"
}

func updatesOf(s *v1alpha1.PoolUpdateStrategy) string {
	text := "at most " + s.RollingUpdate.MaxUnavailable.String() + " of the pool out of service"
	if s.Type == v1alpha1.OnRequest {
		text = "on request, " + text
	}
	if n := s.RollingUpdate.Canary; n != nil {
		text += ", " + n.String() + " first"
	}
	if w := s.Window; w != nil {
		text += fmt.Sprintf(", for %s from %q (%s)", time.Duration(w.DurationSeconds)*time.Second, w.Schedule, w.TimeZone)
	}
	text += fmt.Sprintf("; no further host while more than %d are broken", ptr.Deref(s.RollingUpdate.MaxFailures, 0))
	if s.RollingUpdate.OnFailure == v1alpha1.FailureRollback {
		text += "; hosts that it breaks go back"
	}
	return text
}

func restartsOf(r *v1alpha1.PoolRestarts, now time.Time) string {
	text := "never by the controller"
	if r.Policy == v1alpha1.RestartWhenPending {
		text = "when Windows waits for one"
	}
	switch {
	case r.After == nil:
	case r.After.After(now):
		text += ", and of all hosts at " + r.After.UTC().Format(time.RFC3339)
	default:
		text += ", and of all hosts " + ago(r.After.Time, now) + " ago"
	}
	return text
}

func remediationOf(r *v1alpha1.PoolRemediation) string {
	if r == nil {
		return none
	}
	actions := make([]string, len(r.Actions))
	for i, action := range r.Actions {
		actions[i] = string(action)
	}
	return fmt.Sprintf("%s, after %s, unless more than %s are not ready", strings.Join(actions, ", "), time.Duration(*r.AfterSeconds)*time.Second, r.MaxUnhealthy.String())
}

// needsAttentionOfPool returns whether somebody may have to act because of one of the conditions of a pool, and its message is in no
// other one.
func needsAttentionOfPool(all []metav1.Condition) func(metav1.Condition) bool {
	degraded := meta.FindStatusCondition(all, v1alpha1.ConditionDegraded)
	return func(c metav1.Condition) bool {
		switch c.Type {
		case v1alpha1.ConditionDegraded:
			return c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonAsExpected // updates may have failed
		case v1alpha1.ConditionPaused:
			return c.Status != metav1.ConditionFalse
		case v1alpha1.ConditionSourceSynced:
			if c.Status == metav1.ConditionTrue {
				return saysMore(c) // such as Machines that have failed
			}
			return degraded == nil || !strings.Contains(degraded.Message, c.Message)
		case v1alpha1.ConditionUpdated:
			return c.Status == metav1.ConditionUnknown // False: the hosts say it, and the condition Updating
		case v1alpha1.ConditionUpdating:
			// Hosts that are blocked are said below the list of all.
			return c.Status == metav1.ConditionUnknown || c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonUpdateOutstanding
		}
		return c.Status != metav1.ConditionTrue
	}
}
