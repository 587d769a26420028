// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// goStandIn stands in for the go tool: its programs are empty, the payload that its packer
// makes has one file, and those that are added, and of each module there is one license.
const goStandIn = `#!/bin/sh
case "$*" in *" list "*|version) echo v1.2.3; exit;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
case $out in
*/) : >"$out/kubelet.exe";;
*/pack) cat >"$out" <<'EOF'
#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in -out) out=$2;; -add) added="$added $2";; -licenses) licenses=$2;; esac
  shift
done
mkdir -p "$out/files"
for file in $added; do cp "${file#*=}" "$out/files/${file%%=*}"; done
echo new >"$out/files/kubelet.exe"
printf '{\n  "schemaVersion": 1,\n  "name": "windows-node",\n}\n' >"$out/manifest.json"
cp -r "$licenses" "$out/licenses"
EOF
chmod +x "$out";;
*/licenses) cat >"$out" <<'EOF'
#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in -out) out=$2;; -C) module=${2##*/};; -platform) platform=$2;; esac
  shift
done
[ "$1" != ./cmd/agent ] || module=agent
mkdir -p "$out"
echo "$platform" >"$out/$module"
EOF
chmod +x "$out";;
*) : >"$out";;
esac
`

// snapshot are the files below a directory with their contents.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, relErr := filepath.Rel(dir, path)
		files[name] = string(content)
		if err == nil {
			err = relErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// writeFiles writes files below a directory.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBuildPayloadOut: hack/build-payload.sh replaces what it made, removes nothing else, and
// leaves things as they were when it fails.
func TestBuildPayloadOut(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("the script needs flock")
	}
	made := map[string]string{"files/kubelet.exe": "new\n", "manifest.json": "{\n  \"schemaVersion\": 1,\n  \"name\": \"windows-node\",\n}\n"}
	for _, module := range []string{"aws", "cni", "containerd", "exporter", "hcsshim", "kubernetes", "agent"} {
		made["licenses/"+module] = "windows/amd64\n"
	}
	// before are the files that are at OUT.
	before := func(files map[string]string) func(t *testing.T, out string) {
		return func(t *testing.T, out string) { writeFiles(t, out, files) }
	}
	// written is what the packer writes.
	written := func(image bool, added map[string]string) func(t *testing.T, out string) {
		return func(t *testing.T, out string) {
			tmp := t.TempDir()
			writeFiles(t, tmp, map[string]string{"kubelet.exe": "old"})
			dir := out
			if image {
				dir = filepath.Join(tmp, "payload")
			}
			manifest := payload.Manifest{Name: "windows-node", Version: "v1", OS: "windows", Architecture: "amd64"}
			source := payload.Source{File: payload.File{Slot: payload.Slot{Name: "kubelet.exe", Path: `C:\k\kubelet.exe`, Role: payload.RoleKubelet}}, LocalPath: filepath.Join(tmp, "kubelet.exe")}
			if err := payload.Build(t.Context(), dir, manifest, []payload.Source{source}); err != nil {
				t.Fatal(err)
			}
			if image {
				p, err := payload.Open(t.Context(), dir, payload.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				if err := p.WriteImage(t.Context(), out); err != nil {
					t.Fatal(err)
				}
			}
			writeFiles(t, out, added)
		}
	}
	const failingCopy = "#!/bin/sh\nfor to; do :; done\nmkdir -p \"$to\"\necho 'no space left' >&2\nexit 1\n"
	const failingMove = "#!/bin/sh\ncase \"$2\" in */new) echo 'it does not move' >&2; exit 1;; esac\nexec /bin/mv \"$@\"\n"
	for _, tc := range []struct {
		name     string
		before   func(t *testing.T, out string)
		programs map[string]string
		fails    bool
	}{
		{name: "nothing is there"},
		{name: "an empty directory", before: func(t *testing.T, out string) {
			if err := os.MkdirAll(out, 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a payload", before: written(false, nil)},
		{name: "a payload with licenses", before: written(false, map[string]string{"licenses/LICENSE": "old"})},
		{name: "a payload as an image", before: written(true, nil)},
		{name: "a payload with something beside it", before: written(false, map[string]string{"notes.txt": "mine"}), fails: true},
		{name: "a payload with licenses and something beside it", before: written(false, map[string]string{"licenses/LICENSE": "old", "notes.txt": "mine"}), fails: true},
		{name: "a payload in a repository", before: written(false, map[string]string{".git/HEAD": "mine"}), fails: true},
		{name: "an image with something beside it", before: written(true, map[string]string{"notes.txt": "mine"}), fails: true},
		{name: "a browser extension", before: before(map[string]string{"manifest.json": `{"manifest_version": 3, "name": "x"}`, "files/x.js": "x"}), fails: true},
		{name: "an image of others", before: before(map[string]string{"oci-layout": "{}", "index.json": "{}", "blobs/sha256/aa": "x"}), fails: true},
		{name: "a file", before: func(t *testing.T, out string) {
			writeFiles(t, filepath.Dir(out), map[string]string{filepath.Base(out): "x"})
		}, fails: true},
		{name: "a copy that fails", before: written(false, nil), programs: map[string]string{"cp": failingCopy}, fails: true},
		{name: "a move that fails", before: written(false, nil), programs: map[string]string{"mv": failingMove}, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			parent := filepath.Join(dir, "parent")
			out := filepath.Join(parent, "out")
			if err := os.Mkdir(parent, 0o755); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				tc.before(t, out)
			}
			old := snapshot(t, parent)
			writeFiles(t, filepath.Join(dir, "bin"), map[string]string{"go": goStandIn})
			script, err := filepath.Abs("../../build-payload.sh")
			if err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) ([]byte, error) {
				cmd := exec.CommandContext(t.Context(), script, args...)
				cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "VERSION=v1")
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				_, err := cmd.Output()
				return stderr.Bytes(), err
			}
			// What fails is the way to OUT.
			if text, err := run(); err != nil {
				t.Fatalf("without OUT: %v\n%s", err, text)
			}
			writeFiles(t, filepath.Join(dir, "bin"), tc.programs)
			text, err := run(out)
			if (err != nil) != tc.fails {
				t.Fatalf("it ended with %v:\n%s", err, text)
			}
			want := old
			if !tc.fails {
				want = map[string]string{}
				for name, content := range made {
					want["out/"+name] = content
				}
			}
			if diff := cmp.Diff(want, snapshot(t, parent)); diff != "" {
				t.Errorf("what is there (-want +got):\n%s\nit said:\n%s", diff, text)
			}
			if left, err := filepath.Glob(filepath.Join(parent, ".payload-*")); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// TestMakePayload: make payload has the programs that a site adds, also as hack/take-from-wmco.sh prints them, on lines of
// their own.
func TestMakePayload(t *testing.T) {
	for _, program := range []string{"flock", "make"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the script needs %s", program)
		}
	}
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"bin/go": goStandIn, "csi-proxy.exe": "a", "hybrid-overlay-node.exe": "b"})
	out := filepath.Join(dir, "out")
	add := func(name string) string { return "--add " + name + "=" + filepath.Join(dir, name) }
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../../..", "payload", "VERSION=v1", "OUT="+out,
		"ARGS="+add("csi-proxy.exe")+"\n"+add("hybrid-overlay-node.exe")+"\n")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("it ended with %v:\n%s", err, text)
	}
	got := snapshot(t, filepath.Join(out, "files"))
	if diff := cmp.Diff(map[string]string{"kubelet.exe": "new\n", "csi-proxy.exe": "a", "hybrid-overlay-node.exe": "b"}, got); diff != "" {
		t.Errorf("files of the payload (-want +got):\n%s", diff)
	}
}

// TestAddedFileIsTheOneThatItShouldBe: a program of a site is taken with its digest, and with no other one.
func TestAddedFileIsTheOneThatItShouldBe(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("the script needs flock")
	}
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"bin/go": goStandIn, "csi-proxy.exe": "a"})
	for text, taken := range map[string]bool{"a": true, "b": false} {
		added := fmt.Sprintf("csi-proxy.exe=%s@sha256:%x", filepath.Join(dir, "csi-proxy.exe"), sha256.Sum256([]byte(text)))
		out := filepath.Join(dir, "out-"+text)
		cmd := exec.CommandContext(t.Context(), "../../build-payload.sh", "--add", added, out)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "VERSION=v1")
		said, err := cmd.CombinedOutput()
		if (err == nil) != taken {
			t.Errorf("with the digest of %q it ended with %v:\n%s", text, err, said)
		}
		if !taken {
			if want := fmt.Sprintf("has the digest %x", sha256.Sum256([]byte("a"))); !strings.Contains(string(said), want) {
				t.Errorf("it does not say %q:\n%s", want, said)
			}
		} else if got := snapshot(t, filepath.Join(out, "files"))["csi-proxy.exe"]; got != "a" {
			t.Errorf("the payload has %q", got)
		}
	}
}

// TestBuildPayloadMinor: hack/build-payload.sh builds the kubelet for the minor version that it is told, and names those
// that there are for one that there is not.
func TestBuildPayloadMinor(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("the script needs flock")
	}
	dir := t.TempDir()
	writeFiles(t, filepath.Join(dir, "bin"), map[string]string{"go": goStandIn})
	newest, err := os.ReadFile("../kubernetes/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`k8s\.io/kubernetes v(\d+\.\d+)\.`).FindSubmatch(newest)
	if minor == nil {
		t.Fatal("the module does not say which version of Kubernetes it builds")
	}
	others, err := filepath.Glob("../kubernetes-*")
	if err != nil || len(others) != 2 {
		t.Errorf("besides the newest version there are %v, %v; want two", others, err)
	}
	for _, tt := range []struct {
		minor string
		want  []string // in what it says
		fails bool
	}{
		{minor: string(minor[1]), want: []string{"hack/payload/kubernetes,"}},
		{minor: strings.TrimPrefix(filepath.Base(others[0]), "kubernetes-"), want: []string{"hack/payload/" + filepath.Base(others[0]) + ","}},
		{minor: "1.1", want: []string{"--kubernetes 1.1: there is no such version", string(minor[1])}, fails: true},
		{minor: "../kubernetes", want: []string{"there is no such version"}, fails: true},
	} {
		cmd := exec.CommandContext(t.Context(), "../../build-payload.sh", "--kubernetes", tt.minor)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "VERSION=v1")
		text, err := cmd.CombinedOutput()
		if (err != nil) != tt.fails {
			t.Errorf("--kubernetes %s ended with %v", tt.minor, err)
		}
		for _, want := range tt.want {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("--kubernetes %s does not say %q:\n%s", tt.minor, want, text)
			}
		}
	}
}
