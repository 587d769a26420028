// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// restartFile is the request for a restart. Its directory is created by the test that runs the
// host and restarts it.
const restartFile = "/run/windows-node-agent/restart"

// Boot tells boots apart by the random UUID that Linux makes for each; see
// Documentation/admin-guide/sysctl/kernel.rst, random.
func (h *Host) Boot(context.Context) (api.BootFacts, error) {
	up, err := uptime()
	if err != nil {
		return api.BootFacts{}, err
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return api.BootFacts{}, fmt.Errorf("reading the ID of the boot: %w", err)
	}
	return api.BootFacts{
		Time:          facts.BootTime(h.Now(), up),
		UptimeSeconds: int64(up.Seconds()),
		ID:            strings.TrimSpace(string(id)),
	}, nil
}

// Restart writes a request for the test that runs the host. It does not call reboot(2): hosts
// of test tiers share a machine with other things, which a mistake must not restart. Without
// the directory the request fails.
func (h *Host) Restart(_ context.Context, r api.RestartRequest) error {
	return requestRestart(restartFile, r)
}

func requestRestart(file string, r api.RestartRequest) error {
	request, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// Two requests at a time must not write to one file.
	tmp, err := os.CreateTemp(filepath.Dir(file), ".restart-")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this host is not restarted on request: %w", err)
	}
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(request, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
