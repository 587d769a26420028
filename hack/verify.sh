#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Checks everything that is no test. All checks run; each says in one line whether
# it is ok or how to fix it, and what failed is summed up at the end. Changes
# nothing in the checkout.
#
#   hack/verify.sh [CHECK...]   only these checks; --list names them

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
export GOFLAGS="-trimpath -buildvcs=false"

# Every check is a function verify_NAME that prints what is wrong and returns
# non-zero, and a line "NAME|how to fix it", here in the order in which they run:
# the quick ones first.
readonly checks=(
  "format|run: make fmt"
  "scripts|fix the scripts that are named"
  "files|keep large and binary files out of the repository; generate them or fetch them"
  "rules|see test/rules: license headers, package comments, imports, forbidden words, documents"
  "modules|run: make tidy"
  "api-reference|run: make generate, and commit docs/api-reference.md"
  "generated|run: make generate, and commit the result"
  "manifests|fix what kustomize says about artifacts"
  "deadcode|remove what no program calls, or move it to the test that calls it; see hack/deadcode-allowed.txt"
  "licenses|ask the authors of the module for a license, or use another version of it or another one"
  "lint|fix what golangci-lint says; make fmt helps with some of it"
  "dependencies|update them, or say in hack/lagging-dependencies.txt why not"
)

# files PATTERN... prints those that git tracks or would track, and that are there.
files() {
  git ls-files --cached --others --exclude-standard -z -- "$@" |
    while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done
}

verify_format() {
  local bad
  bad=$(files '*.go' | xargs -0 gofmt -l)
  [[ -z $bad ]] || { printf 'not formatted by gofmt:\n%s\n' "$bad"; return 1; }
}

verify_scripts() {
  local status=0 script
  while IFS= read -r -d '' script; do
    bash -n "$script" || status=1
    [[ $script == *.sh && $script != hack/lib.sh && $script == hack/* && ! -x $script ]] &&
      { echo "$script is not executable: chmod 0755 $script"; status=1; }
  done < <(files '*.sh' .ci/run)
  # Not everybody has it; CI need not.
  if command -v shellcheck >/dev/null; then
    files '*.sh' .ci/run | xargs -0 shellcheck --severity=warning --external-sources || status=1
  fi
  return "$status"
}

verify_files() {
  local large binary
  large=$(files | xargs -0 stat --format='%s %n' | awk '$1 > 1024 * 1024')
  # Without a match are, to grep -I, files with a NUL byte, and empty ones.
  binary=$(files | xargs -0 grep --files-without-match --binary-files=without-match '' |
    while IFS= read -r file; do [[ ! -s $file ]] || printf '%s\n' "$file"; done) || true
  [[ -z $large ]] || printf 'larger than 1 MiB:\n%s\n' "$large"
  [[ -z $binary ]] || printf 'binary:\n%s\n' "$binary"
  [[ -z $large$binary ]]
}

verify_rules() { go test ./test/rules; }

verify_modules() {
  local status=0 dir
  for dir in . hack/tools test/controlplane/binaries $(dirname hack/payload/*/go.mod); do
    go -C "$dir" mod tidy -diff || { echo "$dir/go.mod or go.sum is not tidy"; status=1; }
  done
  return "$status"
}

verify_api-reference() { go run ./hack/gen-api-docs | diff -u docs/api-reference.md -; }

verify_generated() { hack/verify-codegen.sh; }

verify_manifests() {
  local status=0 file
  # Those of artifacts/components are parts of these.
  for file in artifacts/*/kustomization.yaml; do
    "$controlplane/kubectl" kustomize "${file%/*}" >/dev/null || { echo "$file does not build"; status=1; }
  done
  return "$status"
}

# What no program of any platform reaches.
verify_deadcode() { with_large_heap go run ./hack/deadcode "$deadcode/deadcode"; }

# What is linked into all that is passed on has license texts, which go with it.
verify_licenses() {
  local status=0 platform module
  go run ./hack/licenses -platform linux/amd64 ./cmd/apiserver ./cmd/controller || status=1
  go run ./hack/licenses -platform windows/amd64 ./cmd/agent || status=1
  for platform in {linux,darwin,windows}/{amd64,arm64}; do
    go run ./hack/licenses -platform "$platform" ./cmd/kubectl-windows || status=1
  done
  for module in hack/payload/*/go.mod; do
    go run ./hack/licenses -C "${module%/go.mod}" -platform windows/amd64 tool || status=1
  done
  return "$status"
}

# With go vet, for Linux and for Windows.
verify_lint() { hack/lint.sh run; }

# Says which direct dependencies have a newer patch release. Only says so: what was
# released last night must not fail what was fine yesterday.
verify_dependencies() { hack/verify-dependencies.sh; }

case ${1-} in
  --list)
    printf '%s\n' "${checks[@]%%|*}"
    exit 0
    ;;
  -*)
    say "usage: hack/verify.sh [--list | CHECK...]"
    exit 2
    ;;
esac
for name in "$@"; do
  if ! declare -F "verify_$name" >/dev/null; then
    say "there is no check $name; there are: $(printf '%s ' "${checks[@]%%|*}")"
    exit 2
  fi
done

wanted() { (($# == 1)) || [[ " ${*:2} " == *" $1 "* ]]; }

# What takes minutes says so while it lasts; the checks below are quick then.
if wanted manifests "$@"; then
  controlplane=$(hack/build-controlplane.sh)
fi
if wanted deadcode "$@"; then
  deadcode=$(build_tools golang.org/x/tools/cmd/deadcode)
fi
if wanted lint "$@"; then
  build_tools github.com/golangci/golangci-lint/v2/cmd/golangci-lint >/dev/null
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()
for check in "${checks[@]}"; do
  name=${check%%|*}
  wanted "$name" "$@" || continue
  began=$SECONDS
  # In a subshell with -e of its own: a condition would turn it off.
  set +e
  (set -e; "verify_$name") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if ((status == 0)); then
    printf 'ok      %-14s %4d s\n' "$name" $((SECONDS - began))
    # What a check has to say although all is well.
    grep '^note: ' "$log" | sed 's/^/        /' || true
  else
    printf 'FAILED  %-14s %4d s  to fix it: %s\n' "$name" $((SECONDS - began)) "${check#*|}"
    sed 's/^/        /' "$log"
    failed+=("$name")
  fi
done
if ((${#failed[@]} > 0)); then
  printf '%d of the checks failed: %s\n' "${#failed[@]}" "${failed[*]}"
  exit 1
fi
echo "all checks are ok"
