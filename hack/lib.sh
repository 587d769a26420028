# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.
#
# What the scripts share; to be sourced. ROOT is the checkout, CACHE_DIR where
# things are kept that are costly to make and do not belong into the tree.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
CACHE_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/windows-instance-api"
MODULE="github.com/openshift/windows-instance-api"

say() { printf '%s\n' "$*" >&2; }

# build_tools PACKAGE... builds programs of the module hack/tools into a
# directory of the cache that is named after the versions, and prints the directory.
build_tools() {
  local dir
  dir="$CACHE_DIR/tools-$(cat "$ROOT/hack/tools/go.mod" <(go env GOVERSION) | sha256sum | cut -c1-16)"
  mkdir -p "$dir"
  local pkg
  for pkg in "$@"; do
    if [ ! -x "$dir/${pkg##*/}" ]; then
      say "building ${pkg##*/} (once)"
      go -C "$ROOT/hack/tools" build -trimpath -o "$dir/.${pkg##*/}.$$" "$pkg" || return 1
      mv "$dir/.${pkg##*/}.$$" "$dir/${pkg##*/}"
    fi
  done
  printf '%s\n' "$dir"
}
