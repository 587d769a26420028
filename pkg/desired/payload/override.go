// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// openOverride opens the content by which a site replaces that of the payload.
func (p *Payload) openOverride(ctx context.Context, f *File) (io.ReadSeekCloser, error) {
	dir := p.options.CacheDir
	if dir == "" {
		var err error
		if dir, err = p.tempDir(); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(dir, "sha256-"+f.Override.SHA256)
	// Many hosts need the same file at the same time: the first one downloads it.
	unlock, err := p.lockOverride(ctx, f.Override.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	defer unlock()
	err = readVerified(ctx, "what was downloaded before", path, f.Override.Content)
	if wrong := (*DigestError)(nil); errors.Is(err, fs.ErrNotExist) || errors.As(err, &wrong) {
		err = p.download(ctx, f, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return openVerified(f.Name, path, f.Override.Content)
}

// lockOverride waits until nobody else has the override with a digest.
func (p *Payload) lockOverride(ctx context.Context, digest string) (unlock func(), err error) {
	p.mu.Lock()
	if p.overrides == nil {
		p.overrides = map[string]chan struct{}{}
	}
	lock := p.overrides[digest]
	if lock == nil {
		lock = make(chan struct{}, 1)
		p.overrides[digest] = lock
	}
	p.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readVerified reads a file, and returns a [DigestError] if it has not the content.
func readVerified(ctx context.Context, name, path string, want Content) error {
	r, err := openVerified(name, path, want)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, contextReader{ctx, r})
	return errors.Join(err, r.Close())
}

const (
	// answerTime is how long a server may take until it sends an override,
	// and slowestDownload how many bytes it has to send in a second from then on.
	answerTime      = time.Minute
	slowestDownload = 256 << 10
)

// download downloads an override. The file gets its name only when its digest is verified.
func (p *Payload) download(ctx context.Context, f *File, path string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime+time.Duration(f.Override.Size/slowestDownload)*time.Second)
	defer cancel()
	client := p.options.Client
	if client == nil {
		client = http.DefaultClient
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Override.URL, http.NoBody)
	if err != nil {
		return fmt.Errorf("downloading the override: %w", err)
	}
	from := request.URL.Redacted()
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("downloading the override: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("downloading the override from %s: %s", from, response.Status)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), downloadPrefix)
	if err != nil {
		return fmt.Errorf("storing the override: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	// One byte more than there should be shows that it is too long, however long it is.
	_, err = io.Copy(tmp, io.LimitReader(response.Body, f.Override.Size+1))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("downloading the override from %s: %w", from, err)
	}
	if err := readVerified(ctx, "what was downloaded from "+from, tmp.Name(), f.Override.Content); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("storing the override: %w", err)
	}
	return nil
}
