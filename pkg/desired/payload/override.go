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
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := p.download(ctx, f, path); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return openVerified(f.Name, path, f.Override.Content)
}

// download downloads an override. The file gets its name only when its digest is verified.
func (p *Payload) download(ctx context.Context, f *File, path string) (err error) {
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
	tmp, err := os.CreateTemp(filepath.Dir(path), ".download-")
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
	r, err := openVerified("what was downloaded from "+from, tmp.Name(), f.Override.Content)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, contextReader{ctx, r})
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("storing the override: %w", err)
	}
	return nil
}
