// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// DigestError means that a content is not what the manifest says.
type DigestError struct {
	// Name is that of the file.
	Name string
	// Want is what the manifest says, Got what there is. The digest in Got is empty when
	// the size differs already.
	Want, Got Content
}

// Error names the file and what differs.
func (e *DigestError) Error() string {
	if e.Want.Size != e.Got.Size {
		return fmt.Sprintf("%s has %d bytes, and the manifest says %d", e.Name, e.Got.Size, e.Want.Size)
	}
	return fmt.Sprintf("%s has the SHA-256 digest %s, and the manifest says %s", e.Name, e.Got.SHA256, e.Want.SHA256)
}

// verified hashes what is read through it.
type verified struct {
	file *os.File
	name string
	want Content
	hash hash.Hash
	// hashed is how many bytes from the beginning went into hash, which is also where file stands.
	hashed int64
	// at is where the next Read begins.
	at     int64
	failed error
}

// openVerified opens the file at path. The name is for errors.
func openVerified(name, path string, want Content) (io.ReadSeekCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case info.Size() != want.Size:
		err = &DigestError{Name: name, Want: want, Got: Content{Size: info.Size()}}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &verified{file: file, name: name, want: want, hash: sha256.New()}, nil
}

// Read returns a *[DigestError] in place of the last bytes if anything before or in them is wrong.
func (v *verified) Read(b []byte) (int, error) {
	if v.failed != nil {
		return 0, v.failed
	}
	if v.at < v.hashed {
		// Bytes that were hashed may have changed since, so reading them again starts over.
		if _, err := v.file.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		v.hash.Reset()
		v.hashed = 0
	}
	if skip := min(v.at, v.want.Size) - v.hashed; skip > 0 {
		n, err := io.CopyN(v.hash, v.file, skip)
		v.hashed += n
		if err != nil {
			return 0, v.fail(err)
		}
	}
	if v.at >= v.want.Size {
		if v.check(); v.failed != nil {
			return 0, v.failed
		}
		return 0, io.EOF
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := v.file.Read(b[:min(int64(len(b)), v.want.Size-v.at)])
	v.hash.Write(b[:n])
	v.hashed += int64(n)
	v.at = v.hashed
	if v.hashed == v.want.Size {
		if v.check(); v.failed != nil {
			return 0, v.failed
		}
		return n, nil
	}
	if err != nil {
		err = v.fail(err)
	}
	return n, err
}

// fail explains an error of the file below. That it ends early means that it was changed
// since it was opened.
func (v *verified) fail(err error) error {
	if errors.Is(err, io.EOF) {
		v.failed = &DigestError{Name: v.name, Want: v.want, Got: Content{Size: v.hashed}}
		return v.failed
	}
	return fmt.Errorf("reading %s: %w", v.name, err)
}

// check compares the digest once all is hashed.
func (v *verified) check() {
	if got := hex.EncodeToString(v.hash.Sum(nil)); got != v.want.SHA256 {
		v.failed = &DigestError{Name: v.name, Want: v.want, Got: Content{Size: v.want.Size, SHA256: got}}
	}
}

// Seek implements [io.Seeker]. What is skipped is read and verified nevertheless, at the next Read, and
// going back starts the verification over: it is meant for starting in the middle once,
// not for jumping about.
func (v *verified) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += v.at
	case io.SeekEnd:
		offset += v.want.Size
	}
	if offset < 0 {
		return 0, fmt.Errorf("%s: seeking to a negative offset", v.name)
	}
	v.at = offset
	return offset, nil
}

// Close implements [io.Closer].
func (v *verified) Close() error { return v.file.Close() }
