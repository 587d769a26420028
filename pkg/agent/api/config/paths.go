// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Roots are the directories that files and directories of a document are below, or
// are themselves. Nothing else on a host is written.
func Roots() []string {
	return []string{
		`C:\k`, `C:\var\log`, `C:\var\lib`, `C:\Windows\windows-node-agent`,
		`C:\ProgramData\containerd`, `C:\usr\libexec\kubernetes`,
	}
}

// deviceName matches names of devices. See "Naming Files, Paths, and Namespaces" in the
// documentation of Windows.
var deviceName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³]) *(\.|$)`)

// IsDeviceName says whether Windows opens a device for that name in whatever directory. An
// extension and spaces before it make no difference.
func IsDeviceName(name string) bool { return deviceName.MatchString(name) }

// CheckPath returns why path cannot be the path of a file or directory: it is
// absolute, on a drive, without anything that Windows reads as something else.
func CheckPath(path string) error {
	if len(path) < 4 || !isLetter(path[0]) || path[1:3] != `:\` {
		return fmt.Errorf("path %q is not absolute", path)
	}
	if len(path) > 240 {
		return fmt.Errorf("path %q is too long", path)
	}
	for name := range strings.SplitSeq(path[3:], `\`) {
		switch {
		case name == "" || name == "." || name == "..":
			return fmt.Errorf("path %q has the element %q", path, name)
		case strings.ContainsAny(name, `<>:"/|?*`) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
			// A colon would also open an alternate data stream.
			return fmt.Errorf("path %q has a character that Windows forbids", path)
		case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
			// Windows drops them, and two paths would be one.
			return fmt.Errorf("path %q has an element that ends with a dot or a space", path)
		case IsDeviceName(name):
			return fmt.Errorf("path %q has the name of a device", path)
		}
	}
	return nil
}

// checkOwnPath is CheckPath for what a document puts on a host.
func checkOwnPath(path string) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	if !slices.ContainsFunc(Roots(), func(root string) bool { return Below(path, root) }) {
		return fmt.Errorf("path %q is in none of %s", path, strings.Join(Roots(), ", "))
	}
	return nil
}

// Below says whether path is directory or something in it. Windows ignores
// case.
func Below(path, directory string) bool {
	path, directory = strings.ToLower(path), strings.ToLower(directory)
	return path == directory || strings.HasPrefix(path, strings.TrimSuffix(directory, `\`)+`\`)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
