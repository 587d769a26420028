// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/test/winhost"
)

func bootOf(t *testing.T, h winhost.Host, signer ssh.Signer) api.BootFacts {
	t.Helper()
	program, _ := installAgent(t, h, signer)
	var boot api.BootFacts
	if err := json.Unmarshal(output(t, h, signer, program+" boot", nil), &boot); err != nil {
		t.Fatal(err)
	}
	return boot
}

// restart asks the agent to end a boot. Nil: the host went down with the answer.
func restart(t *testing.T, h winhost.Host, signer ssh.Signer, bootID string) *api.RestartAnswer {
	t.Helper()
	program, _ := installAgent(t, h, signer)
	var out bytes.Buffer
	if err := (&client{host: h, signer: signer}).run(t.Context(), program+" restart", strings.NewReader(restartRequest(bootID)), &out); err != nil {
		return nil
	}
	answer := &api.RestartAnswer{}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// mustAnswer fails the test unless the host, which does not go down, has answered that.
func mustAnswer(t *testing.T, got *api.RestartAnswer, want api.RestartAnswer) {
	t.Helper()
	if got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func restartRequest(bootID string) string {
	return fmt.Sprintf(`{"bootID":%q,"reason":"a test","force":true}`, bootID)
}

func answers(t *testing.T, h winhost.Host, signer ssh.Signer) func() bool {
	return func() bool { return try(t, h, signer, "hostname", "") == outcome{atEnd, "ok"} }
}

// restart: what the agent asks for is a real boot, and there is one for each request.
func (c contract) restart(t *testing.T) {
	first := bootOf(t, c.host, c.signer)
	if first.ID == "" || first.ID != factsOf(t, c.host, c.signer).Boot.ID {
		t.Errorf("boot is called %q, and another way in the facts", first.ID)
	}
	before := c.host.Restarts()
	program, _ := installAgent(t, c.host, c.signer)
	open := dial(t, c.host, c.signer)
	if got, want := restart(t, c.host, c.signer, first.ID), (api.RestartAnswer{BootID: first.ID}); got != nil && *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// Once more while the host goes down, which may be too late to log in.
	again := &client{host: c.host, signer: c.signer}
	_ = again.run(t.Context(), program+" restart", strings.NewReader(restartRequest(first.ID)), io.Discard)
	_ = open.Wait() // the connection is cut
	Eventually(t, "the host is back", answers(t, c.host, c.signer))

	second := bootOf(t, c.host, c.signer)
	if second.ID == first.ID || !second.Time.After(first.Time) {
		t.Errorf("after the restart boot %+v, before it %+v", second, first)
	}
	mustAnswer(t, restart(t, c.host, c.signer, first.ID), api.RestartAnswer{BootID: second.ID, Restarted: true})
	if got := c.host.Restarts() - before; got != 1 {
		t.Errorf("the host restarted %d times", got)
	}
}

// TestRestartOptions: hosts that do not come back, come back late, or do not go down.
func TestRestartOptions(t *testing.T) {
	signer := NewKey(t)
	h := Start(t, winhost.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}, Restart: winhost.RestartOptions{StaysOff: true}})
	restartOnce := func() (cut *ssh.Client) {
		t.Helper()
		open := dial(t, h, signer)
		boot := bootOf(t, h, signer)
		if got := restart(t, h, signer, boot.ID); got != nil && got.Restarted {
			t.Errorf("got %+v", got)
		}
		return open
	}

	_ = restartOnce().Wait()
	Eventually(t, "the restart is counted", func() bool { return h.Restarts() == 1 })
	if got := try(t, h, signer, "hostname", ""); got != (outcome{atConnect, "refused"}) {
		t.Errorf("a host that stays off: got %+v", got)
	}
	if err := h.PowerOn(); err != nil {
		t.Fatal(err)
	}

	h.SetRestart(winhost.RestartOptions{Takes: 200 * time.Millisecond})
	_ = restartOnce().Wait()
	Eventually(t, "the host is back", answers(t, h, signer))

	h.SetRestart(winhost.RestartOptions{Ignored: true})
	open, before := restartOnce(), bootOf(t, h, signer).ID
	// A second request changes nothing, and the host goes on.
	mustAnswer(t, restart(t, h, signer, before), api.RestartAnswer{BootID: before})
	if _, _, err := open.SendRequest("keepalive@openssh.com", true, nil); err != nil || h.Restarts() != 2 {
		t.Errorf("a host that ignores the request: connection %v, restarts %d, want 2", err, h.Restarts())
	}

	// A host that waits to boot can be closed, which the end of the test does.
	h.SetRestart(winhost.RestartOptions{})
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	h.SetRestart(winhost.RestartOptions{Takes: time.Hour})
	_ = restartOnce().Wait()
}
