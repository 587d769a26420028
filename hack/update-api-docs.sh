#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Writes docs/api-reference.md from the generated OpenAPI definitions. Run it after
# hack/update-codegen.sh; `make generate` runs both.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

say "generating the API reference"
# Not written in place: a failure must not leave half a document.
new=$(mktemp)
trap 'rm -f "$new"' EXIT
go run -trimpath ./hack/gen-api-docs >"$new"
cat "$new" >docs/api-reference.md
