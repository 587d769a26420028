#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.
#
# Generates deepcopy, defaults, conversions, declarative validation, OpenAPI and
# the typed clients from the API types. Run it after every change below pkg/apis.
#
# It works on a copy of the tree. What it has generated takes its place at the end, so that a
# run that fails or is interrupted changes nothing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

api=$MODULE/pkg/apis/windows
out=pkg/generated
violations=hack/api-violations.list
header=(--go-header-file hack/boilerplate.go.txt)

# generate works in the working directory. Scratch is a directory that is there and empty.
generate() {
  local scratch=$1 gen p readonly_pkgs
  gen="$(build_tools k8s.io/code-generator/cmd/{deepcopy-gen,defaulter-gen,conversion-gen,validation-gen,client-gen,lister-gen,informer-gen,applyconfiguration-gen} k8s.io/kube-openapi/cmd/openapi-gen)"
  # Types of other modules: read by the generators, never written to.
  readonly_pkgs=()
  for p in k8s.io/apimachinery/pkg/{apis/meta/v1,api/resource,runtime,types,util/intstr,version} k8s.io/api/autoscaling/v1 time; do
    readonly_pkgs+=(--readonly-pkg "$p")
  done

  say "generating deepcopy, defaults, conversions and validation"
  find pkg/apis -name 'zz_generated.*' -delete
  "$gen/deepcopy-gen" "${header[@]}" --output-file zz_generated.deepcopy.go "$api" "$api/v1alpha1"
  # metav1.Condition carries a validation that lives in a package beside its types. The
  # generator finds it only when that package is among its inputs, and then writes it
  # again: so it is given a copy of apimachinery that may be written to.
  cp -r "$(go list -m -f '{{.Dir}}' k8s.io/apimachinery)" "$scratch/apimachinery"
  chmod -R u+w "$scratch"
  cp go.mod go.sum "$scratch"
  (cd "$scratch" && go mod edit -replace="k8s.io/apimachinery=$scratch/apimachinery")
  GOFLAGS="${GOFLAGS:-} -mod=mod -modfile=$scratch/go.mod" "$gen/validation-gen" "${header[@]}" "${readonly_pkgs[@]}" \
    --output-file zz_generated.validations.go "$api/v1alpha1" k8s.io/apimachinery/pkg/apis/meta/v1/validation
  "$gen/defaulter-gen" "${header[@]}" --output-file zz_generated.defaults.go "$api/v1alpha1"
  "$gen/conversion-gen" "${header[@]}" --output-file zz_generated.conversion.go "$api/v1alpha1"

  say "generating OpenAPI"
  mkdir -p "$out/openapi"
  # Of the markers that declarative validation goes by, this generator does not know those of bounds. In
  # this copy of the types they get the names that it knows, so that what is published and what is refused
  # have one source. So many bytes are at most as many characters.
  sed -Ei \
    -e 's/\+k8s:((eachVal=\+k8s:)?(maxLength|maxItems|maxProperties|minimum|maximum)=)/+k8s:validation:\1/' \
    -e 's/\+k8s:maxBytes=/+k8s:validation:maxLength=/' \
    -e 's/\+k8s:validation:eachVal=\+k8s:/+k8s:validation:additionalProperties:/' \
    pkg/apis/windows/v1alpha1/types_*.go
  "$gen/openapi-gen" "${header[@]}" "${readonly_pkgs[@]}" --output-file zz_generated.openapi.go \
    --output-dir "$out/openapi" --output-pkg "$MODULE/$out/openapi" \
    --output-model-name-file zz_generated.model_name.go --report-filename "$violations" \
    k8s.io/apimachinery/pkg/{apis/meta/v1,runtime,version,api/resource,util/intstr} k8s.io/api/autoscaling/v1 "$api/v1alpha1"

  say "generating clients"
  go run ./hack/models-schema >"$scratch/schema.json"
  rm -rf "$out"/{applyconfiguration,clientset,listers,informers}
  "$gen/applyconfiguration-gen" "${header[@]}" --output-dir "$out/applyconfiguration" \
    --output-pkg "$MODULE/$out/applyconfiguration" --openapi-schema "$scratch/schema.json" "$api/v1alpha1"
  "$gen/client-gen" "${header[@]}" --output-dir "$out/clientset" --output-pkg "$MODULE/$out/clientset" \
    --clientset-name versioned --apply-configuration-package "$MODULE/$out/applyconfiguration" \
    --input-base "$MODULE/pkg/apis" --input windows/v1alpha1
  "$gen/lister-gen" "${header[@]}" --output-dir "$out/listers" --output-pkg "$MODULE/$out/listers" "$api/v1alpha1"
  "$gen/informer-gen" "${header[@]}" --output-dir "$out/informers" --output-pkg "$MODULE/$out/informers" \
    --versioned-clientset-package "$MODULE/$out/clientset/versioned" --listers-package "$MODULE/$out/listers" "$api/v1alpha1"
}

# replace takes what is generated from a copy.
replace() {
  local copy=$1 f
  find pkg/apis -name 'zz_generated.*' | while read -r f; do [[ -e $copy/$f ]] || rm "$f"; done
  (cd "$copy" && find pkg/apis "$violations" -name 'zz_generated.*' -o -path "$violations") |
    while read -r f; do mv "$copy/$f" "$f"; done
  mv "$out" "$copy/replaced"
  mv "$copy/$out" "$out"
}

# On the file system of the tree, so that moving takes no time. Go ignores the name, and make clean
# removes what a run that was killed has left.
mkdir -p _output
copy="$(mktemp -d "$ROOT/_output/codegen-XXXXXX")"
trap 'rm -rf "$copy"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp -r go.mod go.sum hack pkg "$copy"
mkdir "$copy/scratch"
(
  cd "$copy"
  generate "$copy/scratch"
)
trap '' INT TERM # it would be half done
replace "$copy"
say "done"
