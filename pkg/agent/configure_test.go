// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// TestDriftMessage: people who read the event log learn why something is not repaired.
func TestDriftMessage(t *testing.T) {
	item := func(name string, left api.LeftReason) api.Item {
		return api.Item{Action: api.ActionUpdate, Kind: api.KindFile, Name: name, Reason: "has another content", Left: left}
	}
	want := `This host differed from its desired configuration.
Repaired:
  Update File a: has another content
Not repaired, because it would interrupt the workload or needs a file of the payload:
  Update File b: has another content
Not repaired for some time:
  Update File c: has another content
  Update File d: has another content
Failed: disk full`
	got := driftMessage(api.Drift{
		Repaired: []api.Item{item("a", "")}, Error: "disk full",
		Left: []api.Item{item("c", api.LeftContested), item("b", ""), item("d", api.LeftFailed)},
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestServiceWarns: a service has no standard error, so that what goes wrong in it is in the event log. A person who runs it sees
// what that does not take.
func TestServiceWarns(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		stderr string
	}{
		{"as a service", nil, ""},
		{"without an event log", errors.New("the event log is off"), "windows-node-agent run: the event log is off; it was to get: updates of Windows: no room\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFakeHost(t)
			h.warningErr = tt.err
			var stderr bytes.Buffer
			warn(h, &stderr, "updates of Windows: no room")
			if diff := cmp.Diff([]string{"updates of Windows: no room"}, h.warnings); diff != "" || stderr.String() != tt.stderr {
				t.Errorf("the event log got (-want +got)\n%s, and standard error %q", diff, stderr.String())
			}
		})
	}
}

// gone is a caller that takes nothing any more.
type gone struct{ error }

func (g gone) Write([]byte) (int, error) { return 0, g.error }

// TestChangeThatHangs: one that reports nothing any more is given up, so that its process ends and with it its lock, whether or not
// anybody follows it; one that reports something gets to its end.
func TestChangeThatHangs(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reports int
		hangs   bool
		took    time.Duration
	}{
		{"at once", 0, true, hangsAfter},
		{"after a while", 12, true, 2*time.Hour + hangsAfter},
		{"slow", 12, false, 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hung, over := make(chan struct{}), make(chan struct{})
				change := func(e *engine.Engine) *api.Result {
					defer close(over)
					for range tt.reports {
						<-time.After(10 * time.Minute)
						e.Events(api.Event{Item: "a step"})
					}
					if tt.hangs {
						<-hung
						e.Events(api.Event{Item: "too late"})
					}
					return &api.Result{Outcome: api.OutcomeApplied}
				}
				began := time.Now()
				var out bytes.Buffer
				err := changeHost(newFakeHost(t), &out, nil, change)
				if took := time.Since(began); errors.Is(err, errHangs) != tt.hangs || took != tt.took {
					t.Errorf("after %s: %v", took, err)
				}
				close(hung)
				<-over
				synctest.Wait()
				if steps := strings.Count(out.String(), "a step"); steps != tt.reports || strings.Contains(out.String(), "too late") || strings.Contains(out.String(), `"result"`) == tt.hangs {
					t.Errorf("it printed %s", out.String())
				}
			})
		})
	}
}

// TestCallerThatIsGone: a change gets to its end without its caller, and says once that nobody has read it.
func TestCallerThatIsGone(t *testing.T) {
	done := false
	err := changeHost(newFakeHost(t), gone{fs.ErrClosed}, nil, func(e *engine.Engine) *api.Result {
		for range 3 {
			e.Events(api.Event{Item: "a step"})
		}
		done = true
		return &api.Result{Outcome: api.OutcomeApplied}
	})
	if want := "writing the answer: " + fs.ErrClosed.Error(); !done || err == nil || err.Error() != want {
		t.Errorf("it is done: %v; got %v, want %s", done, err, want)
	}
}

// hungSystem has a Host Networking Service that hangs.
type hungSystem struct{ system }

func (hungSystem) HNSNetwork(ctx context.Context, _ string) (bool, error) {
	<-ctx.Done()
	return false, context.Cause(ctx)
}

type hungHost struct{ *fakeHost }

func (h hungHost) System() System { return hungSystem{system{files: h.files}} }

// TestPlanOfAHostThatHangs: a plan ends before those who wait for it give up, and says why.
func TestPlanOfAHostThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bundle := &config.Bundle{Document: config.Document{Version: config.SchemaVersion, HNS: &config.HNS{Foreign: []string{"pods"}}}}
		encoded, err := bundle.Encode()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = planCommand(t.Context(), hungHost{newFakeHost(t)}, bytes.NewReader(encoded), io.Discard)
		if took := time.Since(began); !errors.Is(err, errPlanTakes) || took != planTakes {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
