#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Runs golangci-lint with .golangci.yml:
#   hack/lint.sh run [PACKAGE...]   report what it finds (default: everything)
#   hack/lint.sh fmt                format the code

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
# It compiles what it checks, with the flags of all other builds, so from the build cache.
export GOFLAGS=-trimpath

tools=$(build_tools github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
lint=$tools/golangci-lint
case ${1-} in
  fmt)
    "$lint" fmt
    ;;
  run)
    shift
    status=0
    with_large_heap "$lint" run "$@" || status=$?
    if (($# == 0)); then
      say "again for Windows" # code that is compiled for it only
      GOOS=windows GOARCH=amd64 CGO_ENABLED=0 with_large_heap "$lint" run "${WINDOWS_PACKAGES[@]}" || status=$?
    fi
    exit "$status"
    ;;
  *)
    say "usage: hack/lint.sh run [PACKAGE...] | fmt"
    exit 2
    ;;
esac
