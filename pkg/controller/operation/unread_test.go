// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

var errUnread = &host.CredentialsError{Secret: "a/b", Unread: true, Err: errors.New("connection refused")}

// awayFor has a question fail for some time from the first time on that it is put, as the credentials for the host cannot be read. meanwhile is what it gives
// right after that, once.
func (f *fixture) awayFor(question string, d time.Duration, meanwhile error) {
	var until time.Time
	f.host.fail[question] = func() error {
		now := time.Now()
		if until.IsZero() {
			until = now.Add(d)
		}
		if now.Before(until) {
			return errUnread
		}
		err := meanwhile
		meanwhile = nil
		return err
	}
}

// TestCredentialsAreNotRead: a leader outlives an API server that is away for 78 seconds, and so does whatever it does on hosts, although it cannot log in to
// them meanwhile. The time does not count, so that a host which does not answer right after that is tried again as well.
func TestCredentialsAreNotRead(t *testing.T) {
	t.Parallel()
	const away = 78 * time.Second
	configured := func(f *fixture) { f.configure() }
	restarts := func(f *fixture) {
		f.configure()
		f.host.impact, f.host.needsReboot = config.ImpactReboot, 1
	}
	sends := func(f *fixture) {
		f.configure()
		f.host.needsFiles = true
	}
	for _, tt := range []struct {
		name, question string
		operation      v1alpha1.Operation
		set            func(*fixture)
		// once: it is no question that is put again to a host that does not answer.
		once   bool
		change change
	}{
		{name: "connecting", question: "Login", operation: rebootOperation(v1alpha1.RebootGraceful)},
		{name: "connecting to a host that is removed, and given up at once", question: "Login", operation: removeOperation(), set: configured, change: givenUpAtOnce},
		{name: "cleaning a host that is given up at once", question: "Cleanup", operation: removeOperation(), set: configured, change: givenUpAtOnce},
		{name: "reading the boot ID after the drain", question: "BootID", operation: rebootOperation(v1alpha1.RebootGraceful)},
		{name: "asking for a restart", question: "Restart", operation: rebootOperation(v1alpha1.RebootGraceful)},
		{name: "inspecting after a restart", question: "Facts", operation: rebootOperation(v1alpha1.RebootForce), once: true},
		{name: "downloading updates", question: "Updates " + string(api.ActionDownload), operation: byController(withUpdates(rebootOperation(v1alpha1.RebootGraceful))), set: func(f *fixture) { f.host.updates.ends = goodUpdates() }},
		{name: "verifying the agent", question: "AgentDigest", operation: reconfigureOperation(), set: configured},
		{name: "inspecting", question: "Facts", operation: reconfigureOperation(), set: configured},
		{name: "planning", question: "Plan", operation: reconfigureOperation(), set: configured},
		{name: "applying", question: "Apply", operation: reconfigureOperation(), set: configured},
		{name: "sending files", question: "Deliver", operation: reconfigureOperation(), set: sends},
		{name: "asking for the restart that a configuration needs", question: "Restart", operation: reconfigureOperation(), set: restarts},
	} {
		for _, after := range []error{nil, errRefusedPort} {
			if after != nil && tt.once {
				continue
			}
			name := tt.name
			if after != nil {
				name += ", and the host does not answer after that"
			}
			inBubble(t, name, func(t *testing.T) {
				f := newFixture(t, newInstance(tt.operation, func(i *v1alpha1.WindowsInstance) {
					if tt.change != nil {
						tt.change(i)
					}
				}))
				if tt.set != nil {
					tt.set(f)
				}
				f.awayFor(tt.question, away, after)
				began := time.Now()
				op := f.finish()
				if op.Phase != v1alpha1.OperationSucceeded || op.HostUnreached() {
					t.Errorf("it is %s: %s", op.Phase, op.Message)
				}
				if f.host.count(tt.question) < 2 || time.Since(began) < away {
					t.Errorf("it was asked %d times in %s", f.host.count(tt.question), time.Since(began))
				}
			})
		}
	}
}

func givenUpAtOnce(i *v1alpha1.WindowsInstance) {
	configuredBefore(i)
	isBeingDeleted(i)
	i.Spec.Removal = &v1alpha1.RemovalOptions{AfterSeconds: new(int64(0))}
	metav1.SetMetaDataAnnotation(&i.ObjectMeta, v1alpha1.SourceAnnotation, "Machine openshift-machine-api/win-1")
}

// TestCredentialsAreNeverRead: nothing waits for them without an end, nor longer than somebody wants it.
func TestCredentialsAreNeverRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, question string
		// canceled is after which time somebody cancels it. 0: nobody does.
		canceled time.Duration
		phase    v1alpha1.OperationPhase
		message  string
		within   time.Duration
	}{
		{"connecting", "Login", 0, v1alpha1.OperationFailed, "The host cannot be logged in to: NotTried: The host was not logged in to: Secret a/b could not be read: connection refused.", unreadPatience + patience},
		{"asking for a restart", "Restart", 0, v1alpha1.OperationFailed, "The host did not accept the restart request: NotTried: ", unreadPatience + 2*patience},
		{"connecting, and canceled", "Login", 10 * time.Second, v1alpha1.OperationCanceled, "", 30 * time.Second},
		{"asking for a restart, and canceled", "Restart", 20 * time.Second, v1alpha1.OperationCanceled, "", 40 * time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(rebootOperation(v1alpha1.RebootForce)))
			f.failWith(tt.question, errUnread)
			began := time.Now()
			r, _ := f.process()
			f.reconcile(r)
			if tt.canceled > 0 {
				f.eventually("it to be under way", func() bool { return time.Since(began) >= tt.canceled })
				f.edit(func(i *v1alpha1.WindowsInstance) {
					i.Status.Operation.CancelRequestedBy, i.Status.Operation.CancelRequestedAt = "bob", new(metav1.Now())
				})
				f.reconcile(r)
			}
			op := f.waitForEnd()
			if op.Phase != tt.phase || !strings.HasPrefix(op.Message, tt.message) {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if took := time.Since(began); took > tt.within || tt.canceled == 0 && took < unreadPatience {
				t.Errorf("it took %s", took)
			}
			if f.host.restarts() > 0 {
				t.Error("the host was restarted")
			}
		})
	}
}
