// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestNetworkComesAfterABoot: the networks and the endpoint are gone after a boot, and their program makes them again after some time, with
// another address. Until its file has that, the service which needs it does not run, whatever else is repaired; then it runs within seconds.
func TestNetworkComesAfterABoot(t *testing.T) {
	for _, tt := range []struct {
		name string
		// change is what others do to the host before the first look.
		change func(f *fake)
	}{
		{"nothing else differs", func(*fake) {}},
		{"its settings were changed", func(f *fake) {
			f.changeSettings("kube-proxy", func(s *fakeService) { s.Settings.StartType = "Automatic" })
		}},
		{"the program that makes the network is restarted", func(f *fake) {
			f.changeSettings("overlay", func(s *fakeService) { s.Settings.StartType = "Manual" })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := bundles(t)
			f := usedHost(t, b)
			converge(t, f, b)
			f.boot()
			away := func() {
				delete(f.networks, "net")
				delete(f.endpoints, "VIPEndpoint")
			}
			f.address = "10.1.0.9"
			tt.change(f)
			away()
			ctx, cancel := context.WithCancel(t.Context())
			e := engineOf(f)
			looks, most := 0, 3 // the network has come, the endpoint was made, the file was written
			e.Sleep = func(ctx context.Context, d time.Duration) error {
				switch {
				case d == time.Hour || looks > most:
					cancel()
				case d < soon: // something is waited for
					if err := f.sleep(ctx, d); err != nil || looks > 0 {
						return err
					}
					away()
					return nil
				default:
					looks++
				}
				if state := f.services["kube-proxy"].state; looks == 1 && state != ServiceStopped {
					t.Errorf("it is %s with the address of the boot before", state)
				}
				f.makeNetwork()
				return f.sleep(ctx, d)
			}
			if err := e.Run(ctx, RunOptions{Service: api.ServiceName, Every: time.Hour}); err != nil {
				t.Fatal(err)
			}
			if got := f.files[`c:\k\kube-proxy.conf`].Content; got != "vip 10.1.0.9 in 10.1.0.0/24" {
				t.Errorf("its file has %q", got)
			}
			f.check(t, b)
			if starts := f.count("StartService kube-proxy"); looks > most || starts != 2 { // the first one was before the boot
				t.Errorf("looked %d times, started %d times: %q", looks, starts, f.log)
			}
		})
	}
}

// TestNetworkDoesNotCome: a host whose network does not come is not looked at again and again so soon, and says what it lacks.
func TestNetworkDoesNotCome(t *testing.T) {
	b, _ := bundles(t)
	f := usedHost(t, b)
	converge(t, f, b)
	f.boot()
	delete(f.networks, "net")
	delete(f.endpoints, "VIPEndpoint")
	e := engineOf(f)
	soonLooks := 0
	e.Sleep = func(ctx context.Context, d time.Duration) error {
		if d != soon {
			return errors.New("the end")
		}
		soonLooks++
		return f.sleep(ctx, d)
	}
	var last api.Drift
	if err := e.Run(t.Context(), RunOptions{Service: api.ServiceName, Every: time.Hour, Report: func(d api.Drift) { last = d }}); err != nil {
		t.Fatal(err)
	}
	lacks := slices.ContainsFunc(last.Left, func(i api.Item) bool {
		return i.Name == `C:\k\kube-proxy.conf` && strings.Contains(i.Reason, "has no value yet")
	})
	if soonLooks != soonAtMost || !lacks || f.services["kube-proxy"].state != ServiceStopped {
		t.Errorf("looked %d times, it is %s: %+v", soonLooks, f.services["kube-proxy"].state, last)
	}
}
