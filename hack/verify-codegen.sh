#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.
#
# Fails when generated code is not what hack/update-codegen.sh makes of the API
# types. It works on a copy, so the checkout is never changed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT
cd "$ROOT"
cp -a go.mod go.sum hack pkg "$copy"
XDG_CACHE_HOME="${XDG_CACHE_HOME:-$HOME/.cache}" "$copy/hack/update-codegen.sh"
status=0
for d in pkg/apis pkg/generated hack/api-violations.list; do
  diff -Naupr "$d" "$copy/$d" || status=1
done
if [ $status -ne 0 ]; then
  say "generated code is out of date: run 'make generate' and commit the result"
fi
exit $status
