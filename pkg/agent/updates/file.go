// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package updates

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// maxFile bounds what is read of a file, in bytes. Ours have some kilobytes.
const maxFile = 1 << 20

// Read returns what the service of a host knows of updates, nil if it has not said anything. It may be
// called while the service runs.
func Read(s engine.FileSystem) (*api.WindowsUpdates, error) {
	return readFile[api.WindowsUpdates](s, api.UpdatesPath)
}

// readFile reads a document, nil if there is none.
func readFile[T any](s engine.FileSystem, path string) (*T, error) {
	in, err := s.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none is an ordinary answer
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer in.Close()
	var value T
	if err := json.NewDecoder(io.LimitReader(in, maxFile)).Decode(&value); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &value, nil
}

func writeFile(s engine.FileSystem, path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := s.WriteFile(path, append(text, '\n'), config.AccessAdministrators); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
