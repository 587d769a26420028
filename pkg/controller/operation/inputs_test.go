// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// TestMistakeMeanwhile: an operation that is half way waits until a mistake in the cluster is corrected, for some time. One
// that has done nothing yet says at once what is wrong.
func TestMistakeMeanwhile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// at is the step before which the mistake is made, and lasts for how long it is there.
		at    string
		lasts time.Duration
		want  string // of a failure
	}{
		{name: "before anything was done", at: v1alpha1.StepConnect, lasts: time.Minute, want: "The desired configuration of the host cannot be determined: the Secret is damaged: correct it."},
		{name: "when the Node is cordoned", at: v1alpha1.StepDrain, lasts: 10 * time.Minute},
		{name: "when the host was changed", at: v1alpha1.StepNetwork, lasts: 10 * time.Minute},
		{name: "nobody corrects it", at: v1alpha1.StepDrain, lasts: time.Hour, want: "The desired configuration of the host cannot be determined: after 15m: the Secret is damaged: correct it."},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation()))
			configuration := f.configure()
			f.host.impact = config.ImpactDrain
			var since time.Time
			said := false
			f.onWrite = func(after bool, i *v1alpha1.WindowsInstance) error {
				op := i.Status.Operation
				if step := op.FindStep(tt.at); since.IsZero() && step != nil && step.State != v1alpha1.StepPending {
					since = time.Now()
				}
				said = said || after && strings.HasPrefix(op.Message, "Waiting until somebody corrects what hosts are configured with. The Secret is damaged: correct it.")
				return nil
			}
			configuration.err = func() error {
				if !since.IsZero() && time.Since(since) < tt.lasts {
					return wrongInputError{}
				}
				return nil
			}
			op := f.finish()
			if tt.want == "" && op.Phase != v1alpha1.OperationSucceeded || tt.want != "" && (op.Phase != v1alpha1.OperationFailed || !strings.HasPrefix(op.Message, tt.want)) {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if waits := tt.at != v1alpha1.StepConnect; said != waits {
				t.Errorf("it says what it waits for: %v", said)
			}
		})
	}
}

// wrongInputError is what a configuration says that somebody has to correct.
type wrongInputError struct{}

func (wrongInputError) Error() string        { return "the Secret is damaged: correct it" }
func (wrongInputError) Is(target error) bool { return target == document.ErrInputs }

// TestWithoutWhatCannotBeRead: a host that had no configuration has nothing of what cannot be read that it could keep, also when a probe finds what the
// operation has given it so far. One whose first configuration had everything may have it.
func TestWithoutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	const found = "found by a probe"
	for name, tt := range map[string]struct {
		had             string
		before, applied bool // whether something cannot be read
		want            []string
	}{
		"from the begin":         {before: true, applied: true, want: []string{""}},
		"repaired meanwhile":     {before: true, want: []string{"", found}},
		"broken meanwhile":       {applied: true, want: []string{"", found}},
		"nothing":                {want: []string{"", found}},
		"a configuration before": {had: "old", before: true, applied: true, want: []string{"old", found}},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(reconfigureOperation(), withoutNode, func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = tt.had }))
			c := f.configure()
			c.without = tt.before
			f.registers()
			registers := f.host.onApplied
			f.host.onApplied = func(revision string) {
				registers(revision)
				f.edit(func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = found })
				c.mu.Lock()
				defer c.mu.Unlock()
				c.without = tt.applied
			}
			if op := f.finish(); op.Phase != v1alpha1.OperationSucceeded || f.get().Status.CurrentRevision != found {
				t.Errorf("it is %s: %s", op.Phase, op.Message)
			}
			if got := slices.Compact(c.had); !slices.Equal(got, tt.want) {
				t.Errorf("its configuration was that of a host with the revisions %q, want %q", got, tt.want)
			}
		})
	}
}
