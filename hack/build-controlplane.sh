#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Builds the control plane that tests, the demo and benchmarks run (etcd,
# kube-apiserver, kube-controller-manager, kubectl) from Go modules, and prints
# the directory that holds it.

set -euo pipefail

usage() {
  cat <<'EOF'
usage: hack/build-controlplane.sh

Builds etcd, kube-apiserver, kube-controller-manager and kubectl at the versions
that test/controlplane/binaries/go.mod names, and prints the directory that
holds them as the only line on stdout. Progress goes to stderr.

The directory is ${XDG_CACHE_HOME:-$HOME/.cache}/windows-instance-api/controlplane-<hash>,
where the hash covers everything that decides what is built. If it is there,
nothing is built. Any number of runs may go on at once: one builds, the others
wait for it. Of earlier versions those stay that are in use, and one more.

Needs the Go tool chain, flock (util-linux), and the Go module proxy or a filled
module cache. Takes about 7 minutes on 2 cores with an empty Go build cache,
about 15 seconds with a warm one, and 600 MB of disk.

exit status: 0 built or already there, 1 failed, 2 wrong usage.
EOF
}

case ${1-} in
  "") ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

script=$(realpath "${BASH_SOURCE[0]}")
# shellcheck source=hack/lib.sh
source "$(dirname "$script")/lib.sh"
say() { printf 'build-controlplane: %s\n' "$*" >&2; } # lib.sh has one without the name
die() { say "$*"; exit 1; }
cd "$ROOT/test/controlplane/binaries"

command -v go >/dev/null || die "go is not in PATH; install the Go tool chain that go.mod names"
command -v flock >/dev/null || die "flock is not in PATH; it is part of util-linux (hack/install-deps.sh installs it)"

# The binaries run on this machine, whatever the caller cross-compiles, and this
# module is no part of a workspace the caller may have.
unset GOOS GOARCH
export GOWORK=off

hash=$({ cat go.mod go.sum "$script"; go version; go env GOARCH CGO_ENABLED; } | sha256sum | cut -c1-16)
dir=$CACHE_DIR/controlplane-$hash

trap 'exit 130' INT
trap 'exit 143' TERM

binaries() {
  local start=$SECONDS bin=$1/content
  mkdir "$bin"

  say "step 1 of 3: downloading modules (about 1 minute, seconds if they are in the module cache)"
  go mod download

  # Without these the API server would call itself v0.0.0, and clients and the
  # emulation version would draw wrong conclusions from that.
  local version major minor ldflags package total check
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  ldflags="-s -w"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
    ldflags+=" -X $package.gitTreeState=clean"
  done

  total=$(go list -deps tool | wc -l)
  say "step 2 of 3: compiling Kubernetes $version, etcd and kubectl: up to $total packages (about 7 minutes on 2 cores, 15 seconds if they are in the Go build cache)"

  # -v names each package when its compilation starts; packages from the build
  # cache are not named. Everything else that go says is passed on.
  go build -v -trimpath -ldflags "$ldflags" -o "$bin/" tool 2>&1 9>&- |
    awk -v total="$total" -v began="$(date +%s)" '
      /^[A-Za-z0-9_.~\/-]+$/ {
        if (++n % 100 == 0) {
          "date +%s" | getline now; close("date +%s")
          printf "build-controlplane:   %d of up to %d packages after %d s\n", n, total, now - began
          fflush()
        }
        next
      }
      { print; fflush() }' >&2

  say "step 3 of 3: checking that the binaries run"
  # The tool directive names the binary of go.etcd.io/etcd/server/v3 after its directory.
  mv "$bin/server" "$bin/etcd"
  for check in "etcd --version" "kube-apiserver --version" "kube-controller-manager --version" "kubectl version --client"; do
    # shellcheck disable=SC2086 # the words of the check are meant to be split
    "$bin"/$check >/dev/null || die "the binary that was built does not run: $check"
  done
  say "done after $((SECONDS - start)) s"
}

[[ ! -d $dir ]] || say "already built"
make_once "$dir" binaries
echo "$dir"
