// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package payload_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// contents are what the payloads of the tests have: kubelet.exe is worth compressing.
var contents = map[string][]byte{
	"kubelet.exe": bytes.Repeat([]byte("Kubernetes on Windows. "), 20_000),
	"shim.exe":    []byte("short"),
	"empty.txt":   {},
}

func sources(t *testing.T) []payload.Source {
	t.Helper()
	dir := t.TempDir()
	var list []payload.Source
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		local := filepath.Join(dir, name)
		write(t, local, contents[name])
		list = append(list, payload.Source{
			File:      payload.File{Slot: payload.Slot{Name: name, Path: `C:\k\` + name, Role: payload.RoleKubelet}, Version: "v1.2.3"},
			LocalPath: local,
		})
	}
	return list
}

func manifest() payload.Manifest {
	return payload.Manifest{
		Name: "test", Version: "v1", OS: "windows", Architecture: "amd64",
		Slots: []payload.Slot{{Name: "csi-proxy.exe", Path: `C:\k\csi-proxy.exe`, Role: payload.RoleCSIProxy}},
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// build writes a payload and returns its directory.
func build(t *testing.T, edit func(*payload.Manifest, []payload.Source)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "payload")
	m, list := manifest(), sources(t)
	if edit != nil {
		edit(&m, list)
	}
	if err := payload.Build(t.Context(), dir, m, list); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, path string, o payload.Options) *payload.Payload {
	t.Helper()
	p, err := payload.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// layouts are the forms of one payload, by name.
func layouts(t *testing.T) map[string]string {
	t.Helper()
	dir := build(t, nil)
	image := filepath.Join(t.TempDir(), "image")
	if err := open(t, dir, payload.Options{}).WriteImage(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"directory": dir, "image": image, "image with gzip": gzipLayers(t, image)}
}

func TestOpen(t *testing.T) {
	for name, path := range layouts(t) {
		t.Run(name, func(t *testing.T) {
			p := open(t, path, payload.Options{})
			if err := p.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(p.Manifest.Files) != len(contents) || len(p.Manifest.Slots) != 1 {
				t.Fatalf("%d files, %d slots", len(p.Manifest.Files), len(p.Manifest.Slots))
			}
			for file, want := range contents {
				if got := read(t, p, file); !bytes.Equal(got, want) {
					t.Errorf("%s has %d bytes, want %d", file, len(got), len(want))
				}
			}
			zipped, err := p.OpenGzip("kubelet.exe")
			if err != nil {
				t.Fatal(err)
			}
			defer zipped.Close()
			unzip, err := gzip.NewReader(zipped)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(unzip); err != nil || !bytes.Equal(got, contents["kubelet.exe"]) {
				t.Errorf("compressed, it is something else: %d bytes, %v", len(got), err)
			}
			if _, err := p.OpenGzip("shim.exe"); !errors.Is(err, payload.ErrNoFile) {
				t.Errorf("what is not worth compressing: %v", err)
			}
			if _, err := p.Open(t.Context(), "../manifest.json"); !errors.Is(err, payload.ErrNoFile) {
				t.Errorf("what is no file of the payload: %v", err)
			}
		})
	}
}

func read(t *testing.T, p *payload.Payload, name string) []byte {
	t.Helper()
	r, err := p.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSame has equal input give equal bytes, whatever it was called and whenever it was written.
func TestSame(t *testing.T) {
	first, second := layouts(t), layouts(t)
	for _, name := range []string{"directory", "image"} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tree(t, first[name]), tree(t, second[name])); diff != "" {
				t.Errorf("two payloads of the same (-first +second):\n%s", diff)
			}
		})
	}
}

// tree is the names, modes and digests of the files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[name] = fmt.Sprintf("%s %s", info.Mode(), sum(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func TestBuild(t *testing.T) {
	t.Run("revision and slot", func(t *testing.T) {
		dir := build(t, func(_ *payload.Manifest, list []payload.Source) {
			list[1].Path = `C:\k\kubelet-{revision}.exe`
			list[2].Slot = manifest().Slots[0]
		})
		p := open(t, dir, payload.Options{})
		if want := `C:\k\kubelet-` + sum(contents["kubelet.exe"])[:16] + ".exe"; p.Manifest.File("kubelet.exe").Path != want {
			t.Errorf("path %s, want %s", p.Manifest.File("kubelet.exe").Path, want)
		}
		if files := p.Manifest.ByRole(payload.RoleCSIProxy); len(files) != 1 || files[0].Path != `C:\k\csi-proxy.exe` {
			t.Errorf("the file in the slot: %+v", files)
		}
		if len(p.Manifest.Slots) != 0 {
			t.Errorf("the slot is still empty: %+v", p.Manifest.Slots)
		}
	})
	for _, tt := range []struct {
		name string
		edit func(*payload.Manifest, []payload.Source)
		want string
	}{
		{"no such file", func(_ *payload.Manifest, l []payload.Source) { l[0].LocalPath = "/nonexistent" }, "empty.txt: open /nonexistent"},
		{"name that leads elsewhere", func(_ *payload.Manifest, l []payload.Source) { l[0].Name = "../x" }, `"../x" is not a valid file name`},
		{"relative path", func(_ *payload.Manifest, l []payload.Source) { l[0].Path = `k\x` }, "not an absolute path on Windows"},
		{"path with parts that lead up", func(_ *payload.Manifest, l []payload.Source) { l[0].Path = `C:\k\..\x` }, "not an absolute path on Windows"},
		{"two at one place", func(_ *payload.Manifest, l []payload.Source) { l[0].Path = `c:\K\Kubelet.exe` }, "same path"},
		{"no version", func(m *payload.Manifest, _ []payload.Source) { m.Version = "" }, "version is empty"},
		{"no role", func(_ *payload.Manifest, l []payload.Source) { l[0].Role = "" }, "role is empty"},
		{"override from a file", func(_ *payload.Manifest, l []payload.Source) {
			l[0].Override = &payload.Override{URL: "file:///etc/passwd", Content: payload.Content{SHA256: sum(nil)}}
		}, "not an http or https URL"},
		{"override without a digest", func(_ *payload.Manifest, l []payload.Source) {
			l[0].Override = &payload.Override{URL: "https://example.com/x"}
		}, "not a SHA-256 digest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			m, list := manifest(), sources(t)
			tt.edit(&m, list)
			if err := payload.Build(t.Context(), filepath.Join(parent, "payload"), m, list); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if left, _ := os.ReadDir(parent); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	t.Run("in place of something", func(t *testing.T) {
		if err := payload.Build(t.Context(), t.TempDir(), manifest(), sources(t)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := payload.Build(ctx, filepath.Join(t.TempDir(), "p"), manifest(), sources(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestDamaged changes files of a payload. Every one must be named, and none be handed out whole.
func TestDamaged(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		path := build(t, nil)
		flip(t, path, contents["kubelet.exe"][1000:1100])
		flip(t, path, contents["shim.exe"])
		p := open(t, path, payload.Options{})
		err := p.Verify(t.Context())
		for _, name := range []string{"kubelet.exe", "shim.exe"} {
			if err == nil || !strings.Contains(err.Error(), name+" has the SHA-256 digest") {
				t.Errorf("%s is not named: %v", name, err)
			}
			r, err := p.Open(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			var wrong *payload.DigestError
			if !errors.As(err, &wrong) || wrong.Name != name || len(b) >= len(contents[name]) {
				t.Errorf("%s: %d bytes and %v", name, len(b), err)
			}
			_ = r.Close()
		}
	})
	// Whoever can change the manifest could have anything sent to hosts.
	for name, part := range map[string][]byte{"file in a layer": contents["shim.exe"], "manifest in a layer": []byte("schemaVersion\": 1,\n")} {
		t.Run(name, func(t *testing.T) {
			path := layouts(t)["image"]
			flip(t, path, part)
			var wrong *payload.DigestError
			if _, err := payload.Open(t.Context(), path, payload.Options{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "blob sha256:") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("shorter", func(t *testing.T) {
		dir := build(t, nil)
		write(t, filepath.Join(dir, "files", "shim.exe"), []byte("shor"))
		_, err := open(t, dir, payload.Options{}).Open(t.Context(), "shim.exe")
		if want := "shim.exe has 4 bytes, and the manifest says 5"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("gone", func(t *testing.T) {
		dir := build(t, nil)
		if err := os.Remove(filepath.Join(dir, "files", "kubelet.exe.gz")); err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir, payload.Options{}).Verify(t.Context()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "kubelet.exe.gz") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("compressed layer", func(t *testing.T) {
		path := layouts(t)["image with gzip"]
		blobs, err := filepath.Glob(filepath.Join(path, "blobs", "sha256", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blobs {
			content, err := os.ReadFile(b)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
				content[len(content)-1]++
				write(t, b, content)
			}
		}
		if _, err := payload.Open(t.Context(), path, payload.Options{}); err == nil {
			t.Error("opened")
		}
	})
}

// flip changes a byte of the one file below a directory that has these bytes.
func flip(t *testing.T, dir string, part []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if i := bytes.Index(content, part); err == nil && i >= 0 {
			content[i]++
			err = os.WriteFile(path, content, 0o644)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSeek(t *testing.T) {
	want := contents["kubelet.exe"]
	dir := build(t, nil)
	p := open(t, dir, payload.Options{})
	r, err := p.Open(t.Context(), "kubelet.exe")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, tt := range []struct {
		name   string
		offset int64
		whence int
		at     int
	}{
		{"forward", 1000, io.SeekStart, 1000},
		{"back", 10, io.SeekStart, 10},
		{"from the end", -5, io.SeekEnd, len(want) - 5},
		{"to the end", 0, io.SeekEnd, len(want)},
		{"beyond it", 10, io.SeekEnd, len(want)},
		{"to the beginning", 0, io.SeekStart, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := r.Seek(tt.offset, tt.whence); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want[tt.at:]) {
				t.Errorf("%d bytes and %v", len(got), err)
			}
		})
	}
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		t.Error("before the beginning")
	}

	// What was skipped counts, too, also when it changes under the reader's eyes.
	flip(t, dir, want[:100])
	if _, err := r.Seek(-5, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	var wrong *payload.DigestError
	if b, err := io.ReadAll(r); !errors.As(err, &wrong) || len(b) > 0 {
		t.Errorf("%q and %v", b, err)
	}
}

func TestManifestIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, manifest, want string }{
		{"no JSON", "x", "not a JSON document"},
		{"another version", `{"schemaVersion": 2}`, "has schema version 2, and this program reads 1 only"},
		{"none", `{}`, "has schema version 0"},
		{"no content", `{"schemaVersion": 1}`, "name is empty"},
		{"traversal", `{"schemaVersion": 1, "files": [{"name": "../../x"}]}`, `"../../x" is not a valid file name`},
		{"huge", strings.Repeat(" ", 5<<20), "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "manifest.json"), []byte(tt.manifest))
			if _, err := payload.Open(t.Context(), dir, payload.Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := payload.Open(t.Context(), t.TempDir(), payload.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestOverride(t *testing.T) {
	signed := []byte("signed by the site")
	var requests int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.URL.Path != "/kubelet.exe" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(signed)
	}))
	defer server.Close()
	right := payload.Content{Size: int64(len(signed)), SHA256: sum(signed)}
	for _, tt := range []struct {
		name string
		o    payload.Override
		want string
	}{
		{"right", payload.Override{URL: "/kubelet.exe", Content: right}, ""},
		{"another digest", payload.Override{URL: "/kubelet.exe", Content: payload.Content{Size: right.Size, SHA256: sum(nil)}}, "has the SHA-256 digest " + right.SHA256},
		{"longer than said", payload.Override{URL: "/kubelet.exe", Content: payload.Content{Size: right.Size - 1, SHA256: right.SHA256}}, "has 18 bytes, and the manifest says 17"},
		{"shorter", payload.Override{URL: "/kubelet.exe", Content: payload.Content{Size: right.Size + 1, SHA256: right.SHA256}}, "has 18 bytes, and the manifest says 19"},
		{"not there", payload.Override{URL: "/x", Content: right}, "404 Not Found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cache := t.TempDir()
			tt.o.URL = server.URL + tt.o.URL
			dir := build(t, func(_ *payload.Manifest, l []payload.Source) { l[1].Override = &tt.o })
			p := open(t, dir, payload.Options{CacheDir: cache})
			f := p.Manifest.File("kubelet.exe")
			if f.Effective() != tt.o.Content || f.Compressed() != nil {
				t.Errorf("content %+v, compressed %+v", f.Effective(), f.Compressed())
			}
			err := p.Verify(t.Context())
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "kubelet.exe") {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if left, _ := os.ReadDir(cache); len(left) > 0 {
					t.Errorf("left in the cache: %v", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			requests = 0
			// Another process with the same cache downloads nothing.
			if got := read(t, open(t, dir, payload.Options{CacheDir: cache}), "kubelet.exe"); !bytes.Equal(got, signed) || requests != 0 {
				t.Errorf("got %q with %d requests", got, requests)
			}
		})
	}
}

// TestOverrideIsDownloadedAgain damages what was downloaded.
func TestOverrideIsDownloadedAgain(t *testing.T) {
	signed := []byte("signed by the site")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(signed) }))
	defer server.Close()
	o := payload.Override{URL: server.URL, Content: payload.Content{Size: int64(len(signed)), SHA256: sum(signed)}}
	dir := build(t, func(_ *payload.Manifest, l []payload.Source) { l[1].Override = &o })
	for name, damaged := range map[string][]byte{"another byte": []byte("Signed by the site"), "cut off": signed[:5]} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			p := open(t, dir, payload.Options{CacheDir: cache})
			write(t, filepath.Join(cache, "sha256-"+sum(signed)), damaged)
			if got := read(t, p, "kubelet.exe"); !bytes.Equal(got, signed) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// roundTripper answers requests in place of a server.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOverrideIsDownloadedOnce has many hosts need a file at the same time.
func TestOverrideIsDownloadedOnce(t *testing.T) {
	signed := []byte("signed by the site")
	o := payload.Override{URL: "http://files.example.com/", Content: payload.Content{Size: int64(len(signed)), SHA256: sum(signed)}}
	dir := build(t, func(_ *payload.Manifest, l []payload.Source) { l[1].Override = &o })
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		arrived := make(chan struct{})
		p := open(t, dir, payload.Options{CacheDir: t.TempDir(), Client: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			requests.Add(1)
			<-arrived
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(signed))}, nil
		})}})
		errs := make(chan error)
		for range 50 {
			go func() {
				f, err := p.Open(t.Context(), "kubelet.exe")
				if err == nil {
					err = f.Close()
				}
				errs <- err
			}()
		}
		synctest.Wait()
		close(arrived)
		for range 50 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := requests.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestOverrideFromASilentServer has a server that sends no more.
func TestOverrideFromASilentServer(t *testing.T) {
	o := payload.Override{URL: "http://files.example.com/", Content: payload.Content{Size: 90 << 20, SHA256: sum(nil)}}
	dir := build(t, func(_ *payload.Manifest, l []payload.Source) { l[1].Override = &o })
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir, payload.Options{CacheDir: t.TempDir(), Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			body, w := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = w.CloseWithError(r.Context().Err()) })
			return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
		})}})
		began := time.Now()
		_, err := p.Open(t.Context(), "kubelet.exe")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Minute {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

// image is an OCI layout under construction.
type image struct {
	t   *testing.T
	dir string
}

type object = map[string]any

func (i image) blob(mediaType string, content []byte) object {
	i.t.Helper()
	write(i.t, filepath.Join(i.dir, "blobs", "sha256", sum(content)), content)
	return object{"mediaType": mediaType, "digest": "sha256:" + sum(content), "size": len(content)}
}

// replace changes a blob, and not what is said about it.
func (i image) replace(blob object, content []byte) {
	i.t.Helper()
	write(i.t, filepath.Join(i.dir, "blobs", "sha256", strings.TrimPrefix(blob["digest"].(string), "sha256:")), content)
}

func (i image) json(mediaType string, v any) object {
	i.t.Helper()
	return i.blob(mediaType, i.encode(v))
}

func (i image) encode(v any) []byte {
	i.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		i.t.Fatal(err)
	}
	return b
}

// finish writes what is not a blob.
func (i image) finish(manifests ...object) {
	i.t.Helper()
	write(i.t, filepath.Join(i.dir, "index.json"), i.encode(object{"schemaVersion": 2, "manifests": manifests}))
	write(i.t, filepath.Join(i.dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// gzipLayers makes an image as other tools do: with a compressed layer, and with the one for
// Windows among others.
func gzipLayers(t *testing.T, plain string) string {
	t.Helper()
	i := image{t, filepath.Join(t.TempDir(), "gzip")}
	blobs, err := filepath.Glob(filepath.Join(plain, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var largest []byte
	for _, b := range blobs {
		content, err := os.ReadFile(b)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > len(largest) {
			largest = content
		}
	}
	windows := i.json(typeManifest, object{"layers": []object{i.blob(typeLayer+"+gzip", zipped(t, largest))}})
	windows["platform"] = object{"os": "windows", "architecture": "amd64"}
	linux := i.json(typeManifest, object{"layers": []object{}})
	linux["platform"] = object{"os": "linux", "architecture": "amd64"}
	i.finish(i.json(typeIndex, object{"manifests": []object{linux, windows}}))
	return i.dir
}

// TestImageHasLicenses: the license texts of a payload are in its image, in one that is the same each time, and whoever
// opens it gets the payload.
func TestImageHasLicenses(t *testing.T) {
	dir := build(t, nil)
	texts := map[string]string{"LICENSE": "ours", "example.com/a@v1/LICENSE": "of a", "example.com/a@v1/third_party/NOTICE": "of others"}
	for name, text := range texts {
		write(t, filepath.Join(dir, payload.LicensesDir, name), []byte(text))
	}
	p := open(t, dir, payload.Options{})
	images := []string{filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")}
	for _, image := range images {
		if err := p.WriteImage(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(tree(t, images[0]), tree(t, images[1])); diff != "" {
		t.Errorf("two images differ (-1 +2):\n%s", diff)
	}
	blobs, err := filepath.Glob(filepath.Join(images[0], "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, blob := range blobs {
		content, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(bytes.NewReader(content))
		for {
			header, err := r.Next()
			if err != nil {
				break // also at once: a blob that is no layer
			}
			if name, found := strings.CutPrefix(header.Name, "payload/licenses/"); found {
				text, err := io.ReadAll(r)
				if err != nil {
					t.Fatal(err)
				}
				got[name] = string(text)
			}
		}
	}
	if diff := cmp.Diff(texts, got); diff != "" {
		t.Errorf("license texts (-want +got):\n%s", diff)
	}
	if err := open(t, images[0], payload.Options{}).Verify(t.Context()); err != nil {
		t.Errorf("the image: %v", err)
	}
}

func zipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(content)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tarOf makes a layer of files with their content; a name that ends in @ is a symbolic link.
func tarOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for n := 0; n < len(files); n += 2 {
		h := &tar.Header{Name: files[n], Size: int64(len(files[n+1])), Mode: 0o644, Typeflag: tar.TypeReg}
		content := files[n+1]
		if link, ok := strings.CutSuffix(files[n], "@"); ok {
			h = &tar.Header{Name: link, Linkname: files[n+1], Typeflag: tar.TypeSymlink}
			content = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLayers looks at an image with several layers, as a Containerfile makes it.
func TestLayers(t *testing.T) {
	manifest := fmt.Sprintf(`{"schemaVersion": 1, "name": "x", "version": "v1", "os": "windows", "architecture": "amd64",
		"files": [{"name": "x.exe", "path": "C:\\k\\x.exe", "role": "Kubelet", "size": 3, "sha256": %q}]}`, sum([]byte("new")))
	base := []string{"payload/manifest.json", manifest, "payload/files/x.exe", "old"}
	for _, tt := range []struct {
		name   string
		layers [][]string
		want   string // of the error; empty: none
	}{
		{"replaced by a later layer", [][]string{base, {"./payload/files/x.exe", "new"}}, ""},
		{"at the root", [][]string{{"manifest.json", manifest, "files/x.exe", "new"}}, ""},
		{"not replaced", [][]string{base}, "SHA-256"},
		{"whiteout", [][]string{base, {"payload/files/.wh.x.exe", ""}}, "files/x.exe"},
		{"whiteout of the directory", [][]string{base, {"payload/.wh.files", ""}}, "files/x.exe"},
		{"opaque directory", [][]string{base, {"payload/files/.wh..wh..opq", ""}}, "files/x.exe"},
		{"replaced by a link", [][]string{base, {"payload/files/x.exe@", "/etc/passwd"}}, "files/x.exe"},
		{"beside files of a base image", [][]string{{"Files/Windows/notepad.exe", "?", "payload/files/x.exe/y", "?"}, base, {"payload/files/x.exe", "new"}}, ""},
		{"replaced by a layer that removes it first", [][]string{base, {"payload/files/.wh.x.exe", "", "payload/files/x.exe", "new"}}, ""},
		{"replaced by a layer that removes it last", [][]string{base, {"payload/files/x.exe", "new", "payload/files/.wh.x.exe", ""}}, ""},
		{"replaced by a layer that removes the directory first", [][]string{base, {"payload/.wh.files", "", "payload/files/x.exe", "new"}}, ""},
		{"replaced by a layer that removes the directory last", [][]string{base, {"payload/files/x.exe", "new", "payload/.wh.files", ""}}, ""},
		{"replaced by a layer with an opaque directory", [][]string{base, {"payload/files/x.exe", "new", "payload/files/.wh..wh..opq", ""}}, ""},
		{"removed and added again", [][]string{base, {"payload/files/.wh.x.exe", ""}, {"payload/files/x.exe", "new"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := image{t, t.TempDir()}
			var layers []object
			for _, l := range tt.layers {
				layers = append(layers, i.blob(typeLayer, tarOf(t, l...)))
			}
			i.finish(i.json(typeManifest, object{"layers": layers}))
			err := open(t, i.dir, payload.Options{}).Verify(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestImageIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(image)
		want string
	}{
		{"no image", func(i image) { i.finish() }, "has 0 images"},
		{"two images", func(i image) {
			m := i.json(typeManifest, object{})
			i.finish(m, m)
		}, "has 2 images"},
		{"several, and none for windows/amd64", func(i image) {
			linux, arm := i.json(typeManifest, object{}), i.json(typeManifest, object{})
			linux["platform"] = object{"os": "linux", "architecture": "amd64"}
			arm["platform"] = object{"os": "windows", "architecture": "arm64"}
			i.finish(i.json(typeIndex, object{"manifests": []object{linux, arm}}))
		}, "has 2 images, and not one of them for windows/amd64"},
		{"another version of layouts", func(i image) {
			i.finish(i.json(typeManifest, object{}))
			write(i.t, filepath.Join(i.dir, "oci-layout"), []byte(`{"imageLayoutVersion":"2.0.0"}`))
		}, `version "2.0.0"`},
		{"digest of another kind", func(i image) {
			i.finish(object{"mediaType": typeManifest, "digest": "sha512:" + strings.Repeat("0", 128)})
		}, "not a SHA-256 digest"},
		{"digest that leads elsewhere", func(i image) {
			i.finish(object{"mediaType": typeManifest, "digest": "sha256:../../../etc/passwd"})
		}, "not a SHA-256 digest"},
		{"damaged manifest", func(i image) {
			m := i.json(typeManifest, object{})
			i.replace(m, []byte("[]"))
			i.finish(m)
		}, "has the SHA-256 digest"},
		{"damaged layer", func(i image) {
			layer := i.blob(typeLayer+"+gzip", zipped(i.t, tarOf(i.t, "payload/manifest.json", "{}")))
			i.replace(layer, zipped(i.t, tarOf(i.t, "payload/manifest.json", "[]")))
			i.finish(i.json(typeManifest, object{"layers": []object{layer}}))
		}, "has the SHA-256 digest"},
		{"layer of another size", func(i image) {
			layer := i.blob(typeLayer+"+gzip", zipped(i.t, tarOf(i.t, "payload/manifest.json", "{}")))
			layer["size"] = 1
			i.finish(i.json(typeManifest, object{"layers": []object{layer}}))
		}, "and the manifest says 1"},
		{"file that leads elsewhere", func(i image) {
			layer := i.blob(typeLayer, tarOf(i.t, "payload/manifest.json", "{}", "../x", ""))
			i.finish(i.json(typeManifest, object{"layers": []object{layer}}))
		}, `"../x"`},
		{"layer that is missing", func(i image) {
			layer := i.blob(typeLayer, nil)
			layer["digest"] = "sha256:" + sum([]byte("missing"))
			i.finish(i.json(typeManifest, object{"layers": []object{layer}}))
		}, sum([]byte("missing"))},
		{"index that is missing", func(i image) {
			i.finish(i.json(typeManifest, object{}))
			if err := os.Remove(filepath.Join(i.dir, "index.json")); err != nil {
				i.t.Fatal(err)
			}
		}, "index.json"},
		{"layer that ends early", func(i image) {
			whole := tarOf(i.t, "payload/manifest.json", strings.Repeat(" ", 4096))
			i.finish(i.json(typeManifest, object{"layers": []object{i.blob(typeLayer, whole[:2048])}}))
		}, "unexpected EOF"},
		{"unknown type", func(i image) { i.finish(i.json("text/plain", object{})) }, `media type "text/plain"`},
		{"unknown type of layer", func(i image) {
			i.finish(i.json(typeManifest, object{"layers": []object{i.blob(typeLayer+"+zstd", nil)}}))
		}, "is not supported"},
		{"endless nesting", func(i image) {
			d := i.json(typeManifest, object{})
			for range 10 {
				d = i.json(typeIndex, object{"manifests": []object{d}})
			}
			i.finish(d)
		}, "nested too deeply"},
		{"no payload in it", func(i image) {
			i.finish(i.json(typeManifest, object{"layers": []object{i.blob(typeLayer, tarOf(i.t, "etc/passwd", ""))}}))
		}, "manifest.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := image{t, t.TempDir()}
			tt.make(i)
			if _, err := payload.Open(t.Context(), i.dir, payload.Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
