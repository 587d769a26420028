#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Takes the programs that no module proxy serves out of the payload of an image of WMCO.

set -euo pipefail

usage() {
  cat <<'EOF'
usage: hack/take-from-wmco.sh PAYLOAD OUT

PAYLOAD is the directory /payload of an image of the Windows Machine Config Operator:

  mkdir -p PAYLOAD && oc image extract --confirm IMAGE --path /payload/:PAYLOAD

Writes hybrid-overlay-node.exe, csi-proxy.exe and azure-cloud-node-manager.exe to the
directory OUT, as far as they are there, and prints an option --add of
hack/build-payload.sh for each. A program whose digest is not the one in PAYLOAD/sha256sum,
or that has none there, is not written. Name IMAGE by its digest: the file sha256sum says
that a program is intact, and not whose it is.

exit status: 0 at least one was taken, 1 none or a failure, 2 wrong usage.
EOF
}

say() { printf 'take-from-wmco: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

case ${1-} in -h | --help) usage; exit 0 ;; esac
[[ $# -eq 2 ]] || { usage >&2; exit 2; }
payload=$1 out=$2
[[ -f $payload/sha256sum ]] || die "$payload/sha256sum is not there: is that /payload of an image of WMCO?"

# the_only WHAT LINES prints LINES if they are one line.
the_only() {
  [[ -n $2 ]] || die "there is no $1"
  [[ $2 != *$'\n'* ]] || die "there are several of $1"
  printf '%s' "$2"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
taken=()
for name in hybrid-overlay-node.exe csi-proxy.exe azure-cloud-node-manager.exe; do
  # Programs are archives of one file each; those of old images are files.
  found=$(find "$payload" -type f \( -name "$name" -o -name "$name.tar.gz" \))
  if [[ -z $found ]]; then
    say "$name is not in $payload"
    continue
  fi
  found=$(the_only "$name in $payload" "$found")
  if [[ $found == *.tar.gz ]]; then
    member=$(the_only "$name in $found" "$(tar -tzf "$found" | grep -E "(^|/)${name//./\\.}\$" || true)")
    tar -xzOf "$found" -- "$member" >"$tmp/$name"
  else
    cp "$found" "$tmp/$name"
  fi
  want=$(the_only "digest of $name in $payload/sha256sum" "$(awk -v name="$name" '{ n = split($2, path, "/"); if (path[n] == name) print $1 }' "$payload/sha256sum")")
  got=$(sha256sum <"$tmp/$name" | cut -d' ' -f1)
  [[ $got == "$want" ]] || die "$name has the digest $got, and $payload/sha256sum says $want; nothing was written"
  taken+=("$name")
done
[[ ${#taken[@]} -gt 0 ]] || die "nothing was taken"
mkdir -p "$out"
for name in "${taken[@]}"; do
  mv "$tmp/$name" "$out/$name"
  printf -- '--add %s=%s\n' "$name" "$out/$name"
done
