// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// RevisionPlaceholder in the path of a [Source] stands for the first 16 digits of the
// file's SHA-256 digest, for files whose name on the host says which content they have.
const RevisionPlaceholder = "{revision}"

// revisionDigits is how many digits name a content beyond doubt and still fit into a file name.
const revisionDigits = 16

// Source is a file that is to go into a payload.
type Source struct {
	// File says everything about it but Size, SHA256 and Gzip, which are computed. The
	// path may have RevisionPlaceholder.
	File
	// LocalPath is where its content is.
	LocalPath string
}

// worthwhile is the size of the compressed content, relative to the plain one, above
// which it is left out.
const worthwhile = 0.9

// Build writes a payload to dir, which must not exist: the manifest gets the sources' files,
// and their sizes and digests are computed. Slots that a source fills are removed. Nothing is left
// behind on an error. The same input gives the same bytes, if it was built with the same
// version of Go, whose compression may change.
func Build(ctx context.Context, dir string, m Manifest, sources []Source) error {
	return writeDir(dir, func(tmp string) error { return build(ctx, tmp, m, sources) })
}

func build(ctx context.Context, dir string, m Manifest, sources []Source) error {
	m.SchemaVersion = SchemaVersion
	m.Files = nil
	m.Slots = slices.Clone(m.Slots)
	if err := os.Mkdir(filepath.Join(dir, filesDir), 0o755); err != nil {
		return err
	}
	for _, s := range sources {
		if !nameFormat.MatchString(s.Name) {
			return fmt.Errorf("%q is not a valid file name: use letters, digits and ._- only", s.Name)
		}
		f, err := store(ctx, filepath.Join(dir, filesDir, s.Name), s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		m.Files = append(m.Files, f)
		m.Slots = slices.DeleteFunc(m.Slots, func(slot Slot) bool { return strings.EqualFold(slot.Name, s.Name) })
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Slots, func(a, b Slot) int { return strings.Compare(a.Name, b.Name) })
	if err := m.Validate(); err != nil {
		return err
	}
	b, err := m.encode()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), b, 0o644)
}

// store copies a source, plain and compressed, in one pass.
func store(ctx context.Context, path string, s Source) (File, error) {
	f := s.File
	source, err := os.Open(s.LocalPath)
	if err != nil {
		return f, err
	}
	defer source.Close()
	plain, err := create(path)
	if err != nil {
		return f, err
	}
	compressed, err := create(path + gzipSuffix)
	if err != nil {
		return f, errors.Join(err, plain.Close())
	}
	// Without a name and a time in its header, so that it depends on the content alone. The
	// best compression takes twice as long for 0.4 % less.
	zip := gzip.NewWriter(compressed)
	_, err = io.Copy(io.MultiWriter(plain, zip), contextReader{ctx, source})
	if err := errors.Join(err, zip.Close(), plain.Close(), compressed.Close()); err != nil {
		return f, err
	}
	if f.Content, err = contentOf(path); err != nil {
		return f, err
	}
	f.Path = strings.ReplaceAll(f.Path, RevisionPlaceholder, f.SHA256[:revisionDigits])
	f.Gzip = nil
	c, err := contentOf(path + gzipSuffix)
	if err != nil {
		return f, err
	}
	if float64(c.Size) <= worthwhile*float64(f.Size) {
		f.Gzip = &c
		return f, nil
	}
	return f, os.Remove(path + gzipSuffix)
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // nothing in a payload is secret, and others than its builder use it
}

// contentOf computes the digest of a file.
func contentOf(path string) (Content, error) {
	f, err := os.Open(path)
	if err != nil {
		return Content{}, err
	}
	defer f.Close()
	digest, size, err := v1.SHA256(f)
	return Content{Size: size, SHA256: digest.Hex}, err
}

// writeDir has write fill a directory that gets its name only when it is complete.
func writeDir(dir string, write func(tmp string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing the payload: %w", err)
		}
	}()
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s: %w", dir, fs.ErrExist)
		}
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := write(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // as its files
		return err
	}
	return os.Rename(tmp, dir)
}
