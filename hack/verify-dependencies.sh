#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Says which direct dependencies have a newer patch release than the one in use, and
# are not argued for in hack/lagging-dependencies.txt. Informs only, and exits with 0
# also when the module proxy cannot be reached.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

# direct prints path and version of the modules that a module asks for itself:
# those that its packages import, and those of its tools, which go.mod has as indirect.
direct() {
  # Not by go list, which needs checksums of all modules that the graph could have.
  awk '/^require \(/ { block = 1; next } /^\)/ { block = 0 } /\/\/ indirect/ { next } block { print $1, $2 } /^require [^(]/ { print $2, $3 }' "$1/go.mod"
  if grep --quiet '^tool' "$1/go.mod"; then
    local os=
    [[ $1 != hack/payload/* ]] || os=windows # what runs on hosts
    GOOS=$os go -C "$1" list -f '{{.Module.Path}} {{.Module.Version}}' tool || return 1
  fi
}

# argued PATH VERSION says whether the file explains why it is this version. Lines
# are: path, version, reason.
argued() { grep --quiet --extended-regexp "^$1 +$2( |$)" hack/lagging-dependencies.txt; }

for dir in . hack/tools test/controlplane/binaries $(dirname hack/payload/*/go.mod); do
  if ! modules=$(set -e; direct "$dir" 2>/dev/null | sed '/^$/d' | sort --unique); then
    echo "note: the dependencies of $dir/go.mod cannot be listed; is the module proxy unreachable?"
    continue
  fi
  # The newest release with the same major and minor version. Commits between
  # releases (pseudo-versions) have none.
  queries=()
  declare -A current=()
  while read -r path version; do
    if [[ $version =~ ^(v[0-9]+\.[0-9]+)\.[0-9]+(-[a-z]+\.[0-9]+)?$ ]]; then
      queries+=("$path@${BASH_REMATCH[1]}")
      current[$path]=$version
    fi
  done <<<"$modules"
  ((${#queries[@]} > 0)) || continue
  if ! newest=$(timeout 120 go -C "$dir" list -m -e -f '{{.Path}} {{if .Error}}unknown{{else}}{{.Version}}{{end}}' "${queries[@]}" 2>/dev/null); then
    echo "note: the module proxy does not tell the newest releases for $dir/go.mod"
    continue
  fi
  while read -r path version; do
    [[ -n $path && $version != "${current[$path]}" ]] || continue
    ! argued "$path" "${current[$path]}" || continue
    if [[ $version == unknown ]]; then
      echo "note: $dir: the newest patch release of $path cannot be told; in use is ${current[$path]}"
    else
      echo "note: $dir: $path is at ${current[$path]}, there is $version"
    fi
  done <<<"$newest"
done
