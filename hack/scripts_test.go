// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

// Package hack has the tests of the scripts.
package hack

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goStandIn stands in for the go tool. What it builds are generators: they write one file where they
// are told to, and the one that $STOPS names says so in the pipe $SAID and stays, or fails if there is
// no pipe.
const goStandIn = `#!/bin/sh
case "$*" in
*" build "*)
  while [ "$1" != -o ]; do shift; done
  cat >"$2" <<'EOF'
#!/bin/sh
program=${0##*/}
if [ "$program" = "$STOPS" ]; then
  [ -p "$SAID" ] || exit 1
  echo stopped >"$SAID"
  read -r _ <"$SAID"
fi
dir=pkg/apis/windows/v1alpha1
while [ $# -gt 0 ]; do
  case $1 in
  --output-dir) dir=$2 ;;
  --output-file) file=$2 ;;
  --report-filename) echo new >"$2" ;;
  --output-model-name-file) echo new >"pkg/apis/windows/v1alpha1/$2" ;;
  esac
  shift
done
mkdir -p "$dir"
echo new >"$dir/${file:-$program.go}"
EOF
  chmod +x "$2" ;;
"list -m "*) echo "$MODULE_OF_OTHERS" ;;
"env GOVERSION") echo go1 ;;
"run "*) echo '{}' ;;
esac
`

// snapshot are the files below a directory with their contents.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

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

// readScript reads a script of this directory.
func readScript(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestUpdateCodegen: a run that does not come to its end changes nothing; one that does replaces all
// that was generated before, and nothing else.
func TestUpdateCodegen(t *testing.T) {
	before := map[string]string{
		"go.mod": "module x\n", "go.sum": "", "hack/tools/go.mod": "module tools\n", "hack/api-violations.list": "old\n",
		"hack/lib.sh": readScript(t, "lib.sh"), "hack/update-codegen.sh": readScript(t, "update-codegen.sh"),
		"pkg/apis/windows/v1alpha1/types_host.go": "types\n", "pkg/apis/windows/v1alpha1/zz_generated.deepcopy.go": "old\n", "pkg/apis/windows/v1alpha1/zz_generated.gone.go": "old\n",
		"pkg/generated/openapi/zz_generated.openapi.go": "old\n", "pkg/generated/clientset/gone.go": "old\n",
	}
	after := map[string]string{
		"hack/api-violations.list":                                   "new\n",
		"pkg/apis/windows/v1alpha1/types_host.go":                    "types\n",
		"pkg/apis/windows/v1alpha1/zz_generated.deepcopy.go":         "new\n",
		"pkg/apis/windows/v1alpha1/zz_generated.validations.go":      "new\n",
		"pkg/apis/windows/v1alpha1/zz_generated.defaults.go":         "new\n",
		"pkg/apis/windows/v1alpha1/zz_generated.model_name.go":       "new\n",
		"pkg/apis/windows/v1alpha1/zz_generated.conversion.go":       "new\n",
		"pkg/generated/openapi/zz_generated.openapi.go":              "new\n",
		"pkg/generated/clientset/client-gen.go":                      "new\n",
		"pkg/generated/listers/lister-gen.go":                        "new\n",
		"pkg/generated/informers/informer-gen.go":                    "new\n",
		"pkg/generated/applyconfiguration/applyconfiguration-gen.go": "new\n",
	}
	for name, content := range before {
		if _, there := after[name]; !there && !strings.Contains(name, "gone") {
			after[name] = content
		}
	}
	for _, tt := range []struct {
		name, stops string
		signal      syscall.Signal
		want        map[string]string
	}{
		{name: "complete", want: after},
		{name: "failed", stops: "lister-gen", want: before},
		{name: "interrupted", stops: "lister-gen", signal: syscall.SIGINT, want: before},
		{name: "terminated", stops: "validation-gen", signal: syscall.SIGTERM, want: before},
		{name: "killed", stops: "client-gen", signal: syscall.SIGKILL, want: before},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tree, said := filepath.Join(dir, "tree"), filepath.Join(dir, "said")
			writeFiles(t, tree, before)
			writeFiles(t, dir, map[string]string{"bin/go": goStandIn, "others/go.mod": "module others\n"})
			if tt.signal != 0 {
				if err := syscall.Mkfifo(said, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(tree, "hack", "update-codegen.sh"))
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"),
				"MODULE_OF_OTHERS="+filepath.Join(dir, "others"), "SAID="+said, "STOPS="+tt.stops)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal signals all of a group
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.signal != 0 {
				if _, err := os.ReadFile(said); err != nil { // waits for the generator
					t.Fatal(err)
				}
				if err := syscall.Kill(-cmd.Process.Pid, tt.signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); (err == nil) != (tt.stops == "") {
				t.Fatalf("it ended with %v:\n%s", err, &out)
			}
			got := snapshot(t, tree)
			for name := range got {
				if strings.HasPrefix(name, "_output/") && tt.signal == syscall.SIGKILL {
					delete(got, name) // nobody can remove it then
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the tree (-want +got):\n%s\nit said:\n%s", diff, &out)
			}
		})
	}
}
