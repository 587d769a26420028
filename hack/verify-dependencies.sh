#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Says which direct dependencies have a newer patch release than the one in use, and
# are not argued for in hack/lagging-dependencies.txt. Informs only, and exits with 0
# also when the module proxy cannot be reached.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

# direct prints path and version of what go.mod requires itself.
direct() {
  go -C "$1" list -mod=readonly -m -f '{{if not (or .Main .Indirect)}}{{.Path}} {{.Version}}{{end}}' all
}

# argued PATH VERSION says whether the file explains why it is this version. Lines
# are: path, version, reason.
argued() { grep --quiet --extended-regexp "^$1 +$2( |$)" hack/lagging-dependencies.txt; }

for dir in . test/controlplane/binaries; do
  if ! modules=$(direct "$dir" 2>/dev/null); then
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
  if ! newest=$(timeout 120 go -C "$dir" list -mod=readonly -m -e -f '{{if not .Error}}{{.Path}} {{.Version}}{{end}}' "${queries[@]}" 2>/dev/null); then
    echo "note: the module proxy does not tell the newest releases for $dir/go.mod"
    continue
  fi
  while read -r path version; do
    [[ -n $path && $version != "${current[$path]}" ]] || continue
    argued "$path" "${current[$path]}" || echo "note: $dir: $path is at ${current[$path]}, there is $version"
  done <<<"$newest"
done
