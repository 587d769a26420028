// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMakePlugin: the plugin is built for all systems on which administrators sit, without a library of any of them. That it compiles for
// them is known from hack/deadcode. Beside each are the licenses of what is linked into it.
func TestMakePlugin(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"bin/rm": "#!/bin/sh\necho \"  rm $*\" >>\"$SAID\"\n", "bin/go": `#!/bin/sh
case "$1 $2" in
"build -trimpath")
  for last; do :; done
  while [ "$1" != -o ]; do shift; done
  echo "$GOOS/$GOARCH CGO_ENABLED=$CGO_ENABLED $2 $last" >>"$SAID" ;;
"run -trimpath") shift 2; echo "  $*" >>"$SAID" ;;
esac
`})
	said := filepath.Join(dir, "said")
	cmd := exec.CommandContext(t.Context(), "make", "-C", "..", "plugin", "VERSION=v1.2.3")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "SAID="+said)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	got, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	const want = `linux/amd64 CGO_ENABLED=0 _output/plugin/linux-amd64/ ./cmd/kubectl-windows
  rm -rf _output/plugin/linux-amd64/licenses
  ./hack/licenses -platform linux/amd64 -out _output/plugin/linux-amd64/licenses ./cmd/kubectl-windows
linux/arm64 CGO_ENABLED=0 _output/plugin/linux-arm64/ ./cmd/kubectl-windows
  rm -rf _output/plugin/linux-arm64/licenses
  ./hack/licenses -platform linux/arm64 -out _output/plugin/linux-arm64/licenses ./cmd/kubectl-windows
darwin/amd64 CGO_ENABLED=0 _output/plugin/darwin-amd64/ ./cmd/kubectl-windows
  rm -rf _output/plugin/darwin-amd64/licenses
  ./hack/licenses -platform darwin/amd64 -out _output/plugin/darwin-amd64/licenses ./cmd/kubectl-windows
darwin/arm64 CGO_ENABLED=0 _output/plugin/darwin-arm64/ ./cmd/kubectl-windows
  rm -rf _output/plugin/darwin-arm64/licenses
  ./hack/licenses -platform darwin/arm64 -out _output/plugin/darwin-arm64/licenses ./cmd/kubectl-windows
windows/amd64 CGO_ENABLED=0 _output/plugin/windows-amd64/ ./cmd/kubectl-windows
  rm -rf _output/plugin/windows-amd64/licenses
  ./hack/licenses -platform windows/amd64 -out _output/plugin/windows-amd64/licenses ./cmd/kubectl-windows
windows/arm64 CGO_ENABLED=0 _output/plugin/windows-arm64/ ./cmd/kubectl-windows
  rm -rf _output/plugin/windows-arm64/licenses
  ./hack/licenses -platform windows/arm64 -out _output/plugin/windows-arm64/licenses ./cmd/kubectl-windows
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("it builds (-want +got):\n%s", diff)
	}
}

// TestContainerfileLicenses: the image has the licenses of the programs of make build, of the payload and of the authorities, in /licenses.
func TestContainerfileLicenses(t *testing.T) {
	text, err := os.ReadFile("../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nFROM scratch\n") || !strings.HasSuffix(string(text), "\nUSER 1001:1001\n") ||
		!strings.Contains(string(text), "\nCOPY --from=build /licenses /licenses/\n") {
		t.Error("the image does not have what the build leaves in /licenses")
	}
	_, command, found := strings.Cut(string(text), "\nRUN ")
	command, _, ended := strings.Cut(command, "\n\n")
	if !found || !ended {
		t.Fatalf("there is no command in\n%s", text)
	}
	// The absolute paths of the image, below a directory of the test.
	dir := t.TempDir()
	command = regexp.MustCompile(`([ =])/`).ReplaceAllString(command, "${1}"+dir+"/")
	writeFiles(t, dir, map[string]string{
		"usr/share/doc/ca-certificates/copyright": "of authorities",
		"programs/make": `#!/bin/sh
for target; do
  case $target in
  licenses) mkdir -p bin/licenses/example.com/a@v1; echo ours >bin/licenses/LICENSE; echo a >bin/licenses/example.com/a@v1/LICENSE ;;
  OUT=*) out=${target#OUT=}; mkdir -p "$out/licenses/example.com/b@v1"; echo ours >"$out/licenses/LICENSE"; echo b >"$out/licenses/example.com/b@v1/LICENSE"; echo {} >"$out/manifest.json" ;;
  esac
done
`,
	})
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command) // as the builders of images do
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "programs")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	got := snapshot(t, filepath.Join(dir, "licenses"))
	want := map[string]string{"LICENSE": "ours\n", "example.com/a@v1/LICENSE": "a\n", "example.com/b@v1/LICENSE": "b\n", "ca-certificates/copyright": "of authorities"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("licenses (-want +got):\n%s", diff)
	}
}
