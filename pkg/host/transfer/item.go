// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
)

// Item is a file that is to be on a host.
type Item struct {
	// Name is for people: it appears in progress and in errors.
	Name string
	// HostPath is where it goes: an absolute path of Windows, with a drive.
	// Its directory is created.
	HostPath string
	// SHA256 is the digest of the content in lower-case hexadecimal, Size its size in bytes.
	SHA256 string
	Size   int64
	// Open opens the content, from its beginning. It may be called several times. It is an error to
	// deliver something else than SHA256 and Size say, and it is detected.
	Open func() (io.ReadSeekCloser, error)
	// Gzip is the same content compressed, which is sent in its place and unpacked on the
	// host. Nil: there is none.
	Gzip *Gzip
}

// Gzip is a content that was compressed with gzip beforehand, always to the same bytes, so that a
// transfer of it can be resumed.
type Gzip struct {
	// SHA256, Size and Open are as in Item, of the compressed content.
	SHA256 string
	Size   int64
	Open   func() (io.ReadSeekCloser, error)
}

// Temporary names: that of the file, 16 digits of the digest, and a suffix for what is
// not complete. The compressed form has a name of its own, so that neither is taken for
// part of the other.
const (
	temporaryDigits = 16
	plainSuffix     = ".part"
	gzipSuffix      = ".gz.part"
)

// temporaryPattern matches the part of a temporary name that follows the name of the file.
var temporaryPattern = regexp.MustCompile(`^\.[0-9a-f]{16}(\.gz)?\.part$`)

// temporary is the path on the host under which the item is written.
func (i *Item) temporary() string {
	suffix := plainSuffix
	if i.Gzip != nil {
		suffix = gzipSuffix
	}
	return i.HostPath + "." + i.SHA256[:temporaryDigits] + suffix
}

// wire is what is sent for the item.
func (i *Item) wire() Gzip {
	if i.Gzip != nil {
		return *i.Gzip
	}
	return Gzip{SHA256: i.SHA256, Size: i.Size, Open: i.Open}
}

// drivePath matches an absolute path on Windows.
var drivePath = regexp.MustCompile(`^[A-Za-z]:[\\/]`)

// sftpPath is a path of the host as SFTP has it: with slashes, a drive being a directory
// below the root.
func sftpPath(hostPath string) string {
	return path.Clean("/" + strings.ReplaceAll(hostPath, `\`, "/"))
}

// validate reports everything that is wrong with the items.
func validate(items []Item) error {
	var errs []error
	taken := map[string]string{}
	for i := range items {
		item := &items[i]
		bad := func(format string, args ...any) {
			errs = append(errs, &Error{Name: item.Name, HostPath: item.HostPath, Err: fmt.Errorf(format, args...)})
		}
		if !drivePath.MatchString(item.HostPath) {
			bad("the path on the host is not absolute")
		}
		// Windows ignores case.
		place := strings.ToLower(sftpPath(item.HostPath))
		if other, ok := taken[place]; ok {
			bad("%s has the same path", other)
		}
		taken[place] = item.Name
		if !isDigest(item.SHA256) || item.Gzip != nil && !isDigest(item.Gzip.SHA256) {
			bad("the digest is no SHA-256 digest in lower-case hexadecimal")
		}
		if item.Size < 0 || item.Gzip != nil && item.Gzip.Size < 0 {
			bad("the size is negative")
		}
		if item.wire().Open == nil {
			bad("the content cannot be opened: Open is nil")
		}
	}
	return errors.Join(errs...)
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && s == strings.ToLower(s)
}
