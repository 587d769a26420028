// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// openOverride opens the content that a site put in the place of ours.
func (p *Payload) openOverride(ctx context.Context, f *File) (io.ReadSeekCloser, error) {
	dir := p.options.CacheDir
	if dir == "" {
		var err error
		if dir, err = p.tempDir(); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(dir, "sha256-"+f.Override.SHA256)
	opened, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := p.download(ctx, f, path); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		opened, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return newVerified(f.Name, file{opened}, f.Override.Content)
}

// download gets an override. The file has its name only once its digest was found right.
func (p *Payload) download(ctx context.Context, f *File, path string) (err error) {
	client := p.options.Client
	if client == nil {
		client = http.DefaultClient
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Override.URL, http.NoBody)
	if err != nil {
		return fmt.Errorf("downloading the override: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("downloading the override: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("downloading the override from %s: %s", request.URL.Redacted(), response.Status)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".download-")
	if err != nil {
		return fmt.Errorf("storing the override: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	// One byte more than there should be shows that it is too long, however long it is.
	if _, err := io.Copy(tmp, io.LimitReader(response.Body, f.Override.Size+1)); err != nil {
		return fmt.Errorf("downloading the override from %s: %w", request.URL.Redacted(), err)
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("storing the override: %w", err)
	}
	r, err := newVerified("what was downloaded from "+request.URL.Redacted(), unclosed{file{tmp}}, f.Override.Content)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, contextReader{ctx, r}); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return fmt.Errorf("storing the override: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("storing the override: %w", err)
	}
	return tmp.Close()
}

// unclosed is a content that somebody else closes.
type unclosed struct{ file }

func (unclosed) Close() error { return nil }
