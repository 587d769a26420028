// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hosttest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// Snapshot is what is on the disk of a host of TierWine: the digest of each file, and the
// values of each key of the registry that has any.
type Snapshot map[string]string

// own are the keys that Windows or Wine change by themselves, or that stay as they were made.
var own = []string{
	`\\PrefetchParameters]`, // the number of the boot
	`\\CurrentVersion\\Fonts]`,
	`[System\\CurrentControlSet\\Control\\Class\\{4D36E968-E325-11CE-BFC1-08002BE10318}`, // the display adapter
	`[Software\\Winhost\\Features]`,                       // a feature stays enabled
	`[System\\CurrentControlSet\\Control\\ComputerName\\`, // a host keeps its name
}

// TakeSnapshot reboots a host of TierWine, so that everything is on its disk, and looks at
// that from outside.
func TakeSnapshot(tb testing.TB, h winhost.Host) Snapshot {
	tb.Helper()
	if err := h.Reboot(); err != nil {
		tb.Fatal(err)
	}
	drive, err := h.LocalPath(`C:\`)
	if err != nil {
		tb.Fatal(err)
	}
	s := Snapshot{}
	err = filepath.WalkDir(drive, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(drive, path)
		switch {
		case err != nil:
			return err
		case name == "winsshd": // what the host itself is made with
			return fs.SkipDir
		case d.IsDir():
			s[name+"/"] = ""
			return nil
		case d.Type() == fs.ModeSymlink: // to a file of Wine's own
			s[name], err = os.Readlink(path)
			return err
		}
		content, err := os.ReadFile(path)
		s[name] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.addRegistry(Registry(tb, h))
	return s
}

// Registry is the file in which a host of TierWine keeps HKEY_LOCAL_MACHINE, as it is on the
// disk: what was changed lately comes there with a reboot, or within half a minute.
func Registry(tb testing.TB, h winhost.Host) string {
	tb.Helper()
	drive, err := h.LocalPath(`C:\`)
	if err != nil {
		tb.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(filepath.Dir(drive), "system.reg"))
	if err != nil {
		tb.Fatal(err)
	}
	return string(file)
}

// addRegistry reads a registry file of Wine: keys in brackets with the time of their last
// change, then their values.
func (s Snapshot) addRegistry(file string) {
	var key string
	for line := range strings.Lines(file) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(text, "#") || strings.HasPrefix(text, ";;"):
		case strings.HasPrefix(text, `"Hostname"=`): // a host keeps its name
		case strings.HasPrefix(text, "["):
			key = text[:strings.LastIndexByte(text, ']')+1]
			if slices.ContainsFunc(own, func(part string) bool { return strings.Contains(key, part) }) {
				key = ""
			}
		case key != "":
			s[key] += text + "\n"
		}
	}
}

// Differences lists what is only in s, only in after, or not the same.
func (s Snapshot) Differences(after Snapshot) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if now, ok := after[name]; !ok {
			list = append(list, "gone: "+name)
		} else if now != s[name] {
			list = append(list, fmt.Sprintf("changed: %s\n%s->\n%s", name, s[name], now))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := s[name]; !ok {
			list = append(list, fmt.Sprintf("new: %s %.200s", name, after[name]))
		}
	}
	return list
}
