// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Names and media types of the OCI image specification, version 1.1:
// https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md and
// https://github.com/opencontainers/image-spec/blob/v1.1.0/media-types.md. Images that
// were built by Docker have its own types for the same things.
const (
	ociLayoutName    = "oci-layout"
	ociLayoutVersion = "1.0.0"
	ociIndexName     = "index.json"
	ociBlobs         = "blobs"

	mediaIndex     = "application/vnd.oci.image.index.v1+json"
	mediaManifest  = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig    = "application/vnd.oci.image.config.v1+json"
	mediaLayer     = "application/vnd.oci.image.layer.v1.tar"
	mediaLayerGzip = mediaLayer + "+gzip"

	dockerIndex     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest  = "application/vnd.docker.distribution.manifest.v2+json"
	dockerLayerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// What a layer says about files of the layers below it:
// https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md#whiteouts
const (
	whiteoutPrefix = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

type ociLayout struct {
	Version string `json:"imageLayoutVersion"`
}

type ociPlatform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

type ociDescriptor struct {
	MediaType string       `json:"mediaType"`
	Digest    string       `json:"digest"`
	Size      int64        `json:"size"`
	Platform  *ociPlatform `json:"platform,omitempty"`
}

// ociDocument is an index or a manifest, which differ in what they list.
type ociDocument struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     string          `json:"mediaType,omitempty"`
	Config        *ociDescriptor  `json:"config,omitempty"`
	Layers        []ociDescriptor `json:"layers,omitempty"`
	Manifests     []ociDescriptor `json:"manifests,omitempty"`
}

// image is an OCI image layout. The payload is in the directory payload/ of the image,
// or at its root.
type image struct {
	path   string
	layers []ociDescriptor
	files  map[string]section // by path within the image
	tars   []*os.File         // the layers, unpacked
}

// section is where in an uncompressed layer a file is.
type section struct {
	tar          *os.File
	offset, size int64
}

// imageDir is where the payload is in an image that was built for nothing else.
const imageDir = "payload"

func openImage(ctx context.Context, path string, tempDir func() (string, error)) (_ *image, err error) {
	i := &image{path: path, files: map[string]section{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.close())
		}
	}()
	var layout ociLayout
	if err := i.readJSON(ociLayoutName, &layout); err != nil {
		return nil, err
	}
	if layout.Version != ociLayoutVersion {
		return nil, fmt.Errorf("the OCI layout has version %q, and this program reads %s only", layout.Version, ociLayoutVersion)
	}
	var index ociDocument
	if err := i.readJSON(ociIndexName, &index); err != nil {
		return nil, err
	}
	manifest, err := i.choose(&index, 0)
	if err != nil {
		return nil, err
	}
	i.layers = manifest.Layers
	for _, layer := range i.layers {
		if err := i.openLayer(ctx, layer, tempDir); err != nil {
			return nil, fmt.Errorf("layer %s: %w", layer.Digest, err)
		}
	}
	return i, nil
}

func (i *image) readJSON(name string, v any) error {
	f, err := os.Open(filepath.Join(i.path, name))
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := readSmall(f)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// maxNesting is how deep indexes may be nested: one more than tools make.
const maxNesting = 3

// choose finds the one image of an index. Of several, it is the one for Windows hosts: the
// payload of an image for several platforms may be in each of them.
func (i *image) choose(index *ociDocument, depth int) (*ociDocument, error) {
	candidates := index.Manifests
	if len(candidates) > 1 {
		candidates = nil
		for _, d := range index.Manifests {
			if d.Platform != nil && d.Platform.OS == "windows" && d.Platform.Architecture == "amd64" {
				candidates = append(candidates, d)
			}
		}
	}
	if len(candidates) != 1 {
		return nil, fmt.Errorf("the OCI layout has %d images, and not one of them for windows/amd64", len(index.Manifests))
	}
	d := candidates[0]
	b, err := i.readBlob(d)
	if err != nil {
		return nil, err
	}
	document := &ociDocument{}
	if err := json.Unmarshal(b, document); err != nil {
		return nil, fmt.Errorf("blob %s: %w", d.Digest, err)
	}
	switch d.MediaType {
	case mediaManifest, dockerManifest:
		return document, nil
	case mediaIndex, dockerIndex:
		if depth == maxNesting {
			return nil, errors.New("the indexes of the OCI layout are nested too deeply")
		}
		return i.choose(document, depth+1)
	default:
		return nil, fmt.Errorf("blob %s: media type %q is neither that of an image nor that of an index", d.Digest, d.MediaType)
	}
}

// blobPath refuses digests that are none, which also keeps them from leading elsewhere.
func (i *image) blobPath(d ociDescriptor) (string, error) {
	algorithm, sum, _ := strings.Cut(d.Digest, ":")
	b, err := hex.DecodeString(sum)
	if algorithm != "sha256" || err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("%q is no SHA-256 digest", d.Digest)
	}
	return filepath.Join(i.path, ociBlobs, algorithm, sum), nil
}

// openBlob returns a reader that verifies what is read to its end.
func (i *image) openBlob(d ociDescriptor) (io.ReadSeekCloser, error) {
	path, err := i.blobPath(d)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return newVerified("blob "+d.Digest, file{f}, Content{Size: d.Size, SHA256: strings.TrimPrefix(d.Digest, "sha256:")})
}

func (i *image) readBlob(d ociDescriptor) ([]byte, error) {
	r, err := i.openBlob(d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readSmall(r)
}

// openLayer notes where the files of a layer are. A plain one is only skimmed; a
// compressed one is unpacked, since nobody can begin in the middle of it.
func (i *image) openLayer(ctx context.Context, d ociDescriptor, tempDir func() (string, error)) error {
	var tarFile *os.File
	var err error
	switch d.MediaType {
	case mediaLayer:
		path, pathErr := i.blobPath(d)
		if pathErr != nil {
			return pathErr
		}
		tarFile, err = os.Open(path)
	case mediaLayerGzip, dockerLayerGzip:
		tarFile, err = i.unpack(ctx, d, tempDir)
	default:
		return fmt.Errorf("media type %q is not supported: want a tar, plain or with gzip", d.MediaType)
	}
	if err != nil {
		return err
	}
	i.tars = append(i.tars, tarFile)
	return i.skim(ctx, tarFile)
}

func (i *image) unpack(ctx context.Context, d ociDescriptor, tempDir func() (string, error)) (_ *os.File, err error) {
	blob, err := i.openBlob(d)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	tarFile, err := os.CreateTemp(dir, "layer-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tarFile.Close())
		}
	}()
	unzip, err := gzip.NewReader(blob)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(tarFile, contextReader{ctx, unzip}); err != nil {
		return nil, err
	}
	// What follows the compressed data counts for the digest.
	if _, err := io.Copy(io.Discard, blob); err != nil {
		return nil, err
	}
	if _, err := tarFile.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return tarFile, nil
}

// skim reads the headers of a layer.
func (i *image) skim(ctx context.Context, tarFile *os.File) error {
	r := tar.NewReader(tarFile) // which seeks over content
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean("/" + header.Name)[1:]
		dir, base := path.Split(name)
		switch {
		case base == opaqueWhiteout:
			i.removeBelow(dir)
		case strings.HasPrefix(base, whiteoutPrefix):
			gone := dir + strings.TrimPrefix(base, whiteoutPrefix)
			delete(i.files, gone)
			i.removeBelow(gone + "/")
		case header.Typeflag == tar.TypeReg:
			offset, err := tarFile.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			i.files[name] = section{tarFile, offset, header.Size}
		case header.Typeflag != tar.TypeDir:
			delete(i.files, name) // replaced by what cannot be a file of a payload
		}
	}
}

func (i *image) removeBelow(dir string) {
	for name := range i.files {
		if strings.HasPrefix(name, dir) {
			delete(i.files, name)
		}
	}
}

func (i *image) open(name string) (content, error) {
	s, ok := i.files[imageDir+"/"+name]
	if !ok {
		s, ok = i.files[name]
	}
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return sectionContent{io.NewSectionReader(s.tar, s.offset, s.size)}, nil
}

// verify checks the digests of the layers, which Open does not for plain ones.
func (i *image) verify(ctx context.Context) error {
	var errs []error
	for _, d := range i.layers {
		r, err := i.openBlob(d)
		if err == nil {
			_, err = io.Copy(io.Discard, contextReader{ctx, r})
			err = errors.Join(err, r.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (i *image) close() error {
	var errs []error
	for _, f := range i.tars {
		errs = append(errs, f.Close())
	}
	i.tars = nil
	return errors.Join(errs...)
}

// sectionContent is a content in a layer, which stays open.
type sectionContent struct{ *io.SectionReader }

func (s sectionContent) size() (int64, error) { return s.Size(), nil }

func (s sectionContent) Close() error { return nil }

// WriteImage writes the payload as an OCI image layout with one plain layer to dir, which must
// not exist. Overrides stay what they are: references. The same payload gives the same bytes.
// A digest that is not right fails it, and nothing is left behind.
func (p *Payload) WriteImage(ctx context.Context, dir string) error {
	return writeDir(dir, func(tmp string) error { return p.writeImage(ctx, tmp) })
}

func (p *Payload) writeImage(ctx context.Context, dir string) error {
	blobs := filepath.Join(dir, ociBlobs, "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}
	layer, err := p.writeLayer(ctx, blobs)
	if err != nil {
		return err
	}
	config, err := writeBlob(blobs, mediaConfig, map[string]any{
		"os": p.Manifest.OS, "architecture": p.Manifest.Architecture,
		// A plain layer's digest is its diff ID.
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := writeBlob(blobs, mediaManifest, ociDocument{
		SchemaVersion: 2, MediaType: mediaManifest, Config: &config, Layers: []ociDescriptor{layer},
	})
	if err != nil {
		return err
	}
	manifest.Platform = &ociPlatform{OS: p.Manifest.OS, Architecture: p.Manifest.Architecture}
	if err := writeJSON(filepath.Join(dir, ociIndexName), ociDocument{
		SchemaVersion: 2, MediaType: mediaIndex, Manifests: []ociDescriptor{manifest},
	}); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, ociLayoutName), ociLayout{Version: ociLayoutVersion})
}

func (p *Payload) writeLayer(ctx context.Context, blobs string) (_ ociDescriptor, err error) {
	tmp, err := os.CreateTemp(blobs, "layer-")
	if err != nil {
		return ociDescriptor{}, err
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
		return ociDescriptor{}, err
	}
	if err := w.WriteHeader(tarHeader(manifestName, int64(len(manifest)))); err != nil {
		return ociDescriptor{}, err
	}
	if _, err := w.Write(manifest); err != nil {
		return ociDescriptor{}, err
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
			return ociDescriptor{}, err
		}
		if f.Gzip != nil {
			if err := add(f.Name+gzipSuffix, *f.Gzip); err != nil {
				return ociDescriptor{}, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return ociDescriptor{}, err
	}
	sum := hex.EncodeToString(counted.Sum(nil))
	if err := errors.Join(tmp.Chmod(0o644), tmp.Close(), os.Rename(tmp.Name(), filepath.Join(blobs, sum))); err != nil {
		return ociDescriptor{}, err
	}
	return ociDescriptor{MediaType: mediaLayer, Digest: "sha256:" + sum, Size: counted.size}, nil
}

// tarHeader leaves out all that would differ from one run to the next.
func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: imageDir + "/" + name, Size: size, Mode: 0o644, Format: tar.FormatPAX}
}

// countingHash also knows how much it hashed.
type countingHash struct {
	hash.Hash
	size int64
}

func (c *countingHash) Write(b []byte) (int, error) {
	c.size += int64(len(b))
	return c.Hash.Write(b)
}

func writeBlob(blobs, mediaType string, v any) (ociDescriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return ociDescriptor{}, err
	}
	sum := sha256.Sum256(b)
	name := hex.EncodeToString(sum[:])
	return ociDescriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: int64(len(b))},
		os.WriteFile(filepath.Join(blobs, name), b, 0o644)
}

func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
