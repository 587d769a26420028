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
	"net/http"
	"os"
	"path/filepath"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Names inside a payload.
const (
	manifestName = "manifest.json"
	filesDir     = "files"
	gzipSuffix   = ".gz"
)

// LicensesDir is the directory of a payload with the license texts that go with its programs. Readers
// leave it alone.
const LicensesDir = "licenses"

// maxManifest bounds what is read as a manifest, or as a document of an OCI layout. A
// manifest of a hundred files has 50 KiB.
const maxManifest = 4 << 20

// ErrNoFile is wrapped by errors about a name that is not in the payload.
var ErrNoFile = errors.New("the payload has no such file")

// Options of [Open]. The zero value is ready for use.
type Options struct {
	// CacheDir is an existing directory that keeps what was downloaded because of
	// overrides, by digest, and what has to be unpacked from an image. Several processes
	// may share it; see [RemoveLeftovers] for what those leave in it that are killed. Empty: a temporary directory that Close removes.
	CacheDir string
	// Client downloads overrides. Nil: http.DefaultClient. A download from a server that is too slow
	// ends with an error.
	Client *http.Client
}

// Payload is an open payload. Its methods may be called concurrently.
type Payload struct {
	// Path is where it was opened.
	Path string
	// Manifest is what is in it. Not to be changed.
	Manifest Manifest

	// dir has the manifest and the files, also those that were unpacked from an image.
	dir     string
	options Options

	mu      sync.Mutex
	tmpDir  string   // made when first needed
	tmpLock *os.File // says that tmpDir is in use; nil: it does not
	// overrides are the locks of overrides, by digest.
	overrides map[string]chan struct{}
}

// Open opens the payload at path: a directory with a manifest, or an OCI image layout.
// Of a directory, only the manifest is read. The payload in an image is verified and unpacked.
func Open(ctx context.Context, path string, o Options) (*Payload, error) {
	p := &Payload{Path: path, options: o}
	if err := p.open(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("payload %s: %w", path, err), p.Close())
	}
	return p, nil
}

func (p *Payload) open(ctx context.Context, path string) error {
	p.dir = path
	_, err := os.Stat(filepath.Join(path, ociLayoutName))
	if err == nil {
		if p.dir, err = p.openImage(ctx, path); err != nil {
			return err // also if a part of it does not exist
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.Open(filepath.Join(p.dir, manifestName))
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := readSmall(f)
	if err != nil {
		return fmt.Errorf("reading %s: %w", manifestName, err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return err
	}
	p.Manifest = *m
	return nil
}

// readSmall reads a document that must be small.
func readSmall(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err == nil && len(b) > maxManifest {
		err = fmt.Errorf("it has more than %d bytes", maxManifest)
	}
	return b, err
}

// tempDir returns a directory that Close removes.
func (p *Payload) tempDir() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tmpDir == "" {
		dir, lock, err := makeUnpackedDir(p.options.CacheDir)
		if err != nil {
			return "", err
		}
		p.tmpDir, p.tmpLock = dir, lock
	}
	return p.tmpDir, nil
}

// Close removes what is temporary. What is being read must be closed before.
func (p *Payload) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir, lock := p.tmpDir, p.tmpLock
	p.tmpDir, p.tmpLock = "", nil
	if dir == "" {
		return nil
	}
	err := removeUnpacked(dir)
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	return err
}

// Open opens the effective content of a file: that of its override if it has one, which is then
// downloaded unless it was before. See the package comment about its verification.
func (p *Payload) Open(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	f := p.Manifest.File(name)
	if f == nil {
		return nil, fmt.Errorf("%q: %w", name, ErrNoFile)
	}
	if f.Override != nil {
		return p.openOverride(ctx, f)
	}
	return p.openStored(name, f.Content)
}

// OpenGzip opens the effective content of a file as compressed with gzip. It is an error
// if [File.Compressed] is nil.
func (p *Payload) OpenGzip(name string) (io.ReadSeekCloser, error) {
	f := p.Manifest.File(name)
	if f == nil {
		return nil, fmt.Errorf("%q: %w", name, ErrNoFile)
	}
	if f.Compressed() == nil {
		return nil, fmt.Errorf("%q, compressed: %w", name, ErrNoFile)
	}
	return p.openStored(name+gzipSuffix, *f.Gzip)
}

// openStored opens a file below filesDir.
func (p *Payload) openStored(name string, want Content) (io.ReadSeekCloser, error) {
	return openVerified(name, filepath.Join(p.dir, filesDir, name), want)
}

// VerifyFile reads what OpenGzip hands out of a file, or what Open does if there is nothing
// compressed, and makes sure that it is the effective content of the file.
func (p *Payload) VerifyFile(ctx context.Context, name string) error {
	r, err := p.OpenGzip(name)
	if errors.Is(err, ErrNoFile) {
		if r, err = p.Open(ctx, name); err == nil {
			defer r.Close()
			_, err = io.Copy(io.Discard, contextReader{ctx, r})
		}
		return err
	}
	if err != nil {
		return err
	}
	defer r.Close()
	want := p.Manifest.File(name).Content
	unpacked, err := gzip.NewReader(contextReader{ctx, r})
	if err != nil {
		return fmt.Errorf("unpacking it: %w", err)
	}
	digest, size, err := v1.SHA256(io.LimitReader(unpacked, want.Size+1))
	if err == nil {
		// What the manifest says of the compressed content is checked at its end.
		_, err = io.Copy(io.Discard, contextReader{ctx, r})
	}
	if err != nil {
		return err
	}
	if got := (Content{Size: size, SHA256: digest.Hex}); got != want {
		return fmt.Errorf("it unpacks to something else than %d bytes with the digest %s", want.Size, want.SHA256)
	}
	return nil
}

// Verify reads everything and reports all that is not as it should be, each file by its name. It
// downloads overrides that were not downloaded before.
func (p *Payload) Verify(ctx context.Context) error {
	var errs []error
	check := func(r io.ReadSeekCloser, err error) {
		if err == nil {
			_, err = io.Copy(io.Discard, contextReader{ctx, r})
			err = errors.Join(err, r.Close())
		}
		if err != nil && ctx.Err() == nil {
			errs = append(errs, err)
		}
	}
	for i := range p.Manifest.Files {
		f := &p.Manifest.Files[i]
		check(p.openStored(f.Name, f.Content))
		if f.Gzip != nil {
			check(p.openStored(f.Name+gzipSuffix, *f.Gzip))
		}
		if f.Override != nil {
			check(p.Open(ctx, f.Name))
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verifying the payload: %w", context.Cause(ctx))
		}
	}
	return errors.Join(errs...)
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
