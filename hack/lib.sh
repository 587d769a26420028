# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.
#
# What the scripts share; to be sourced. ROOT is the checkout, CACHE_DIR where
# things are kept that are costly to make and do not belong into the tree, and
# WINDOWS_PACKAGES what runs on Windows hosts: the agent, and what the tests start there.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
CACHE_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/windows-instance-api"
MODULE="github.com/openshift/windows-instance-api"
WINDOWS_PACKAGES=(./cmd/agent/... ./pkg/agent/... ./test/winhost/winsshd/... ./test/winhost/winservice/... ./test/conformance/... ./test/programs/... ./test/payload/containerd/... ./test/payload/idle/...)

say() { printf '%s\n' "$*" >&2; }

# with_large_heap COMMAND... runs a Go program whose garbage collector takes up to 8 GiB of memory, and a fifth less of the processors for it.
with_large_heap() { GOGC="${GOGC:-400}" GOMEMLIMIT="${GOMEMLIMIT:-8GiB}" "$@"; }

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

# make_once DIR FUNCTION has FUNCTION TMP make a directory TMP/content, which becomes DIR, unless that is
# there: a directory of the cache that has its name is complete. DIR is <kind>-<key>; of each kind those
# stay that were asked for last, and those that somebody uses. Until the shell ends, it uses DIR. What
# FUNCTION starts must not keep file descriptor 9.
make_once() {
  local dir=$1
  mkdir -p "$CACHE_DIR"
  exec 9>>"$dir.lock"
  while :; do
    if [[ -d $dir ]]; then
      flock --shared 9
    elif flock --nonblock 9; then
      [[ -d $dir ]] || make_content "$@"
      flock --shared 9
    else
      say "another run is building the same; waiting for it"
      flock --shared 9
    fi
    [[ ! -d $dir ]] || break # that run failed, or it was old and removed before it was locked
    flock --unlock 9
  done
  touch "$dir"
}

# make_content DIR FUNCTION is what make_once does with the lock.
make_content() {
  local dir=$1 tmp
  # Whatever has this prefix was left by a run that was killed: we hold the lock.
  rm -rf "$dir".tmp.*
  tmp=$(mktemp -d "$dir.tmp.XXXXXX")
  # shellcheck disable=SC2064 # the value of now
  trap "rm -rf '$tmp'" EXIT
  "$2" "$tmp"
  chmod 0755 "$tmp/content"
  mv -T "$tmp/content" "$dir"
  rm -rf "$tmp"
  trap - EXIT
  remove_old "${dir%-*}"
}

# remove_old PREFIX removes all PREFIX-<key> but the two that were asked for last, and those that
# somebody uses.
remove_old() {
  local old
  find "${1%/*}" -maxdepth 1 -type d -regextype posix-extended -regex ".*/${1##*/}-[0-9a-f]{16}" -printf '%T@ %p\n' |
    sort -rn | sed -e '1,2d' -e 's/^[^ ]* //' | while IFS= read -r old; do
    (
      flock --nonblock 8 || exit 0
      say "removing $old"
      mv -T "$old" "$old.tmp.old"
      rm -rf "$old.tmp.old"
    ) 8>>"$old.lock"
  done
}
