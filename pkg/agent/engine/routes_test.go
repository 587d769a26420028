// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// TestRoutesComeBack: the routes of a host are lost with each restart, also one that nobody asked us
// for. The service makes them again, and one that cannot be made stops neither the others nor repairs.
func TestRoutesComeBack(t *testing.T) {
	broken, metadata := netip.MustParsePrefix("169.254.169.123/32"), netip.MustParsePrefix("169.254.169.254/32")
	b := config.Bundle{Document: config.Document{
		Version: config.SchemaVersion, Directories: []config.Directory{{Path: `C:\k`}}, Routes: []netip.Prefix{metadata, broken},
	}}
	f := newFake()
	converge(t, f, b)
	f.boot()
	delete(f.files, `c:\k`)

	var made []netip.Prefix
	var drifts []api.Drift
	ctx, cancel := context.WithCancel(t.Context())
	e := engineOf(f)
	e.Sleep = func(context.Context, time.Duration) error { cancel(); return ctx.Err() }
	err := e.Run(ctx, RunOptions{
		Report: func(d api.Drift) { drifts = append(drifts, d) },
		EnsureRoute: func(_ context.Context, r api.Route) (bool, error) {
			if r.Destination == broken {
				return false, errors.New("there is no default route")
			}
			made = append(made, r.Destination)
			return true, nil
		},
	})
	if err != nil || !slices.Equal(made, []netip.Prefix{metadata}) {
		t.Errorf("made %v, %v", made, err)
	}
	if len(drifts) != 1 || len(drifts[0].Repaired) != 1 || !strings.Contains(drifts[0].Error, "route to 169.254.169.123/32: there is no default route") {
		t.Errorf("reported %+v", drifts)
	}
}
