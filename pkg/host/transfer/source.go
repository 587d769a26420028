// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
)

// source reads what is sent and makes sure that it is what it should be.
type source struct {
	r    io.ReadSeekCloser
	want Gzip
	hash hash.Hash
	read int64
	sent *atomic.Int64
	// err is the first error of reading, to tell it from one of writing.
	err error
}

// openSource opens what is sent for a job. The bytes before offset are on the host already, and are
// read for the digest only.
func openSource(j *job, offset int64) (*source, error) {
	r, err := j.wire.Open()
	if err != nil {
		return nil, fmt.Errorf("opening the content: %w", err)
	}
	s := &source{r: r, want: j.wire, hash: sha256.New(), sent: &j.sent}
	s.read, err = io.CopyN(s.hash, r, offset)
	switch {
	case errors.Is(err, io.EOF):
		err = s.changed("it has %d bytes", s.read)
	case err != nil:
		err = fmt.Errorf("reading the content: %w", err)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	j.sent.Store(offset)
	return s, nil
}

func (s *source) changed(format string, args ...any) error {
	return fmt.Errorf("%w: %s; expected are %d bytes with the digest %s", ErrSourceChanged, fmt.Sprintf(format, args...), s.want.Size, s.want.SHA256)
}

// Read delivers the last bytes only if the digest of all is right, and nothing beyond the size.
func (s *source) Read(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	left := s.want.Size - s.read
	if left == 0 {
		return 0, s.end()
	}
	n, err := s.r.Read(b[:min(int64(len(b)), left)])
	s.hash.Write(b[:n])
	s.read += int64(n)
	switch {
	case s.read == s.want.Size:
		if s.err = s.check(); s.err != nil {
			return 0, s.err
		}
	case errors.Is(err, io.EOF):
		s.err = s.changed("it ends after %d bytes", s.read)
		return 0, s.err
	case err != nil:
		s.err = fmt.Errorf("reading the content: %w", err)
		return n, s.err
	}
	s.sent.Add(int64(n))
	return n, nil
}

// end makes sure that there is nothing behind the end.
func (s *source) end() error {
	if s.err = s.check(); s.err != nil {
		return s.err
	}
	var more [1]byte
	switch _, err := io.ReadFull(s.r, more[:]); {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		s.err = fmt.Errorf("reading the content: %w", err)
	default:
		s.err = s.changed("it has more than %d bytes", s.read)
	}
	return s.err
}

func (s *source) check() error {
	if got := hex.EncodeToString(s.hash.Sum(nil)); got != s.want.SHA256 {
		return s.changed("it has the digest %s", got)
	}
	return nil
}

func (s *source) Close() error { return s.r.Close() }
