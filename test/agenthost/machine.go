// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"crypto/rand"
	"os"
)

// MachineFile is where a machine keeps what it is known by, beside its drive C: that of its
// firmware, a slash, and that of its Windows. Tests copy it to make a clone of the machine.
func MachineFile(drive string) string { return drive + ".machine" }

// MachineID is what the machine with that drive is known by. It is chosen at the first call.
func MachineID(drive string) string {
	file := MachineFile(drive)
	if id, err := os.ReadFile(file); err == nil {
		return string(id)
	}
	draft := file + "." + rand.Text()
	if err := os.WriteFile(draft, []byte("firmware-"+rand.Text()+"/windows-"+rand.Text()), 0o600); err != nil {
		return ""
	}
	defer os.Remove(draft)   //nolint:errcheck // a directory of the test
	_ = os.Link(draft, file) // another process may have been faster
	id, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(id)
}

// MachineID implements [agent.Host].
func (h *Host) MachineID() string { return MachineID(h.drive) }
