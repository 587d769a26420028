// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows/registry"
)

// All functions read below HKEY_LOCAL_MACHINE. A missing key or value is an error that wraps
// [registry.ErrNotExist].

func withKey(path string, read func(registry.Key) error) error {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return fmt.Errorf(`opening HKLM\%s: %w`, path, err)
	}
	defer k.Close() //nolint:errcheck // only read
	return read(k)
}

// readValue reads one value by the method of [registry.Key] for its type.
func readValue[T any](path, name string, get func(k registry.Key, name string) (T, uint32, error)) (value T, err error) {
	err = withKey(path, func(k registry.Key) error {
		if value, _, err = get(k, name); err != nil {
			return fmt.Errorf(`reading HKLM\%s %s: %w`, path, name, err)
		}
		return nil
	})
	return value, err
}

func readString(path, name string) (string, error) {
	return readValue(path, name, registry.Key.GetStringValue)
}

func keyExists(path string) (bool, error) {
	err := withKey(path, func(registry.Key) error { return nil })
	return err == nil, notMissing(err)
}

func valueExists(path, name string) (bool, error) {
	err := withKey(path, func(k registry.Key) error {
		_, _, err := k.GetValue(name, nil)
		return err
	})
	return err == nil, notMissing(err)
}

// notMissing drops the error that something does not exist.
func notMissing(err error) error {
	if errors.Is(err, registry.ErrNotExist) {
		return nil
	}
	return err
}
