// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteImage writes the payload as an OCI image layout with one plain layer to dir, which must
// not exist. Overrides stay what they are: references. License texts are in it if the payload was opened from a directory
// that has them. The same payload gives the same bytes.
// A wrong digest is an error, and nothing is left behind.
func (p *Payload) WriteImage(ctx context.Context, dir string) error {
	return writeDir(dir, func(tmp string) error { return p.writeImage(ctx, tmp) })
}

func (p *Payload) writeImage(ctx context.Context, dir string) error {
	archive := filepath.Join(dir, "layer.tar")
	if err := p.writeLayer(ctx, archive); err != nil {
		return err
	}
	content, err := contentOf(archive)
	if err != nil {
		return err
	}
	layer := plainLayer{archive, content}
	platform := v1.Platform{OS: p.Manifest.OS, Architecture: p.Manifest.Architecture}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return err
	}
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return err
	}
	to, err := ocilayout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := to.AppendImage(image, ocilayout.WithPlatform(platform)); err != nil {
		return err
	}
	// The library makes layers readable for its user only.
	return errors.Join(os.Chmod(filepath.Join(dir, "blobs", digestAlgorithm, content.SHA256), 0o644), os.Remove(archive)) //nolint:gosec // as the files of a payload
}

// plainLayer is a layer without compression, which the library has no type for.
type plainLayer struct {
	path    string
	content Content
}

func (l plainLayer) Digest() (v1.Hash, error) {
	return v1.Hash{Algorithm: digestAlgorithm, Hex: l.content.SHA256}, nil
}
func (l plainLayer) DiffID() (v1.Hash, error)             { return l.Digest() }
func (l plainLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l plainLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l plainLayer) Size() (int64, error)                 { return l.content.Size, nil }
func (l plainLayer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }

// writeLayer writes the payload to an archive.
func (p *Payload) writeLayer(ctx context.Context, archive string) (err error) {
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	manifest, err := p.Manifest.encode()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(tarHeader(manifestName, int64(len(manifest)))); err != nil {
		return err
	}
	if _, err := w.Write(manifest); err != nil {
		return err
	}
	add := func(name string, c Content) error {
		r, err := p.openStored(name, c)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := w.WriteHeader(tarHeader(filesDir+"/"+name, c.Size)); err != nil {
			return err
		}
		_, err = io.Copy(w, contextReader{ctx, r})
		return err
	}
	for _, f := range p.Manifest.Files {
		if err := add(f.Name, f.Content); err != nil {
			return err
		}
		if f.Gzip != nil {
			if err := add(f.Name+gzipSuffix, *f.Gzip); err != nil {
				return err
			}
		}
	}
	if err := p.addLicenses(w); err != nil {
		return err
	}
	return w.Close()
}

// addLicenses adds the license texts, if there are any. They come last: what recognizes a payload reads its beginning.
func (p *Payload) addLicenses(w *tar.Writer) error {
	return filepath.WalkDir(filepath.Join(p.dir, LicensesDir), func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(p.dir, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(tarHeader(filepath.ToSlash(below), int64(len(text)))); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
}

// tarHeader leaves out all that would differ from one run to the next.
func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: imageDir + "/" + name, Size: size, Mode: 0o644, Format: tar.FormatPAX}
}
