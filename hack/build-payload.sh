#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Builds what is shipped to Windows hosts from Go modules, and prints the directory
# that holds it.

set -euo pipefail

usage() {
  cat <<'EOF'
usage: hack/build-payload.sh [--kubernetes 1.N] [--image] [--add NAME=FILE[@sha256:HEX]]... [--overrides FILE] [OUT]
       hack/build-payload.sh --check-reproducible

Cross-compiles for windows/amd64 what makes a host a node, at the versions that
hack/payload/*/go.mod name, adds our agent, and writes a payload: a directory with the
files, each plain and compressed, a manifest with their digests (docs/payload.md), and
the licenses of what is linked into them, which are not sent to hosts.
Prints the directory as the only line on stdout; progress goes to stderr.

OUT          copy the payload there. What a run made before is replaced; anything else is left
             alone, also a payload with other files beside it.
--kubernetes the minor version of the kubelet and kube-proxy, for clusters that are not at the newest one:
             a kubelet must not be newer than its API server. hack/payload/kubernetes-1.N is there for each.
--image      write an OCI image layout, not a plain directory.
--add        a file of the site's own for a name that hack/payload/files.json lists: one of its
             slots (csi-proxy.exe, ...), or another build of what we build. With a digest, that of
             FILE must be the same.
--overrides  a JSON file with what hosts get in place of a file that is in the payload, for
             sites that sign programs: {"kubelet.exe": {"url": ..., "size": ..., "sha256": ...}}.
--check-reproducible
             build one program twice, from two directories and with a build cache of its own
             the second time, and compare. Takes about a minute.

VERSION names the release, as in the Makefile. PAYLOAD_PARALLEL is how many compilers
run at a time (default: one for each CPU).

Everything is kept below ${XDG_CACHE_HOME:-$HOME/.cache}/windows-instance-api: programs in
payload-programs-<key>, payloads in payload-<key>, where the keys cover all that decides what
is built. What is there is not built again. Any number of runs may go on at once: one builds,
the others wait. Two of each are kept, those that were asked for last, and those that are in use: give
OUT for what is to stay.

Needs the Go tool chain, flock (util-linux), and the Go module proxy or a filled module cache.

exit status: 0 built or already there, 1 failed, 2 wrong usage.
EOF
}

say() { printf 'build-payload: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
wrong() { say "$*"; usage >&2; exit 2; }

out="" overrides="" check="" minor="" image=() added=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --image) image=(-image) ;;
    --check-reproducible) check=yes ;;
    --add | --overrides | --kubernetes)
      [[ $# -ge 2 ]] || wrong "$1 needs a value"
      if [[ $1 == --kubernetes ]]; then
        minor=$2
      elif [[ $1 == --overrides ]]; then
        [[ -f $2 ]] || die "--overrides $2: there is no such file"
        overrides=$(realpath "$2")
      else
        file=${2#*=}
        file=${file%@sha256:*}
        [[ $2 == *=* && -f $file ]] || die "--add $2: want NAME=FILE or NAME=FILE@sha256:HEX, and FILE to exist"
        if [[ $2 == *@sha256:* ]]; then
          digest=$(sha256sum <"$file")
          want=${2##*@sha256:}
          [[ ${digest%% *} == "${want,,}" ]] || die "--add $2: $file has the digest ${digest%% *}, so that it is another file than it should be"
        fi
        added+=(-add "${2%%=*}=$(realpath "$file")")
      fi
      shift
      ;;
    -*) wrong "unknown option $1" ;;
    *)
      [[ -z $out ]] || wrong "only one OUT can be written"
      out=$(realpath -m "$1")
      ;;
  esac
  shift
done

# is_payload DIR: whether DIR is what this script makes, and nothing but that.
is_payload() {
  local blob
  case $(cd "$1" && LC_ALL=C && echo *) in
    "files manifest.json" | "files licenses manifest.json") # payloads of before have no licenses
      grep -q '"schemaVersion": 1,' "$1/manifest.json" && grep -q '"name": "windows-node",' "$1/manifest.json"
      ;;
    "blobs index.json oci-layout")
      for blob in "$1"/blobs/sha256/*; do # the layer is an archive that begins with the manifest
        cmp -s -n 21 "$blob" - <<<"payload/manifest.json" && return
      done
      return 1
      ;;
    *) return 1 ;;
  esac
}

# must_be_ours fails if there is something at OUT that this script did not make.
must_be_ours() {
  [[ -e $out || -L $out ]] || return 0
  if [[ -d $out ]]; then
    [[ -z $(ls -A "$out") ]] && return
    # No file whose name begins with a period is in a payload.
    [[ $(ls "$out") == "$(ls -A "$out")" ]] && is_payload "$out" && return
  fi
  die "$out is there and is not what this script makes; it is left alone"
}
[[ -z $out ]] || must_be_ours

script=$(realpath "${BASH_SOURCE[0]}")
# shellcheck source=hack/lib.sh
source "$(dirname "$script")/lib.sh"
say() { printf 'build-payload: %s\n' "$*" >&2; } # lib.sh has one without the name
cd "$ROOT/hack/payload"

command -v go >/dev/null || die "go is not in PATH; install the Go tool chain that go.mod names"
command -v flock >/dev/null || die "flock is not in PATH; it is part of util-linux (hack/install-deps.sh installs it)"
version=${VERSION:-$(git -C "$ROOT" describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.0.0-unreleased)}

# These modules are no part of a workspace the caller may have, and what a caller
# sets for their own builds must not end up in programs that are compared by digest.
unset GOOS GOARCH GOFLAGS GOEXPERIMENT GOAMD64
export GOWORK=off

# for_hosts runs go as for the hosts. CGO_ENABLED=0 and -trimpath: the programs are
# the same wherever they are built. -buildvcs=false: they are the same after a
# commit that did not touch them.
for_hosts() { GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go "$@"; }
build=(build -trimpath -buildvcs=false ${PAYLOAD_PARALLEL:+-p "$PAYLOAD_PARALLEL"})

# ldflags MODULE: what the programs of a module say when they are asked for their
# version, set the way their own projects do it. -s -w leaves out what only debuggers read.
ldflags() {
  local flags="-s -w" v major minor package
  of() { go -C "$1" list -m -f '{{.Version}}' "$2"; }
  case $1 in
    kubernetes*)
      v=$(of "$1" k8s.io/kubernetes)
      IFS=. read -r major minor _ <<<"${v#v}"
      for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=$v -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
      done
      ;;
    containerd)
      v=$(of "$1" github.com/containerd/containerd/v2)
      flags+=" -X github.com/containerd/containerd/v2/version.Version=$v"
      ;;
    hcsshim) flags+=" -X main.version=$(of "$1" github.com/Microsoft/hcsshim)" ;;
    cni) flags+=" -X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=$(of "$1" github.com/containernetworking/plugins)" ;;
    exporter)
      v=$(of "$1" github.com/prometheus-community/windows_exporter)
      flags+=" -X github.com/prometheus/common/version.Version=${v#v}"
      ;;
    aws) flags+=" -X k8s.io/component-base/version.gitVersion=$(of "$1" k8s.io/cloud-provider-aws)" ;;
    *) die "hack/payload/$1 has no version flags here" ;;
  esac
  printf '%s' "$flags"
}

# The module of Kubernetes: the newest minor version has no number in its name.
kubernetes=kubernetes
newest=$(sed -n 's|^.*k8s.io/kubernetes v\([0-9]*\.[0-9]*\)\..*|\1|p' kubernetes/go.mod)
if [[ -n $minor && $minor != "$newest" ]]; then
  kubernetes=kubernetes-$minor
  [[ $minor != */* && -f $kubernetes/go.mod ]] ||
    wrong "--kubernetes $minor: there is no such version; there are $(echo kubernetes-*/ | sed 's|kubernetes-||g; s|/||g') $newest"
fi
modules=(cni hcsshim exporter aws containerd "$kubernetes") # quick ones first

if [[ $check ]]; then
  tmp=$(mktemp -d)
  # The module cache of a build is read-only, and it is not made in here; the build cache is.
  trap 'rm -rf "$tmp"' EXIT
  program=github.com/containernetworking/plugins/plugins/ipam/host-local
  say "step 1 of 2: building host-local.exe from hack/payload/cni"
  for_hosts -C cni "${build[@]}" -ldflags "$(ldflags cni)" -o "$tmp/first.exe" "$program"
  say "step 2 of 2: building it from a copy, with an empty build cache (about a minute)"
  mkdir "$tmp/elsewhere"
  cp cni/go.mod cni/go.sum "$tmp/elsewhere/"
  GOCACHE=$tmp/cache for_hosts -C "$tmp/elsewhere" "${build[@]}" -ldflags "$(ldflags cni)" -o "$tmp/second.exe" "$program"
  cmp "$tmp/first.exe" "$tmp/second.exe" || die "two builds of host-local.exe differ"
  say "they are equal: $(sha256sum <"$tmp/first.exe" | cut -c1-64)"
  exit 0
fi

trap 'exit 130' INT
trap 'exit 143' TERM

# How long each took alone on one core of the machine that docs/payload.md describes.
declare -A seconds=([cni]=20 [hcsshim]=30 [exporter]=30 [aws]=105 [containerd]=110 ["$kubernetes"]=490)

programs() {
  mkdir "$1/content"
  local n=0 module began
  for module in "${modules[@]}"; do
    began=$SECONDS
    n=$((n + 1))
    say "programs, step $n of ${#modules[@]}: hack/payload/$module, up to $(for_hosts -C "$module" list -deps tool | wc -l) packages (${seconds[$module]} CPU seconds with an empty build cache)"
    # -v names each package when its compilation starts; those from the build cache are not named.
    for_hosts -C "$module" "${build[@]}" -v -ldflags "$(ldflags "$module")" -o "$1/content/" tool 2>&1 9>&- |
      awk '/^[A-Za-z0-9_.~\/-]+$/ { if (++n % 100 == 0) { printf "build-payload:   %d packages\n", n; fflush() } next } { print; fflush() }' >&2
    say "  done after $((SECONDS - began)) s"
  done
}

start=$SECONDS
key=$({ echo "$kubernetes"; cat ./*/go.mod ./*/go.sum "$script"; go version; } | sha256sum | cut -c1-16)
programs=$CACHE_DIR/payload-programs-$key
make_once "$programs" programs

# The agent changes with our own source, which the go tool knows best, so it is always
# built: that takes a second when nothing changed.
work=$(mktemp -d)
copy=""
cleanup() {
  rm -rf "$work"
  [[ $copy ]] || return 0
  # What was at OUT is put back unless there is something in its place.
  if [[ -e $copy/old && ! -e $out ]] && ! mv -T "$copy/old" "$out"; then
    say "what was at $out is in $copy/old"
    return
  fi
  rm -rf "$copy"
}
trap cleanup EXIT
say "building the agent, the packer, and what collects licenses"
(cd "$ROOT" && for_hosts "${build[@]}" -ldflags "-s -w -X $MODULE/pkg/agent.Release=$version" \
  -o "$work/windows-node-agent.exe" ./cmd/agent)
for program in payload/pack licenses; do
  (cd "$ROOT" && go build -trimpath -buildvcs=false -o "$work/${program##*/}" "./hack/$program")
done

files=()
for a in ${added[@]+"${added[@]}"}; do [[ $a == -add ]] || files+=("${a#*=}"); done
key=$({
  printf '%s\n' "$key" "$version" "${image[@]-}"
  printf '%s\n' "${added[@]-}" | sed 's/=.*//' # names; the digests of the files follow
  sha256sum <"$work/windows-node-agent.exe"
  sha256sum <"$work/pack"
  sha256sum <"$work/licenses"
  cat files.json ${overrides:+"$overrides"}
  for f in ${files[@]+"${files[@]}"}; do sha256sum <"$f"; done
} | sha256sum | cut -c1-16)
payload=$CACHE_DIR/payload-$key

pack() {
  say "collecting licenses"
  local module
  for module in "${modules[@]}"; do
    "$work/licenses" -C "$module" -platform windows/amd64 -out "$work/texts" tool 9>&-
  done
  "$work/licenses" -C "$ROOT" -platform windows/amd64 -out "$work/texts" ./cmd/agent 9>&-
  say "compressing and computing digests (about a minute)"
  mkdir "$work/bin"
  ln -s "$programs"/* "$work/windows-node-agent.exe" "$work/bin/"
  "$work/pack" -list files.json -bin "$work/bin" -version "$version" ${image[@]+"${image[@]}"} \
    ${added[@]+"${added[@]}"} ${overrides:+-overrides "$overrides"} -licenses "$work/texts" -out "$1/content" >&2 9>&-
}
# make_once ends what the trap does with one of its own, hence in a shell of its own.
(make_once "$payload" pack)

if [[ $out ]]; then
  mkdir -p "$(dirname "$out")"
  copy=$(mktemp -d "$(dirname "$out")/.payload-XXXXXX")
  cp -r --reflink=auto "$payload" "$copy/new"
  must_be_ours # still
  [[ ! -e $out ]] || mv -T "$out" "$copy/old"
  mv -T "$copy/new" "$out"
  payload=$out
fi
say "done after $((SECONDS - start)) s"
echo "$payload"
