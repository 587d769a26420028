// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Names in an OCI image layout, and its version:
// https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
const (
	ociLayoutName    = "oci-layout"
	ociLayoutVersion = "1.0.0"
)

// digestAlgorithm is the one that the digests of blobs must have.
const digestAlgorithm = "sha256"

// imageDir is where the payload is in an image that was built for nothing else.
const imageDir = "payload"

// image is an OCI image layout. The payload is in the directory payload/ of the image,
// or at its root. Its files are unpacked, since what is in a layer may be replaced or removed by the next.
type image struct{ blobs ocilayout.Path }

// openImage opens the image layout at path, and returns where its payload was unpacked.
func (p *Payload) openImage(ctx context.Context, path string) (string, error) {
	if err := checkLayoutVersion(path); err != nil {
		return "", err
	}
	i := &image{blobs: ocilayout.Path(path)}
	index, err := i.blobs.ImageIndex()
	if err != nil {
		return "", err
	}
	chosen, err := i.choose(ctx, index, 0)
	if err != nil {
		return "", err
	}
	manifest, err := chosen.Manifest()
	if err != nil {
		return "", decodingError("the manifest of the image", err)
	}
	for _, layer := range manifest.Layers {
		if err := i.checkLayer(ctx, layer); err != nil {
			return "", fmt.Errorf("layer %s: %w", layer.Digest, err)
		}
	}
	dir, err := p.tempDir()
	if err != nil {
		return "", err
	}
	return unpack(ctx, chosen, filepath.Join(dir, "image"))
}

// checkLayoutVersion reads what the library does not.
func checkLayoutVersion(path string) error {
	b, err := os.ReadFile(filepath.Join(path, ociLayoutName))
	if err != nil {
		return err
	}
	var l struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return fmt.Errorf("reading %s: %w", ociLayoutName, err)
	}
	if l.Version != ociLayoutVersion {
		return fmt.Errorf("the OCI layout has version %q, and this program reads %s only", l.Version, ociLayoutVersion)
	}
	return nil
}

// decodingError lists what the library's decoders refuse, because their errors do not say which of it was found.
func decodingError(what string, err error) error {
	return fmt.Errorf("reading %s: it is not a JSON document of its kind, or a digest in it is not a SHA-256 digest: %w", what, err)
}

// maxNesting is how deep indexes may be nested: one more than tools make.
const maxNesting = 3

// choose finds the one image of an index. Of several, it is the one for Windows hosts: the
// payload of an image for several platforms may be in each of them.
func (i *image) choose(ctx context.Context, index v1.ImageIndex, depth int) (v1.Image, error) {
	list, err := index.IndexManifest()
	if err != nil {
		return nil, decodingError("an index of the OCI layout", err)
	}
	candidates := list.Manifests
	if len(candidates) > 1 {
		candidates = nil
		for _, d := range list.Manifests {
			if d.Platform != nil && d.Platform.OS == "windows" && d.Platform.Architecture == "amd64" {
				candidates = append(candidates, d)
			}
		}
	}
	if len(candidates) != 1 {
		return nil, fmt.Errorf("the OCI layout has %d images, and not one of them for windows/amd64", len(list.Manifests))
	}
	d := candidates[0]
	if d.Size > maxManifest {
		return nil, fmt.Errorf("blob %s has more than %d bytes", d.Digest, maxManifest)
	}
	if err := i.verifyBlob(ctx, d); err != nil {
		return nil, err
	}
	switch {
	case d.MediaType.IsImage():
		return index.Image(d.Digest)
	case !d.MediaType.IsIndex():
		return nil, fmt.Errorf("blob %s: media type %q is neither that of an image nor that of an index", d.Digest, d.MediaType)
	case depth == maxNesting:
		return nil, errors.New("the indexes of the OCI layout are nested too deeply")
	}
	nested, err := index.ImageIndex(d.Digest)
	if err != nil {
		return nil, err
	}
	return i.choose(ctx, nested, depth+1)
}

// verifyBlob compares sizes and digests, which the library does not do for layouts.
func (i *image) verifyBlob(ctx context.Context, d v1.Descriptor) error {
	if d.Digest.Algorithm != digestAlgorithm {
		return fmt.Errorf("%q is not a SHA-256 digest", d.Digest)
	}
	blob, err := i.blobs.Blob(d.Digest)
	if err != nil {
		return err
	}
	defer blob.Close()
	got, size, err := v1.SHA256(contextReader{ctx, io.LimitReader(blob, d.Size+1)})
	if err != nil {
		return fmt.Errorf("reading blob %s: %w", d.Digest, err)
	}
	if got != d.Digest || size != d.Size {
		return &DigestError{
			Name: "blob " + d.Digest.String(),
			Want: Content{Size: d.Size, SHA256: d.Digest.Hex}, Got: Content{Size: size, SHA256: got.Hex},
		}
	}
	return nil
}

// checkLayer verifies a layer before it is unpacked: the manifest of the payload, which has the
// digests of all else, is in one.
func (i *image) checkLayer(ctx context.Context, d v1.Descriptor) error {
	switch d.MediaType {
	case types.OCIUncompressedLayer, types.OCILayer, types.DockerLayer:
		return i.verifyBlob(ctx, d)
	default:
		return fmt.Errorf("media type %q is not supported: want a tar, plain or with gzip", d.MediaType)
	}
}

// unpack writes what is of a payload in an image to dir, which it makes, and returns where that is.
func unpack(ctx context.Context, from v1.Image, dir string) (string, error) {
	layers, err := from.Layers()
	if err != nil {
		return "", fmt.Errorf("unpacking the image: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // a directory; its files are closed on their own
	u := &unpacker{root: root, layerOf: map[string]int{}}
	for n, layer := range layers {
		if err := u.unpackLayer(ctx, n, layer); err != nil {
			return "", fmt.Errorf("unpacking the image: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, imageDir, manifestName)); err == nil {
		dir = filepath.Join(dir, imageDir)
	}
	return dir, nil
}

// unpacker applies layers, the lowest first. The library's Extract lets a whiteout hide files
// of its own layer, where only lower layers are meant:
// https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md#whiteouts
type unpacker struct {
	root    *os.Root
	layerOf map[string]int // by name, of the files that are there
}

// Names of entries that remove what lower layers have: one name, and all in a directory.
const (
	whiteoutPrefix = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

func (u *unpacker) unpackLayer(ctx context.Context, n int, layer v1.Layer) error {
	blob, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer blob.Close()
	content := contextReader{ctx, blob}
	r := tar.NewReader(content)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			// What is wrong with a compressed layer may come after the end of the archive.
			_, err := io.Copy(io.Discard, content)
			return err
		}
		if err != nil {
			return err
		}
		if err := u.apply(n, header, r); err != nil {
			return err
		}
	}
}

func (u *unpacker) apply(n int, header *tar.Header, from io.Reader) error {
	if name := path.Clean(header.Name); name == ".." || strings.HasPrefix(name, "../") {
		return fmt.Errorf("%q leads out of the image", header.Name)
	}
	name := path.Clean("/" + header.Name)[1:]
	dir, base := path.Split(name)
	removed, isWhiteout := strings.CutPrefix(base, whiteoutPrefix)
	switch {
	case base == opaqueWhiteout:
		return u.remove(func(file string, in int) bool { return in < n && strings.HasPrefix(file, dir) })
	case isWhiteout:
		return u.remove(func(file string, in int) bool { return in < n && within(file, dir+removed) })
	}
	// A directory leaves what is in it, and anything else replaces what has its name.
	err := u.remove(func(file string, _ int) bool {
		return file == name || header.Typeflag != tar.TypeDir && within(file, name)
	})
	// Anything else than a regular file cannot be one of a payload.
	if err != nil || header.Typeflag != tar.TypeReg || !ofPayload(name) {
		return err
	}
	u.layerOf[name] = n
	return unpackFile(u.root, name, from)
}

// within says whether a file has a name, or is in the directory of that name.
func within(file, name string) bool {
	return file == name || strings.HasPrefix(file, name+"/")
}

// remove removes the files that which says.
func (u *unpacker) remove(which func(file string, layer int) bool) error {
	for file, layer := range u.layerOf {
		if !which(file, layer) {
			continue
		}
		if err := u.root.Remove(file); err != nil {
			return err
		}
		delete(u.layerOf, file)
	}
	return nil
}

// ofPayload leaves out what a base image has.
func ofPayload(name string) bool {
	name = strings.TrimPrefix(name, imageDir+"/")
	return name == manifestName || path.Dir(name) == filesDir
}

func unpackFile(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
