// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteImage writes the payload as an OCI image layout with one plain layer to dir, which must
// not exist. Overrides stay what they are: references. The same payload gives the same bytes.
// A digest that is not right fails it, and nothing is left behind.
func (p *Payload) WriteImage(ctx context.Context, dir string) error {
	return writeDir(dir, func(tmp string) error { return p.writeImage(ctx, tmp) })
}

func (p *Payload) writeImage(ctx context.Context, dir string) error {
	blobs := filepath.Join(dir, ociBlobs, digestAlgorithm)
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}
	layer, err := p.writeLayer(ctx, blobs)
	if err != nil {
		return err
	}
	config, err := writeBlob(blobs, types.OCIConfigJSON, v1.ConfigFile{
		OS: p.Manifest.OS, Architecture: p.Manifest.Architecture,
		// A plain layer's digest is its diff ID.
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := writeBlob(blobs, types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{layer},
	})
	if err != nil {
		return err
	}
	manifest.Platform = &v1.Platform{OS: p.Manifest.OS, Architecture: p.Manifest.Architecture}
	if err := writeJSON(filepath.Join(dir, ociIndexName), v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{manifest},
	}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, ociLayoutName), ociLayout{Version: ociLayoutVersion})
}

func (p *Payload) writeLayer(ctx context.Context, blobs string) (_ v1.Descriptor, err error) {
	tmp, err := os.CreateTemp(blobs, "layer-")
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close())
		}
	}()
	counted := &countingHash{Hash: sha256.New()}
	w := tar.NewWriter(io.MultiWriter(tmp, counted))
	manifest, err := p.Manifest.encode()
	if err != nil {
		return v1.Descriptor{}, err
	}
	if err := w.WriteHeader(tarHeader(manifestName, int64(len(manifest)))); err != nil {
		return v1.Descriptor{}, err
	}
	if _, err := w.Write(manifest); err != nil {
		return v1.Descriptor{}, err
	}
	add := func(name string, c Content) error {
		r, err := p.openStored(name, filesDir+"/"+name, c)
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
			return v1.Descriptor{}, err
		}
		if f.Gzip != nil {
			if err := add(f.Name+gzipSuffix, *f.Gzip); err != nil {
				return v1.Descriptor{}, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return v1.Descriptor{}, err
	}
	sum := hex.EncodeToString(counted.Sum(nil))
	if err := errors.Join(tmp.Chmod(0o644), tmp.Close(), os.Rename(tmp.Name(), filepath.Join(blobs, sum))); err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{
		MediaType: types.OCIUncompressedLayer, Size: counted.size, Digest: v1.Hash{Algorithm: digestAlgorithm, Hex: sum},
	}, nil
}

// tarHeader leaves out all that would differ from one run to the next.
func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: imageDir + "/" + name, Size: size, Mode: 0o644, Format: tar.FormatPAX}
}

func writeBlob(blobs string, mediaType types.MediaType, v any) (v1.Descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(b))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: mediaType, Size: size, Digest: digest},
		os.WriteFile(filepath.Join(blobs, digest.Hex), b, 0o644)
}

func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
