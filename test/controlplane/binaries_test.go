// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const buildScript = "../../hack/build-controlplane.sh"

// fakeGo answers what the build script asks the go command. Instead of building
// it writes programs that do nothing, and counts that in a file.
const fakeGo = `#!/bin/sh
case $1 in
version) echo "go version fake$FAKE_GO_VERSION" ;;
env) echo amd64; echo 1 ;;
list) echo v1.2.3 ;;
mod) ;;
build)
  echo built >>"$FAKE_GO_BUILDS"
  while [ "$1" != -o ]; do shift; done
  [ -z "$FAKE_GO_FAILS" ] || { echo "compile: no luck" >&2; exit 1; }
  for program in server kube-apiserver kube-controller-manager kubectl; do
    printf '#!/bin/sh\n' >"$2/$program"
    chmod +x "$2/$program"
  done ;;
esac
`

// fakeBuild makes the build script use the fake go command and a cache of the
// test's own. It returns the cache and a function that counts builds.
func fakeBuild(t *testing.T) (cache string, builds func() int) {
	t.Helper()
	dir := writeFiles(t, map[string]string{"bin/go": fakeGo, "builds": ""})
	if err := os.Chmod(filepath.Join(dir, "bin", "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	counter := filepath.Join(dir, "builds")
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("FAKE_GO_BUILDS", counter)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	return filepath.Join(dir, "cache", "windows-instance-api"), func() int {
		content, err := os.ReadFile(counter)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(content), "built\n")
	}
}

// However many ask at once, and whoever asks later, one build is made.
func TestBuildScript(t *testing.T) {
	cache, builds := fakeBuild(t)
	var said sync.Map
	logf := func(_ string, args ...any) { said.Store(args[0], true) }

	dirs := make([]string, 4)
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() {
			dir, err := runBuildScript(t.Context(), buildScript, logf)
			if err != nil {
				t.Error(err)
			}
			dirs[i] = dir
		})
	}
	wg.Wait()
	again, err := runBuildScript(t.Context(), buildScript, logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if dir != again || filepath.Dir(dir) != cache {
			t.Errorf("one run built in %q, another in %q; want the same below %q", dir, again, cache)
		}
	}
	if err := checkBinaries(again); err != nil {
		t.Error(err)
	}
	if got := builds(); got != 1 {
		t.Errorf("%d builds, want 1", got)
	}
	for _, want := range []string{
		"build-controlplane: step 1 of 3: downloading modules (about 1 minute, seconds if they are in the module cache)",
		"build-controlplane: already built",
	} {
		if _, ok := said.Load(want); !ok {
			t.Errorf("the script did not say %q", want)
		}
	}
}

// When a new version is made, the old ones are removed but for the one that was asked for last, and
// those that are in use.
func TestBuildScriptRemovesOld(t *testing.T) {
	fakeBuild(t)
	ask := func(version string) string {
		t.Helper()
		t.Setenv("FAKE_GO_VERSION", version)
		out, err := exec.CommandContext(t.Context(), buildScript).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	t.Setenv("FAKE_GO_VERSION", "used")
	used, err := runBuildScript(t.Context(), buildScript, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked, forgotten := ask("asked"), ask("forgotten")
	ask("asked")
	newest := ask("newest")
	for dir, want := range map[string]bool{used: true, asked: true, forgotten: false, newest: true} {
		if err := checkBinaries(dir); (err == nil) != want {
			t.Errorf("%s (used %s, asked %s, forgotten %s, newest %s) is there: %v, want %v", dir, used, asked, forgotten, newest, err == nil, want)
		}
	}
	if again := ask("forgotten"); again != forgotten {
		t.Errorf("the version that was removed is in %s now, and was in %s", again, forgotten)
	}
}

// A build that fails leaves nothing that a later run would take for a build.
func TestBuildScriptFails(t *testing.T) {
	cache, builds := fakeBuild(t)
	t.Setenv("FAKE_GO_FAILS", "yes")
	for want := 1; want <= 2; want++ {
		_, err := runBuildScript(t.Context(), buildScript, nil)
		if err == nil || !strings.Contains(err.Error(), "compile: no luck") {
			t.Errorf("runBuildScript() = %v, want an error with what the compiler said", err)
		}
		if got := builds(); got != want {
			t.Errorf("%d builds, want %d", got, want)
		}
	}
	// All but the lock.
	left, err := filepath.Glob(filepath.Join(cache, "controlplane-*[^k]"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	t.Setenv("FAKE_GO_FAILS", "")
	if _, err := runBuildScript(t.Context(), buildScript, nil); err != nil {
		t.Errorf("a later build = %v", err)
	}
}

func TestBinDirFromTheEnvironment(t *testing.T) {
	dir := writeFiles(t, map[string]string{"etcd": "", "kube-apiserver": "", "kube-controller-manager": "", "kubectl": ""})
	t.Setenv(BinDirEnv, dir)
	if got, err := BinDir(t.Context(), nil); err != nil || got != dir {
		t.Errorf("BinDir() = %q, %v; want %q", got, err, dir)
	}
	if err := os.Remove(filepath.Join(dir, "kubectl")); err != nil {
		t.Fatal(err)
	}
	if _, err := BinDir(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no kubectl") {
		t.Errorf("BinDir() = %v, want an error about kubectl", err)
	}
}
