#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Runs the tests and sums them up, those beside the code with the race detector. See usage below.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

usage() {
  cat <<'USAGE'
usage: hack/test.sh all|unit|e2e|fuzz

  all   installs what is needed, builds the control plane, runs all tests and
        fuzzes for a few seconds each target that compiles quickly. CI runs
        this after hack/verify.sh.
  unit  the tests beside the code
  e2e   the tests below test/: the whole system, and what it is tested with
  fuzz  fuzzes each target

environment:
  FUZZTIME      how long each fuzz target runs, as time or as a number of inputs
                (all: 20000x, fuzz: 5m); 0 leaves it out
  TEST_TIMEOUT  how long one package may take (60m)
  TESTFLAGS     further flags for go test, for example "-run TestLog -count=5"
  E2E_RACE      if it is not empty, test/e2e runs with the race detector as well

Each package is reported when it is done, each failed test at once. The last line is
  N passed, N failed, N skipped
Of the tests of whole systems (below test/) up to three that fail are run once more,
alone, by "all". Those that pass then are listed as flaky, and do not fail the run.

exit status: 0 if nothing failed.
USAGE
}

# The machine's own settings must not change what is tested; everything is built
# alike, so that builds share the cache.
export GOFLAGS="-trimpath -buildvcs=false"
# The race detector is C, and needs it on machines where it was turned off.
export CGO_ENABLED=1

# deps makes sure that the programs are there which the tests run.
deps() {
  local status=0
  hack/install-deps.sh || status=$?
  case $status in
    0) ;;
    3) say "hosts of the Wine tier cannot be had on this machine; their tests say so" ;;
    *) exit "$status" ;;
  esac
  # Which sshd and ip belong to, and which ordinary users do not have.
  export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
  hack/build-controlplane.sh >/dev/null
}

# fuzz_targets prints directory and name of each fuzz target.
fuzz_targets() {
  { git grep --untracked -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' || [[ $? == 1 ]]; } |
    sed -E 's|^([^:]*)/[^/:]*:func (.*)$|./\1 \2|' | sort
}

# light DIRECTORY says whether the package does without Kubernetes. Fuzzing compiles
# everything that a package imports once more, with instruments; for Kubernetes that
# takes longer than all tests do. The seeds of all targets run as tests anyway.
light() {
  local deps
  deps=$(go list -deps "$1") && ! grep --quiet '^k8s\.io/' <<<"$deps"
}

# go_test PACKAGE FLAG... runs go test on a package, or on several for which the same holds. Without what only debuggers want,
# the test programs link in half the time.
#
# test/e2e is without the race detector, unless E2E_RACE wants it: our programs are processes of their own there, which nobody would watch, and what
# runs in its process, the hosts, would take a fifth of the machine, so that everything else waits. See decision 74.
go_test() {
  local packages=$1 race=(-race)
  shift
  if [[ $packages == *test/e2e && -z ${E2E_RACE-} ]]; then
    race=()
  fi
  # shellcheck disable=SC2086 # several packages
  go test -json "${race[@]}" "-ldflags=-s -w" "$@" $packages
}

# run_tests PACKAGES prints what `go test -json` does. 0 is the only good exit status.
run_tests() {
  # shellcheck disable=SC2086 # TESTFLAGS are several words
  go_test "$1" -timeout "${TEST_TIMEOUT:-60m}" ${TESTFLAGS-}
}

# run_systems runs the tests below test/: those of the whole system after the others, as they alone keep the machine busy.
run_systems() {
  local status=0
  run_tests "$1 $(go list ./test/... | grep -v '/test/e2e$' | tr '\n' ' ')" || status=$?
  run_tests ./test/e2e || status=$?
  return "$status"
}

# run_fuzz TIME FILTER prints what `go test -json` does for each target in a directory
# for which the command FILTER succeeds. Without the race
# detector: the seeds run under it in the tests, and it makes fuzzing ten times slower.
run_fuzz() {
  local time=$1 filter=$2 status=0 dir target
  while read -r dir target; do
    "$filter" "$dir" || continue
    say "fuzzing $target in $dir: $time"
    # Standard input is the list of targets.
    go test -json -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" </dev/null || status=1
  done < <(fuzz_targets)
  return "$status"
}

readonly code="./pkg/... ./cmd/... ./hack/..."
# A number and not a time: Go 1.26 sometimes takes the end of the time for a failure
# ("context deadline exceeded", https://go.dev/issue/75804).
fuzztime=${FUZZTIME:-20000x}

# what WHICH runs the tests, and writes the exit status of each part into a file.
what() {
  case $1 in
    unit) run_tests "$code ./test/rules/..." ;;
    e2e) run_systems "" ;;
    fuzz) run_fuzz "$fuzztime" true ;;
    all)
      local status=0
      run_systems "$code" || status=$?
      echo "$status" >"$scratch/status"
      if [[ $fuzztime != 0 ]]; then
        run_fuzz "$fuzztime" light || { status=1; echo fuzz >>"$scratch/status"; }
      fi
      return "$status"
      ;;
  esac
}

case ${1-} in
  unit | e2e | fuzz | all) ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
if [[ $1 == fuzz ]]; then
  fuzztime=${FUZZTIME:-5m}
fi
[[ $1 == fuzz ]] || deps

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
go build -o "$scratch/testsummary" ./hack/testsummary
say "running the tests; packages are reported when they are done"
again=()
if [[ $1 == all && -z ${TESTFLAGS-} ]]; then
  # Not from the cache, which may have that it passed alone once. The package comes last.
  export -f go_test
  again=(bash -c 'go_test "${!#}" -count=1 -timeout 20m "${@:1:$#-1}"' again)
fi
set +e
what "$1" | "$scratch/testsummary" "${again[@]}"
status=("${PIPESTATUS[@]}")
set -e
# 3: all that failed passed when it was run again. That is a success if go test failed for a test (1) and
# nothing else did; it also fails for reasons that are no test's, and may be killed.
if ((status[1] == 3)) && [[ $(<"$scratch/status") == 1 ]]; then
  exit 0
fi
if ((status[0] != 0)); then
  exit "${status[0]}"
fi
exit "${status[1]}"
