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
wait for it. Directories of earlier versions are left alone and can be deleted.

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

say() { printf 'build-controlplane: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

script=$(realpath "${BASH_SOURCE[0]}")
cd "$(dirname "$script")/../test/controlplane/binaries"

command -v go >/dev/null || die "go is not in PATH; install the Go tool chain that go.mod names"
command -v flock >/dev/null || die "flock is not in PATH; it is part of util-linux (hack/install-deps.sh installs it)"

# The binaries run on this machine, whatever the caller cross-compiles, and this
# module is no part of a workspace the caller may have.
unset GOOS GOARCH
export GOWORK=off

hash=$({ cat go.mod go.sum "$script"; go version; go env GOARCH CGO_ENABLED; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:?neither XDG_CACHE_HOME nor HOME is set}/.cache}/windows-instance-api
dir=$cache/controlplane-$hash

# The directory gets its name by a rename once everything is in it, so its being
# there means that the build is complete.
if [[ -d $dir ]]; then
  say "already built"
  echo "$dir"
  exit 0
fi

mkdir -p "$cache"
exec 9>"$dir.lock"
if ! flock --nonblock 9; then
  say "another run is building the same binaries; waiting for it (up to about 7 minutes)"
  flock 9
fi
if [[ -d $dir ]]; then
  say "built by the other run"
  echo "$dir"
  exit 0
fi

# Whatever has this prefix was left by a run that was killed: we hold the lock.
rm -rf "$dir".tmp.*
tmp=$(mktemp -d "$dir.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start=$SECONDS

say "step 1 of 3: downloading modules (about 1 minute, seconds if they are in the module cache)"
go mod download

# Without these the API server would call itself v0.0.0, and clients and the
# emulation version would draw wrong conclusions from that.
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
go build -v -trimpath -ldflags "$ldflags" -o "$tmp/" tool 2>&1 9>&- |
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
mv "$tmp/server" "$tmp/etcd"
for check in "etcd --version" "kube-apiserver --version" "kube-controller-manager --version" "kubectl version --client"; do
  # shellcheck disable=SC2086 # the words of the check are meant to be split
  "$tmp"/$check >/dev/null || die "the binary that was built does not run: $check"
done

chmod 0755 "$tmp"
mv -T "$tmp" "$dir"
trap - EXIT
say "done after $((SECONDS - start)) s"
echo "$dir"
