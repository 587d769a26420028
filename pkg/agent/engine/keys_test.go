// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// TestRunKeepsKeys: the service keeps the keys of a host whatever else is wrong with it, says so, and cleanup forgets them.
func TestRunKeepsKeys(t *testing.T) {
	first, _ := bundles(t)
	f := usedHost(t, first)
	converge(t, f, first)
	for _, path := range []string{api.ReplacedKeysPath, inventoryPath} {
		if err := f.WriteFile(path, []byte("damaged"), config.AccessAdministrators); err != nil {
			t.Fatal(err)
		}
	}
	var drifts []api.Drift
	ctx, cancel := context.WithCancel(t.Context())
	e := engineOf(f)
	e.Sleep = func(context.Context, time.Duration) error { cancel(); return ctx.Err() }
	if err := e.Run(ctx, RunOptions{
		Report: func(d api.Drift) { drifts = append(drifts, d) },
		KeepKeys: func() ([]api.Item, error) {
			return []api.Item{{Kind: api.KindFile, Name: "keys", Action: api.ActionUpdate}}, errors.New("one file cannot be written")
		},
	}); err != nil {
		t.Fatal(err)
	}
	if len(drifts) != 1 || len(drifts[0].Repaired) != 1 || drifts[0].Repaired[0].Name != "keys" || !strings.HasPrefix(drifts[0].Error, "one file cannot be written\n") {
		t.Errorf("reported %+v", drifts)
	}
	if err := f.Remove(inventoryPath); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(appliedPath); err != nil {
		t.Fatal(err)
	}
	if result := engineOf(f).Cleanup(t.Context()); result.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", result)
	}
	if info, err := f.Stat(api.ReplacedKeysPath); err != nil || info.Kind != FileMissing {
		t.Errorf("after cleanup: %+v, %v", info, err)
	}
}
