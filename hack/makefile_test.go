// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
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
