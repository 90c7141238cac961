# Two commands do everything on a machine with Python 3.11 and the package registries: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
UV := .cache/uv/bin/uv
RUN := $(VENV)/bin

.PHONY: help setup demo test quick bytes losses image-test check core pythons audit fuzz fuzz-conversions fuzz-templates bench bench-spark bench-peers chaos chaos-spark faults clean

help:  ## this list
	@sed -En 's/^([a-z-]+):.*  ## (.*)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '%-12s %s\n' "$$name" "$$text"; done

# The native kernel is built where there is Rust; everything works without it, too.
CARGO := $(shell command -v cargo)
READY := $(VENV)/.ready$(if $(CARGO),-with-kernel)
KERNEL := $(addprefix kernel/,pyproject.toml Cargo.toml Cargo.lock) $(wildcard kernel/src/*.rs kernel/src/*/*.rs)

setup: $(READY)  ## an environment with everything for development

# uv lives in a small environment of its own, so that nothing is installed outside the project.
$(UV):
	$(PYTHON) -m venv .cache/uv
	.cache/uv/bin/pip install --quiet "uv>=0.9,<1"

SYNC = $(UV) sync --locked --extra dev --python $(PYTHON)
$(VENV)/.ready: pyproject.toml uv.lock | $(UV)
	@echo "there is no cargo: relay is set up without its native kernel (Rust 1.85 or later builds it)" >&2
	$(SYNC)
	touch $@

$(VENV)/.ready-with-kernel: pyproject.toml uv.lock $(KERNEL) | $(UV)
	$(SYNC) --extra fast || { echo "the native kernel cannot be built: relay is set up without it" >&2; $(SYNC); }
	touch $@

demo: setup  ## a real Kafka, real TiCDC messages, translated; ends by itself
	$(RUN)/relay demo

WORKERS ?= 2
test: setup check  ## every test, real Kafka included; WORKERS=4 at a time, where there is memory for as many brokers and Sparks
	$(RUN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

image-test: setup  ## the image really built and run, without Docker; says what is missing (root, buildah, debootstrap)
	RELAY_IMAGE_TEST=$${RELAY_IMAGE_TEST:-try} $(RUN)/pytest tests/image

check: setup  ## lint, types, import contracts
	$(RUN)/ruff check
	$(RUN)/ruff format --check
	$(RUN)/mypy
	$(RUN)/lint-imports
ifneq ($(and $(CARGO),$(shell command -v cargo-fmt),$(shell command -v cargo-clippy)),)
	cd kernel && cargo fmt --check && cargo clippy --quiet --locked -- --deny warnings
else
	@echo "there is no cargo with fmt and clippy: the kernel's Rust is not looked at" >&2
endif

core: setup  ## the core's tests, which need no Kafka
	$(RUN)/pytest -q -n $(WORKERS) --dist worksteal $(CORE) tests/docs tests/fuzz

PYTHONS ?= 3.11 3.13
CORE := tests/codecs tests/edge_cases tests/golden tests/mysql tests/test_*.py
pythons: | $(UV)  ## the core's tests on several Pythons, without the kernel; PYTHONS="3.12 /opt/python3.13/bin/python3" chooses
	for each in $(PYTHONS); do \
	  export UV_PROJECT_ENVIRONMENT=.cache/pythons/$$(basename $$each); \
	  $(UV) sync --quiet --locked --extra dev --python $$each || exit; \
	  $$UV_PROJECT_ENVIRONMENT/bin/pytest -q -n $(WORKERS) --dist worksteal $(CORE) || exit; \
	done

quick: export PYTEST_QUICK := 1
quick: setup  ## lint, types, import contracts, and three cases of each of the core's tests; `make core` runs all
	@$(MAKE) --no-print-directory -j 2 check core

audit: | $(UV)  ## advisories about the lowest and the locked versions; needs the databases of PyPI and RustSec
	@mkdir -p .cache/audit
	$(UV) pip compile --quiet --resolution lowest-direct --all-extras --no-emit-package relay-cdc-kernel --python-version 3.11 pyproject.toml -o .cache/audit/lowest.txt
	$(UV) export --quiet --locked --all-extras --no-emit-workspace --no-hashes -o .cache/audit/locked.txt
	for each in lowest locked; do $(UV) tool run pip-audit --disable-pip --no-deps --strict -r .cache/audit/$$each.txt || exit 1; done
	cd kernel && cargo audit

# The digests of other records are beside them, unless DIGESTS says otherwise.
RECORDS ?= tests/data
DIGESTS ?= $(RECORDS)/output-digests.json
bytes: setup  ## whether relay writes what it wrote before, on every route; RECORDS=folder for others, WRITE=1 writes the digests
	PYTHONPATH=tests $(RUN)/python -m output_digests $(if $(WRITE),--write) $(RECORDS) $(DIGESTS)

losses: setup  ## whether a reader of what relay writes finds all that was not counted as lost, on every route
	RELAY_ALL_ROUTES=1 $(RUN)/pytest -q -n $(WORKERS) --dist worksteal tests/test_nothing_lost.py

SECONDS ?= 60
fuzz-conversions: setup  ## the native kernel's conversions against those in Python, COUNT values of each
	cd tests && ../$(RUN)/python -m templates.kernel_conversions $(or $(COUNT),100000)

fuzz-templates: setup  ## messages inside the shapes of good ones, by template and without; MESSAGES=1000000 or SECONDS=600, SEED=7
	cd tests && ../$(RUN)/python -m fuzz.shapes $(if $(MESSAGES),--messages $(MESSAGES),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

fuzz: setup  ## changed records on every route; SECONDS=600, SEED=7 for the same again, RECORD=folder for one finding
	cd tests && ../$(RUN)/python -m fuzz $(if $(RECORD),--record $(abspath $(RECORD)),--seconds $(SECONDS) $(if $(SEED),--seed $(SEED)))

bench: setup  ## ratios against a floor measured in the same run
	$(RUN)/python -m benchmarks

bench-spark: setup  ## the Spark job next to an identity job, its memory, and its bytes next to the relay's; about 15 minutes
	PYTHONPATH=tests $(RUN)/python -m benchmarks.spark

bench-peers: setup  ## relay next to Flink, Kafka Connect and loops written by hand, on one broker; QUICK=1 is short
	PYTHONPATH=tests $(RUN)/python -m benchmarks.peers $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS))

SEEDS ?= 20
chaos: setup  ## throughput, a soak, then kills, outages, elections and cuts, verified; SEEDS=3 is short, ONLY=network chooses
	cd tests && ../$(RUN)/python -m chaos --seeds $(SEEDS) --only "$(ONLY)"

faults: setup  ## faults of a real Kafka: how soon page, checks, metrics and alerts show them; writes docs/failures.md; ONLY=hung,refused chooses
	cd tests && ../$(RUN)/python -m faults --only "$(ONLY)"

chaos-spark: setup  ## runs of the Spark job that are killed at some moment and started again; SEEDS=10 is usual
	cd tests && PYTHONPATH=.. ../$(RUN)/python -m chaos spark --seeds $(SEEDS)

clean:  ## removes the environment and all caches in this folder
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
