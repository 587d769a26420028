# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

SHELL := /usr/bin/env bash -euo pipefail

# The release: the newest tag v*, and how far this checkout is from it.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo "v0.0.0-g$$(git rev-parse --short HEAD 2>/dev/null || echo unknown)")

# Everything is built with -trimpath, tests too, because only what is built alike
# shares the build cache; without it all of Kubernetes compiles twice.
MODULE  := github.com/openshift/windows-instance-api
GOBUILD := go build -trimpath
LDFLAGS := -X $(MODULE)/pkg/version.Version=$(VERSION) -X $(MODULE)/pkg/agent.Release=$(VERSION)
# The agent goes to every host, so it leaves symbols behind that only debuggers want.
AGENT   := CGO_ENABLED=0 $(GOBUILD) -ldflags '-s -w $(LDFLAGS)'

.DEFAULT_GOAL := help

##@ Build

.PHONY: build
build: ## Build all programs into bin/ (VERSION=v1.2.3 to name the release).
	$(GOBUILD) -ldflags '$(LDFLAGS)' -o bin/windows-apiserver ./cmd/apiserver
	$(GOBUILD) -ldflags '$(LDFLAGS)' -o bin/windows-controller ./cmd/controller
	$(GOBUILD) -ldflags '$(LDFLAGS)' -o bin/kubectl-windows ./cmd/kubectl-windows
	GOOS=windows GOARCH=amd64 $(AGENT) -o bin/agent/windows-node-agent.exe ./cmd/agent

.PHONY: licenses
licenses: ## Collect the licenses of all that is linked into what build makes, into bin/licenses/.
	rm -rf bin/licenses
	go run -trimpath ./hack/licenses -out bin/licenses ./cmd/apiserver ./cmd/controller ./cmd/kubectl-windows
	go run -trimpath ./hack/licenses -platform windows/amd64 -out bin/licenses ./cmd/agent

# The machines of administrators are of other systems than the one that it is built on.
.PHONY: plugin
plugin: ## Build kubectl-windows for Linux, macOS and Windows, amd64 and arm64, into _output/plugin/, with the licenses of what is linked.
	for os in linux darwin windows; do for arch in amd64 arm64; do \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GOBUILD) -ldflags '-s -w $(LDFLAGS)' -o _output/plugin/$$os-$$arch/ ./cmd/kubectl-windows; \
	  rm -rf _output/plugin/$$os-$$arch/licenses; \
	  go run -trimpath ./hack/licenses -platform $$os/$$arch -out _output/plugin/$$os-$$arch/licenses ./cmd/kubectl-windows; \
	done; done

.PHONY: payload
payload: ## Build what is shipped to hosts, for windows/amd64 (OUT=directory KUBERNETES=1.36 ARGS="--add NAME=FILE"); 15 minutes the first time.
	VERSION=$(VERSION) hack/build-payload.sh $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(strip $(ARGS)) $(OUT)

.PHONY: clean
clean: ## Remove what build made. What is costly to make stays in ~/.cache/windows-instance-api.
	rm -rf bin _output

.PHONY: generate
generate: ## Generate code and the API reference from the API types.
	hack/update-codegen.sh
	hack/update-api-docs.sh

.PHONY: fmt
fmt: ## Format the code and sort imports.
	hack/lint.sh fmt

.PHONY: tidy
tidy: ## Tidy the go.mod files of all modules.
	go mod tidy
	go -C hack/tools mod tidy
	go -C test/controlplane/binaries mod tidy
	for module in hack/payload/*/go.mod; do go -C "$${module%/go.mod}" mod tidy; done

##@ Try

.PHONY: demo
demo: deps ## Run the whole system on this machine with stand-ins for hosts (HOSTS=200 OPENSHIFT=None).
	@# Not by "go run", which calls it a failure when it is ended by Ctrl-C.
	$(GOBUILD) -o _output/demo ./test/demo
	_output/demo $(if $(HOSTS),--hosts=$(HOSTS)) $(if $(OPENSHIFT),--openshift=$(OPENSHIFT))

##@ Check

.PHONY: test
test: ## Run all tests as CI does: dependencies, control plane, race detector but for test/e2e, short fuzzing.
	hack/test.sh all

.PHONY: test-unit
test-unit: ## Run the tests beside the code.
	hack/test.sh unit

.PHONY: test-e2e
test-e2e: ## Run the tests of the whole system and of what it is tested with.
	hack/test.sh e2e

.PHONY: test-all
test-all: ## Run the tests of the whole system, on all platforms of OpenShift, and simulate 10,000 hosts.
	GOGC=400 go test -trimpath -count=1 -timeout 30m -run '^TestSimulatedFleet$$' ./pkg/controller/rollout -fleet.hosts=10000
	E2E_PLATFORMS=all E2E_HOSTS=50 E2E_RACE=1 TEST_TIMEOUT=$(or $(TEST_TIMEOUT),120m) hack/test.sh e2e

.PHONY: fuzz
fuzz: ## Fuzz each target for long (FUZZTIME=5m), and simulate 10,000 hosts with other events than the tests (SEED=number).
	GOGC=400 go test -trimpath -count=1 -timeout 30m -run '^TestSimulatedFleet$$' ./pkg/controller/rollout -fleet.hosts=10000 -fleet.seed=$(or $(SEED),$(shell date +%s))
	FUZZTIME=$(or $(FUZZTIME),5m) hack/test.sh fuzz

.PHONY: conformance
conformance: ## Prove on a real Windows host that it does what we rely on (HOST=user@address KEY=file, ARGS=-allow-restart).
	$(if $(and $(HOST),$(KEY)),,$(error HOST=user@address[:port] and KEY=file say which host, and how to log in))
	go test -trimpath -count=1 -timeout 4h -v -run '^TestHost$$' ./test/conformance -host='$(HOST)' -key='$(abspath $(KEY))' $(ARGS)

# The packages that decide whether something is done.
GUARDS := ./pkg/drain ./pkg/apis/windows/validation ./pkg/registry/... ./pkg/stream/limits ./pkg/stream/recheck ./pkg/stream/relief ./pkg/controller/... ./pkg/host ./pkg/host/agentclient/... ./pkg/host/ssh ./cmd/controller/app

.PHONY: mutate
mutate: ## List mistakes in guards that the unit tests would not notice (PACKAGES="./pkg/drain", ARGS=-minimum=85).
	go run -trimpath ./hack/mutate $(ARGS) $(or $(PACKAGES),$(GUARDS))

.PHONY: bench
bench: deps ## Run the benchmarks (BENCH=regexp, default all).
	go test -trimpath -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -timeout 60m ./pkg/... ./cmd/... ./test/...

.PHONY: verify
verify: ## Check everything that is no test: format, lint, generated code, modules, manifests.
	hack/verify.sh

.PHONY: lint
lint: ## Run the linters (PACKAGES="./pkg/host/ssh/...", default all).
	hack/lint.sh run $(PACKAGES)

##@ Help

.PHONY: deps
deps: ## Install what tests and the demo need, and build the control plane they run.
	hack/install-deps.sh || [ $$? = 3 ]
	hack/build-controlplane.sh >/dev/null

.PHONY: help
help: ## Show this.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' Makefile
