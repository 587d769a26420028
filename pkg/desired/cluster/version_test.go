// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

func parsed(texts ...string) []*utilversion.Version {
	all := make([]*utilversion.Version, len(texts))
	for i, text := range texts {
		all[i] = release(text)
	}
	return all
}

func TestChoose(t *testing.T) {
	three := parsed("v1.35.4", "v1.36.2", "v1.37.1")
	for _, tt := range []struct {
		name            string
		kubelets        []*utilversion.Version
		server, running string
		unsettled       bool
		want            int
		why             verdict
	}{
		{name: "new host", kubelets: three, server: "v1.36.0", want: 1},
		{name: "new host while older ones may be there", kubelets: three, server: "v1.37.0", unsettled: true, want: 2},
		{name: "newer API server than all", kubelets: three, server: "v1.40.0", want: 2},
		{name: "none fits", kubelets: three, server: "v1.34.9", want: -1, why: allNewer},
		{name: "none fits a host that runs", kubelets: three, server: "v1.34.9", running: "v1.36.2", want: -1, why: allNewer},
		{name: "one of another major", kubelets: parsed("v1.37.1", "v2.0.0"), server: "v1.37.0", want: 0},
		{name: "API server not known", kubelets: three, want: 2},
		{name: "only one, not known", kubelets: parsed("main"), server: "v1.36.0", running: "v1.36.0", want: 0},
		{name: "forward", kubelets: three, server: "v1.37.0", running: "v1.35.4", want: 2},
		{name: "forward, not certain", kubelets: three, server: "v1.37.0", running: "v1.35.4", unsettled: true, want: 0, why: held},
		{name: "forward, not certain, nothing to hold it with", kubelets: three[1:], server: "v1.37.0", running: "v1.35.4", unsettled: true, want: 1},
		{name: "there", kubelets: three, server: "v1.37.0", running: "v1.37.0", unsettled: true, want: 2},
		{name: "one API server is older again", kubelets: three, server: "v1.36.0", running: "v1.37.1", want: 2, why: kept},
		{name: "back on purpose", kubelets: three[:2], server: "v1.37.0", running: "v1.37.1", want: 1},
		{name: "back on purpose by two", kubelets: three[:1], server: "v1.37.0", running: "v1.37.1", unsettled: true, want: 0},
		{name: "only back or too far", kubelets: parsed("v1.35.4", "v1.37.1"), server: "v1.36.0", running: "v1.36.2", want: -1, why: onlyBack},
		{name: "one payload that is newer than the host", kubelets: three[2:], server: "v1.37.0", running: "v1.36.0", unsettled: true, want: 0},
		{name: "patches", kubelets: parsed("v1.36.2", "v1.36.9"), server: "v1.36.0", running: "v1.36.9", want: 1},
		{name: "a patch back", kubelets: parsed("v1.36.2"), server: "v1.36.0", running: "v1.36.9", want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, why := choose(tt.kubelets, Servers{Lowest: release(tt.server), Settled: !tt.unsettled}, release(tt.running))
			if got != tt.want || why != tt.why {
				t.Errorf("got %d, %d, want %d, %d", got, why, tt.want, tt.why)
			}
		})
	}
}

func TestEffective(t *testing.T) {
	for _, tt := range []struct {
		name string
		info version.Info
		want string
	}{
		{"before 1.32", version.Info{Major: "1", Minor: "31+", GitVersion: "v1.31.4-eks-1"}, "1.31.4"},
		{"itself", version.Info{GitVersion: "v1.37.1", EmulationMajor: "1", EmulationMinor: "37"}, "1.37.1"},
		{"emulates", version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1", EmulationMajor: "1", EmulationMinor: "36"}, "1.36"},
		{"no release", version.Info{GitVersion: "v0.0.0-master+$Format:%H$", EmulationMajor: "1", EmulationMinor: "36"}, ""},
	} {
		got := ""
		if v := effective(&tt.info); v != nil {
			got = v.String()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Each question is a connection of its own, so that a load balancer may give it to another API server.
func TestServerVersionConnectsAgain(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"gitVersion":"v1.36.4"}`))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ask := ServerVersion(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	for range 3 {
		if got, err := ask(t.Context()); err != nil || got.Lowest.String() != "1.36.4" || !got.Settled {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	server.Close()
	if n := connections.Load(); n != 3 {
		t.Errorf("3 questions took %d connections", n)
	}
}

// While API servers differ, the oldest counts, and for a time after it was seen last.
func TestSettle(t *testing.T) {
	fake := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	answer, failure := "", error(nil)
	s := settling{period: 10 * time.Minute, clock: fake, seen: map[string]answered{}, ask: func(context.Context) (Servers, error) {
		return Servers{Lowest: release(answer), Settled: true}, failure
	}}
	for _, step := range []struct {
		after   time.Duration
		answer  string
		want    string
		settled bool
	}{
		{0, "v1.36.4", "1.36.4", false},
		{9 * time.Minute, "v1.37.1", "1.36.4", false},
		{time.Minute, "v1.37.1", "1.36.4", true},
		{time.Minute, "v1.37.1", "1.37.1", true},
		{time.Minute, "v1.36.4", "1.36.4", true}, // one that was away
		{9 * time.Minute, "v1.37.1", "1.36.4", true},
		{time.Minute, "", "", true}, // one that does not say it
		{time.Minute, "v1.37.1", "1.37.1", true},
		{11 * time.Minute, "v1.37.1", "1.37.1", false}, // nobody has asked meanwhile
		{10 * time.Minute, "v1.37.2", "1.37.1", true},
	} {
		fake.SetTime(fake.Now().Add(step.after))
		answer = step.answer
		got, err := s.lowest(t.Context())
		if err != nil || got.Settled != step.settled || (got.Lowest == nil) != (step.want == "") || got.Lowest != nil && got.Lowest.String() != step.want {
			t.Errorf("%+v: got %+v, %v", step, got, err)
		}
	}
	// A short period is not taken for a pause.
	s.period = time.Second
	for range 2 {
		fake.SetTime(fake.Now().Add(10 * time.Second))
		if got, err := s.lowest(t.Context()); err != nil || !got.Settled || got.Lowest.String() != "1.37.2" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	failure = errors.New("away")
	if _, err := s.lowest(t.Context()); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
