# `make help` lists the targets. All targets except plugins-all, test-race, test-e2e and test-kube need only
# Go.

GO          ?= go
# Runs tests, with the arguments of go test. CI sets it to .ci/gotest.
GOTEST      ?= $(GO) test
FUZZTIME    ?= 30s
BENCH       ?= .
BENCHCOUNT  ?= 1
ORACLECOUNT ?= 2000
# The duration of a soak, its number of probes, the number of kills afterwards, and the number of ticks of an agent
# with 1,000 targets after them: a day at 10 s has 8,640,000.
DURATION    ?= 10m
PROBES      ?= 20000
KILLS       ?= 100
DAYTICKS    ?= 0
# Releases of the kubelet that test-oracle compares with, besides the release that test/oracle requires.
RELEASES    ?= 1.35 1.37
# The number of scenarios for each of RELEASES.
RELEASECOUNT ?= 500
# The seed of the oracle's first scenario, so that each run has the same scenarios. 0 takes a seed from the
# clock, for new scenarios.
ORACLESEED  ?= 1
TIMEOUT     ?= 40m
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
HUGO         = github.com/gohugoio/hugo@v0.163.3

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The example plugins by language.
PLUGINS      := $(patsubst examples/plugins/%/main.go,%,$(wildcard examples/plugins/*/main.go))
C_PLUGINS    := $(patsubst examples/plugins/%/main.c,%,$(wildcard examples/plugins/*/main.c))
RUST_PLUGINS := $(patsubst examples/plugins/%/lib.rs,%,$(wildcard examples/plugins/*/lib.rs))
AS_PLUGINS   := $(patsubst examples/plugins/%/index.ts,%,$(wildcard examples/plugins/*/index.ts))

# Debian's toolchains, and the AssemblyScript that test/e2e/run installs.
CLANG ?= clang
RUSTC ?= /usr/bin/rustc
ASC   ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/prober/assemblyscript/node_modules/.bin/asc

# Nested modules that need only Go.
NESTED  := $(patsubst %/go.mod,%,$(wildcard examples/*/go.mod examples/plugins/*/go.mod metrics/*/go.mod))

# Systems of plugin authors, besides the one that make runs on: for them check only checks types, which is
# quick, and check-platforms builds and vets.
PLATFORMS ?= linux/arm64 darwin/arm64 windows/amd64 freebsd/amd64
# Processors with 32 bits, another order of bytes, or no assembly in core/internal/engine. Every package is
# type-checked for them, which takes seconds; compilers need minutes for the packages of LIBRARY and what
# they import.
ARCHES  ?= arm 386 riscv64 s390x
LIBRARY := ./probe/... ./core/... ./handlers/builtin/... ./metrics
# Platforms of a release.
RELEASE_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

export CGO_ENABLED = 0

.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

.PHONY: build
build: bin/prober bin/prober-probe bin/quickstart plugins ## the programs, and the example plugins in Go as bin/plugins/*.wasm

.PHONY: bin/prober bin/prober-probe
bin/prober bin/prober-probe: bin/%:
	$(GO) build -trimpath -ldflags '-s -w -X github.com/daeace23/prober/internal/cli/program.Version=$(VERSION)' -o $@ ./cmd/$*

.PHONY: plugins
plugins: $(PLUGINS:%=bin/plugins/%.wasm)

# These always run: Go decides what is stale, and its build cache makes this quick.
.PHONY: $(PLUGINS:%=bin/plugins/%.wasm)
$(PLUGINS:%=bin/plugins/%.wasm): bin/plugins/%.wasm:
	@mkdir -p bin/plugins
	cd examples/plugins/$* && GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -buildmode=c-shared -o $(CURDIR)/$@ .
	$(GO) run ./cmd/prober plugin embed $@ examples/plugins/$*/plugin.yaml >/dev/null

.PHONY: plugins-all
plugins-all: plugins $(C_PLUGINS:%=bin/plugins/%.wasm) $(RUST_PLUGINS:%=bin/plugins/%.wasm) $(AS_PLUGINS:%=bin/plugins/%.wasm) ## bin/plugins with those in C, Rust and AssemblyScript; needs their toolchains

$(C_PLUGINS:%=bin/plugins/%.wasm): bin/plugins/%.wasm: examples/plugins/%/main.c examples/plugins/%/plugin.yaml sdk/c/prober.h
	@mkdir -p bin/plugins
	$(CLANG) --target=wasm32 -nostdlib -Xclang -O2 -Wall -Wextra -Werror -Wl,--no-entry -Isdk/c -o $@ $<
	$(GO) run ./cmd/prober plugin embed $@ examples/plugins/$*/plugin.yaml >/dev/null

bin/rust/libprober.rlib: $(wildcard sdk/rust/src/*.rs)
	@mkdir -p bin/rust
	$(RUSTC) --edition 2021 --target wasm32-wasi -O -D warnings --crate-type rlib --crate-name prober -o $@ sdk/rust/src/lib.rs

.SECONDEXPANSION:
$(RUST_PLUGINS:%=bin/plugins/%.wasm): bin/plugins/%.wasm: $$(wildcard examples/plugins/$$*/*.rs) examples/plugins/%/plugin.yaml bin/rust/libprober.rlib
	@mkdir -p bin/plugins
	$(RUSTC) --edition 2021 --target wasm32-wasi -O -D warnings --crate-type cdylib --crate-name $(subst -,_,$*) --extern prober=bin/rust/libprober.rlib -C strip=debuginfo -o $@ examples/plugins/$*/lib.rs
	$(GO) run ./cmd/prober plugin embed $@ examples/plugins/$*/plugin.yaml >/dev/null

$(AS_PLUGINS:%=bin/plugins/%.wasm): bin/plugins/%.wasm: examples/plugins/%/index.ts examples/plugins/%/plugin.yaml $(wildcard sdk/assemblyscript/*.ts)
	@mkdir -p bin/plugins
	$(ASC) $< -O --runtime stub --use abort=sdk/assemblyscript/index/abort -o $@
	$(GO) run ./cmd/prober plugin embed $@ examples/plugins/$*/plugin.yaml >/dev/null

.PHONY: plugins-shipped
plugins-shipped: ## the modules of handlers/shipped, which are committed; needs Debian's rustc, its crates and binaryen
	GO='$(GO)' RUSTC='$(RUSTC)' handlers/shipped/build

.PHONY: check-shipped
check-shipped: plugins-shipped ## check that all modules of handlers/shipped are built again with the same bytes
	git diff --exit-code --stat -- handlers/shipped

.PHONY: run
run: build ## build and run the quickstart until Ctrl-C
	bin/prober run -f examples/quickstart/pod.yaml --plugins bin/plugins --restart-backoff 2s

.PHONY: bin/quickstart
bin/quickstart:
	$(GO) build -trimpath -o $@ ./examples/quickstart

# Packages with assembly. Their tests also run without it, as on processors that have none.
PUREGO := ./core/internal/engine
define test-modules
$(GOTEST) -timeout $(TIMEOUT) -tags purego $(PUREGO)
@set -e; for dir in $(NESTED); do echo "test $$dir"; (cd $$dir && $(GOTEST) -timeout $(TIMEOUT) ./...); done
endef
.PHONY: test
test: ## all tests that need only Go
	$(GOTEST) -timeout $(TIMEOUT) ./...
	$(test-modules)

# Programs that tests build are built without cgo, as for test, and so come from the cache. Left out are packages
# without concurrent code (see test/raced), those whose tests run guests and build artifacts, and cmd/prober and
# internal/cli, whose tests run what the tests of agent run too: of their own these packages start few goroutines.
UNRACED := . cmd/prober cmd/prober-probe handlers/shipped handlers/wasm/internal/binary internal/archtest internal/cli internal/cli/importcmd internal/cli/plugincmd internal/docstest internal/embedsize internal/release internal/typecheck plugin/compat plugin/plugintest sdk
# Tests that write files, run guests, simulate days or compare long tables for minutes under the detector, and start
# no goroutine that other tests do not start; and most seeds of simulations. A regular expression of -skip.
UNRACED_TESTS := ^(TestBudgetBoundsTheFile|TestBudgetDropsTheOldest|TestChangesAreThoseThatHappened|TestCompilerLimitsStopModuleForAnHour|TestExplanations|TestFuelIsDeterministic|TestFullDiskFromStartBoundsMemory|TestFullDiskKeepsPendingChanges|TestGuardOfEveryHandler|TestGuardOfEveryHandlerInNamespaceOfPod|TestGuestAndProcessOfOneSourceAgree|TestHistoryFitsItsBudget|TestPercentileStepsBoundPoints|TestRandomLife|TestReportMatchesNaiveModel|TestSLOsEqualReports|TestStepGrowsWithLengthOfHistory)$$|^TestReadersEndWithPresentState$$/^seed=[2-7]$$|^TestSimulation$$/^seed=([4-9]|..)$$
# The other packages of UNRACED_TESTS, and those whose tests do less under the detector.
RACED_IN_PART := agent/history agent/plugins agent/slo agent/stream handlers handlers/wasm pods/kube/controller pods/kube/liveness sdk/process
# By default, a raced program sleeps for a second before it ends, and tests start hundreds.
RACE_SLEEP_MS := 0
.PHONY: test-race
test-race: ## the tests of concurrent code with the race detector (needs gcc)
	@set -e; packages=$$(GO='$(GO)' UNRACED='$(UNRACED)' test/raced); \
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=$(RACE_SLEEP_MS) $(GOTEST) -race -timeout $(TIMEOUT) -skip '$(UNRACED_TESTS)' -exec 'env CGO_ENABLED=$(CGO_ENABLED)' $$packages

# CI runs test-race and this, since a test that has passed under the detector passes without.
.PHONY: test-unraced
test-unraced: ## the tests of test that test-race leaves out
	@set -e; packages=$$(GO='$(GO)' UNRACED='$(UNRACED)' test/raced -v); \
	$(GOTEST) -timeout $(TIMEOUT) $$packages $(RACED_IN_PART:%=./%)
	$(test-modules)

.PHONY: test-oracle
test-oracle: ## compare our core and handlers with the kubelet's code; also the tests of bench, which uses that code too
	cd bench && $(GOTEST) -tags k8s136 -count=1 -timeout $(TIMEOUT) ./...
	cd test/oracle && $(GOTEST) -tags k8s136 -count=1 -timeout $(TIMEOUT) ./kubelettests ./mutants ./release ./wire
	cd test/oracle && $(GOTEST) -tags k8s136 -count=1 -timeout $(TIMEOUT) -v . -args -scenarios=$(ORACLECOUNT) -seed=$(ORACLESEED)
	@set -e; cd test/oracle; for release in $(RELEASES); do overlay=$$($(GO) run ./release $$release); \
		$(GOTEST) -overlay=$$overlay -tags k8s136 -count=1 -timeout $(TIMEOUT) -v . -run 'RandomScenarios|FixedScenarios' -args -scenarios=$(RELEASECOUNT) -seed=$(ORACLESEED); \
		$(GOTEST) -overlay=$$overlay -tags k8s136 -count=1 -timeout $(TIMEOUT) ./kubelettests; \
		$(GOTEST) -overlay=$$overlay -tags k8s136 -count=1 -timeout $(TIMEOUT) ./wire -run 'Ports|Gate'; \
	done

# With an empty build cache this takes four minutes of processor time, then a minute. It is not part of CI.
.PHONY: test-peers
test-peers: ## the health-check tests of traefik, consul and caddy, with core/endpoint in place of their own code
	cd test/peers && $(GO) vet . && $(GOTEST) . && $(GO) run .

# This takes four to seven minutes. It is not part of CI.
.PHONY: test-mutants
test-mutants: ## check that the oracle catches faults that are built into our core
	cd test/oracle && $(GO) run ./mutants -scenarios=$(ORACLECOUNT)

.PHONY: test-e2e
test-e2e: build ## the tests against real servers; installs them
	GOTEST='$(GOTEST)' test/e2e/run

# All of them take nine minutes. The first run takes ten minutes more, to build Kubernetes.
.PHONY: test-kube
test-kube: ## the tests against Kubernetes, in namespaces; needs Linux and root; installs and builds missing programs
	GOTEST='$(GOTEST)' test/kube/run

.PHONY: test-kube-api
test-kube-api: ## the tests of test-kube that need only the API server
	GOTEST='$(GOTEST)' test/kube/run api

.PHONY: test-kube-cri
test-kube-cri: ## the tests of test-kube that need only containerd
	GOTEST='$(GOTEST)' test/kube/run cri

.PHONY: test-kube-node
test-kube-node: ## the tests of test-kube that need a node
	GOTEST='$(GOTEST)' test/kube/run node

# This takes twelve minutes. It is not part of CI.
.PHONY: test-arch
test-arch: ## the tests of probe, core and the built-in handlers on 386, arm, arm64 and s390x; needs Linux; installs qemu-user
	GO='$(GO)' GOTEST='$(GOTEST)' test/arch/run

.PHONY: screenshots
screenshots: ## docs/images, by the browser that test/e2e/run installs
	cd test/e2e/browser && $(GO) test -count=1 -run Pictures . -args -images=$(CURDIR)/docs/images

# This takes half a day.
.PHONY: verify
verify: ## the checks that take too long for CI, or those in VERIFY; writes the results to docs/reliability.md
	$(GO) run ./test/verify $(VERIFY)

.PHONY: soak
soak: build bin/soak ## bin/prober with PROBES probes for DURATION, with changes and faults; then KILLS kills; needs Linux
	bin/soak -duration=$(DURATION) -probes=$(PROBES) -kills=$(KILLS) -day=$(DAYTICKS)

.PHONY: bin/soak
bin/soak:
	$(GO) build -trimpath -o $@ ./test/soak

.PHONY: check
check: ## formatting, vet, lint, go.mod, go fix; types for PLATFORMS and ARCHES
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff
	$(GO) fix -diff ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) build -o bin/typecheck ./internal/typecheck
	bin/typecheck $(PLATFORMS) $(ARCHES:%=linux/%)
	@set -e; for dir in $(NESTED); do echo "check $$dir"; \
		(cd $$dir && $(GO) vet ./... && $(GO) mod tidy -diff && $(CURDIR)/bin/typecheck $(PLATFORMS)); \
	done
	cd bench && $(GO) vet -tags k8s136 ./... && $(GO) mod tidy -diff
	cd test/oracle && $(GO) vet -tags k8s136 ./... && $(GO) mod tidy -diff
	cd test/e2e/collector && $(GO) vet . && $(GO) mod tidy -diff
	cd test/e2e/browser && $(GO) vet . && $(GO) mod tidy -diff
	cd test/e2e/kafka && $(GO) vet . && $(GO) mod tidy -diff
	cd test/e2e/mongodb && $(GO) vet . && $(GO) mod tidy -diff
	cd test/e2e/receivers && $(GO) vet . && $(GO) mod tidy -diff
	cd test/e2e/s3server && $(GO) vet . && $(GO) mod tidy -diff
	cd test/kube && GOOS=linux $(GO) vet ./... && $(GO) mod tidy -diff
	cd test/kube/tools && $(GO) mod tidy -diff

# With an empty build cache this takes five minutes. It is not part of CI.
.PHONY: check-platforms
check-platforms: ## build prober for PLATFORMS, and vet it for darwin and windows
	@set -e; for platform in $(PLATFORMS); do \
		echo "check for $$platform"; export GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		$(GO) build -o /dev/null ./cmd/prober; \
		case $$GOOS in darwin | windows) $(GO) vet ./...; for dir in $(NESTED); do (cd $$dir && $(GO) vet ./...); done ;; *) $(GO) vet ./core/... ;; esac; \
	done

.PHONY: check-arch
check-arch: ## build and vet the packages of LIBRARY for ARCHES; not part of CI
	@set -e; for arch in $(ARCHES); do \
		echo "check for linux/$$arch"; export GOOS=linux GOARCH=$$arch GOARM=7; \
		$(GO) build $(LIBRARY); $(GO) vet $(LIBRARY); \
	done

.PHONY: check-min
check-min: ## check that the versions in go.mod are used, also by embedders; the tests of the library with them
	GO='$(GO)' GOTEST='$(GOTEST)' TIMEOUT='$(TIMEOUT)' LIBRARY='$(LIBRARY) ./handlers/wasm/... ./sdk/...' test/min/run

.PHONY: docs
docs: ## the generated pages and tables of docs
	$(GO) generate ./internal/metricsdoc ./internal/openapidoc ./internal/embedsize ./internal/referencedoc ./internal/sdkdoc

.PHONY: bench
bench: ## benchmarks of the parts, in benchstat's format
	$(GO) test -run '^$$' -bench '$(BENCH)' -count $(BENCHCOUNT) -timeout 30m ./...

# Scenarios with a record in bench/records are skipped. BENCHFLAGS=-again measures all of them again, and
# BENCHFLAGS='-again -scenario http,tcp' only some.
.PHONY: bench-history
bench-history: ## 30 days of 10,000 probes: size, writes and reports of the history; takes half an hour
	PROBER_HISTORY_DAYS=30 $(GO) test -count=1 -timeout 90m -run '^TestThirtyDays$$' -v ./agent/history

.PHONY: bench-peers
bench-peers: ## docs/performance.md: prober compared with the kubelet's code; takes 25 minutes; needs Linux
	cd bench && $(GO) run -tags k8s136 ./cmd/bench $(BENCHFLAGS)

.PHONY: bench-scale
bench-scale: ## the same for 1,000 to 1,000,000 probes; takes 4 minutes
	cd bench && $(GO) run -tags k8s136 ./cmd/bench -scenario scale $(BENCHFLAGS)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$pkg; \
		done; \
	done

# Hugo is built from its module: three minutes the first time.
.PHONY: site
site: ## bin/site: the documents as a site; fails for a link that leads nowhere
	cd internal/site && $(GO) run $(HUGO) --quiet --noBuildLock --cleanDestinationDir --destination $(CURDIR)/bin/site

# Releases are reproducible: the same commit and Go version give the same bytes. With changed files the
# version ends in -dirty.
RELEASE = $(GO) run ./internal/release -go '$(GO)' -version '$(VERSION)' -date "$$(git log -1 --format=%ct 2>/dev/null || echo 0)" -out dist
.PHONY: release
release: site ## dist: archives for RELEASE_PLATFORMS, Debian packages, container image, SBOMs, documents, checksums
	$(RELEASE) -platforms '$(RELEASE_PLATFORMS)' -site bin/site

.PHONY: image
image: ## dist for the architecture of this machine only, without documents: archive, Debian package, container image
	$(RELEASE) -platforms linux/$$($(GO) env GOHOSTARCH)

.PHONY: deb
deb: image ## the same

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist examples/plugins/*/*.wasm
