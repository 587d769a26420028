// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"os"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// TestLockIsReleased: whoever reads who has the lock, as the service does each minute and as scanners of
// viruses do, does not make a failure of what was done with it.
func TestLockIsReleased(t *testing.T) {
	if err := os.MkdirAll(api.Root, 0o700); err != nil {
		t.Fatal(err)
	}
	system := &windowsSystem{}
	release, err := system.Lock(engine.Owner{PID: 1, Command: "apply"})
	if err != nil {
		t.Fatal(err)
	}
	if owner := readOwner(); owner.PID != 1 {
		t.Errorf("the owner is %+v", owner)
	}
	var locked *engine.LockedError
	if _, err := system.Lock(engine.Owner{PID: 2, Command: "apply"}); !errors.As(err, &locked) || locked.Owner.PID != 1 {
		t.Errorf("a second one has it, %v", err)
	}
	reader, err := os.Open(ownerFile) // it lets nobody remove the file
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	release, err = system.Lock(engine.Owner{PID: 3, Command: "apply"})
	if err != nil {
		t.Fatal(err)
	}
	if owner := readOwner(); owner.PID != 3 {
		t.Errorf("the next owner is %+v", owner)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if owner := readOwner(); owner != (engine.Owner{}) {
		t.Errorf("nobody has it, and the owner is %+v", owner)
	}
}
