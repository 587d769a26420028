// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// journal notes what the program of a service does.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, fmt.Sprintf(format, args...))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.entries, ", ")
}

// program is one that runs until it is stopped.
func (j *journal) program(ctx context.Context, s winhost.ServiceStart) error {
	j.add("%s on %s: %s", s.Name, s.Hostname, s.CommandLine[strings.LastIndexByte(s.CommandLine, '\\')+1:])
	<-ctx.Done()
	j.add("%s ends", s.Name)
	return nil
}

// startServiceHost starts a host and configures it with the services base and above.
func startServiceHost(t *testing.T, o winhost.InProcessOptions) (*configured, config.Bundle) {
	t.Helper()
	signer := NewKey(t)
	h := Start(t, winhost.Options{Name: "services", AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}, InProcess: o})
	program, _ := fakeAgent(t, h, signer)
	c := &configured{T: t, host: h, signer: signer, agent: program, payload: map[string][]byte{}}
	b := c.document([]byte("a program"))
	b.Document.Environment = nil // so that no restart is asked for
	return c, b
}

// facts asks the agent.
func (c *configured) facts() api.Facts {
	c.Helper()
	var f api.Facts
	if err := json.Unmarshal(output(c.T, c.host, c.signer, c.agent+" facts", nil), &f); err != nil {
		c.Fatal(err)
	}
	return f
}

func TestInProcessServices(t *testing.T) {
	var log journal
	c, b := startServiceHost(t, winhost.InProcessOptions{Services: map[string]winhost.ServiceFunc{"base": log.program}})
	b.Document.Hostname = "renamed"
	c.plan(b)
	if r := c.change("apply", c.request(b)); r.Outcome != api.OutcomeRebootRequired {
		t.Fatalf("first: %+v", r)
	}
	if f := c.facts(); f.Name.Hostname != "services" || f.Name.Pending != "renamed" || !f.PendingReboot.Pending {
		t.Errorf("before the restart: %+v, %+v", f.Name, f.PendingReboot)
	}
	if err := c.host.Reboot(); err != nil {
		t.Fatal(err)
	}
	if f := c.facts(); f.Name.Hostname != "renamed" || f.Name.NetBIOS != "RENAMED" || f.Name.Pending != "" || f.PendingReboot.Pending {
		t.Errorf("after the restart: %+v, %+v", f.Name, f.PendingReboot)
	}
	if r := c.apply(b); r.Outcome != api.OutcomeApplied {
		t.Fatalf("second: %+v", r)
	}
	started := `base on renamed: started first`
	Eventually(t, "the program runs", func() bool { return log.String() == started })

	// With the power the program ends, and with the host it starts.
	if err := c.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if got, want := log.String(), started+", base ends"; got != want {
		t.Fatalf("after the end of the power: %s, want %s", got, want)
	}
	if err := c.host.PowerOn(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the program runs again", func() bool { return log.String() == started+", base ends, "+started })
	if r := c.change("apply", c.request(b)); r.Outcome != api.OutcomeUnchanged {
		t.Errorf("again: %+v", r)
	}
	if r := c.change("cleanup", nil); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	if got := log.String(); !strings.HasSuffix(got, "base ends") {
		t.Errorf("after the removal: %s", got)
	}
}

// TestInProcessServiceEnds: a program that ends by itself is a service that has stopped.
func TestInProcessServiceEnds(t *testing.T) {
	c, b := startServiceHost(t, winhost.InProcessOptions{Services: map[string]winhost.ServiceFunc{
		"base": func(context.Context, winhost.ServiceStart) error { return errors.New("it has no reason to live") },
	}})
	c.plan(b)
	r := c.change("apply", c.request(b))
	if r.Outcome != api.OutcomeFailed && r.Outcome != api.OutcomeApplied {
		t.Errorf("got %+v", r)
	}
	Eventually(t, "the service has stopped", func() bool {
		p := c.plan(b)
		return len(p.Items) > 0 && strings.Contains(reasons(p.Items), "base")
	})
}

func TestInProcessServiceFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault winhost.Fault
		// want is in the error, or in the progress where it succeeds.
		want string
	}{
		{"a start that fails", winhost.Fault{FailStart: "base"}, "timely fashion"},
		{"a file in use", winhost.Fault{FileInUse: `base\.conf$`}, "in use"},
		{"a full disk", winhost.Fault{DiskFull: true}, "no space left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, b := startServiceHost(t, winhost.InProcessOptions{})
			if r := c.apply(b); r.Outcome != api.OutcomeApplied {
				t.Fatalf("first: %+v", r)
			}
			b.Document.Files[1] = textOnHost(`C:\k\base.conf`, "two", "base")
			setFault(t, c.host, tt.fault, nil)
			r := c.change("apply", c.request(b))
			if r.Outcome != api.OutcomeFailed || !strings.Contains(r.Error, tt.want) {
				t.Errorf("got %s: %s, want an error with %q", r.Outcome, r.Error, tt.want)
			}
			heal(t, c.host)
			if r := c.apply(b); r.Outcome != api.OutcomeApplied {
				t.Errorf("afterwards: %+v", r)
			}
		})
	}
}
