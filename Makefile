# `make demo` and `make test` need only Python 3.11 or later and the package registries.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
UV := .cache/uv/bin/uv
RUN := $(VENV)/bin

.PHONY: help setup demo test quick slow bytes routes losses image-test check core pythons audit fuzz fuzz-conversions fuzz-templates bench bench-spark bench-peers chaos chaos-spark faults clean

help:  ## show this list
	@sed -En 's/^([a-z-]+):.*  ## (.*)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

# The native kernel is built if Rust is installed; everything works without it, too.
CARGO := $(shell command -v cargo)
# The binding to Kerberos is built if the system has its library; its tests are skipped without it.
KERBEROS := $(if $(shell command -v krb5-config),--extra kerberos)
WITH_KERBEROS := $(if $(KERBEROS),-with-kerberos)
READY := $(VENV)/.ready$(if $(CARGO),-with-kernel)$(WITH_KERBEROS)
KERNEL := $(addprefix kernel/,pyproject.toml Cargo.toml Cargo.lock) $(wildcard kernel/src/*.rs kernel/src/*/*.rs)

setup: $(READY)  ## install everything for development into .venv

# uv has a separate small environment, so that nothing is installed outside the project.
$(UV):
	$(PYTHON) -m venv .cache/uv
	.cache/uv/bin/pip install --quiet "uv>=0.9,<1"

SYNC = $(UV) sync --locked --extra dev $(KERBEROS) --python $(PYTHON)
$(VENV)/.ready$(WITH_KERBEROS): pyproject.toml uv.lock | $(UV)
	@echo "cargo is not installed: relay is set up without its native kernel (Rust 1.85 or later builds it)" >&2
	$(SYNC)
	touch $@

$(VENV)/.ready-with-kernel$(WITH_KERBEROS): pyproject.toml uv.lock $(KERNEL) | $(UV)
	$(SYNC) --extra fast || { echo "the native kernel cannot be built: relay is set up without it" >&2; $(SYNC); }
	touch $@

demo: setup  ## translate captured TiCDC messages on a real Kafka
	$(RUN)/relay demo

WORKERS ?= 2
test: setup check  ## run all tests, with real Kafka and Spark; WORKERS=4 in parallel, if there is enough memory
	$(RUN)/pytest -n $(WORKERS) --dist loadgroup

image-test: setup  ## build and run the image without Docker; needs root, buildah and debootstrap
	RELAY_IMAGE_TEST=$${RELAY_IMAGE_TEST:-try} $(RUN)/pytest tests/image

check: setup  ## run the linter, the type checker and the import contracts
	$(RUN)/ruff check
	$(RUN)/ruff format --check
	$(RUN)/mypy
	$(RUN)/lint-imports
ifneq ($(and $(CARGO),$(shell command -v cargo-fmt),$(shell command -v cargo-clippy)),)
	cd kernel && cargo fmt --check && cargo clippy --quiet --locked -- --deny warnings
else
	@echo "cargo, fmt or clippy is not installed: the kernel's Rust code is not checked" >&2
endif

core: setup  ## run the core's tests, which need no Kafka
	$(RUN)/pytest -q -n $(WORKERS) --dist worksteal $(CORE) tests/docs tests/fuzz tests/templates

PYTHONS ?= 3.11 3.13
CORE := tests/codecs tests/edge_cases tests/golden tests/mysql tests/test_*.py
pythons: | $(UV)  ## run the core's tests on several Pythons, without the kernel; PYTHONS="3.12 /opt/python3.13/bin/python3" selects them
	for each in $(PYTHONS); do \
	  export UV_PROJECT_ENVIRONMENT=.cache/pythons/$$(basename $$each); \
	  $(UV) sync --quiet --locked --extra dev --python $$each || exit; \
	  $$UV_PROJECT_ENVIRONMENT/bin/pytest -q -n $(WORKERS) --dist worksteal $(CORE) || exit; \
	done

quick: export PYTEST_QUICK := 1
quick: setup  ## run the checks, and two cases of most of the core's tests; `make core` runs all cases
	@$(MAKE) --no-print-directory -j 2 check core

audit: | $(UV)  ## look for advisories about the lowest and the locked versions; needs the databases of PyPI and RustSec
	@mkdir -p .cache/audit
	$(UV) pip compile --quiet --resolution lowest-direct --all-extras --no-emit-package relay-cdc-kernel --python-version 3.11 pyproject.toml -o .cache/audit/lowest.txt
	$(UV) export --quiet --locked --all-extras --no-emit-workspace --no-hashes -o .cache/audit/locked.txt
	for each in lowest locked; do $(UV) tool run pip-audit --disable-pip --no-deps --strict -r .cache/audit/$$each.txt || exit 1; done
	cd kernel && cargo audit

# The digests of other records are beside them, unless DIGESTS is set.
RECORDS ?= tests/data
DIGESTS ?= $(RECORDS)/output-digests.json
bytes: setup  ## compare relay's output with its digests, on every route; RECORDS=folder for other records, WRITE=1 writes digests
	PYTHONPATH=tests $(RUN)/python -m output_digests $(if $(WRITE),--write) $(RECORDS) $(DIGESTS)

# Tests of many routes, dialects and modes, which try some pairs of them unless PYTEST_ALL_ROUTES is set.
OF_ROUTES := $(addprefix tests/,test_nothing_lost.py test_output_digests.py test_limits.py templates/test_routes.py \
  codecs/test_values_in_errors.py codecs/test_poisoned_caches.py service/test_dead_letters_of_ddl.py \
  readers column_rules/test_captured.py table_rules/test_rows.py spark/test_every_route.py)
routes: setup  ## run the tests that try some of many routes on all of them; `make chaos` begins with it
	PYTEST_ALL_ROUTES=1 $(RUN)/pytest -q -n $(WORKERS) --dist worksteal $(OF_ROUTES)

slow: setup  ## run the tests that take half a minute or more each, which `make test` leaves out; `make chaos` begins with them
	$(RUN)/pytest -m slow -n $(WORKERS) --dist loadgroup

losses: setup  ## check on every route that each difference between input and output is a counted loss
	PYTEST_ALL_ROUTES=1 $(RUN)/pytest -q -n $(WORKERS) --dist worksteal tests/test_nothing_lost.py

SECONDS ?= 60
fuzz-conversions: setup  ## compare the native kernel's conversions with those in Python; COUNT=1000000 values of each
	cd tests && ../$(RUN)/python -m templates.kernel_conversions $(or $(COUNT),100000)

fuzz-templates: setup  ## compare templates with the slow path on mutated messages; MESSAGES=1000000 or SECONDS=600, SEED=7
	cd tests && ../$(RUN)/python -m fuzz.shapes $(if $(MESSAGES),--messages $(MESSAGES),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

fuzz: setup  ## translate mutated records on every route; SECONDS=600, SEED=7 repeats a run, RECORD=folder a finding
	cd tests && ../$(RUN)/python -m fuzz $(if $(RECORD),--record $(abspath $(RECORD)),--seconds $(SECONDS) $(if $(SEED),--seed $(SEED)))

bench: setup  ## measure relay against plain JSON parsing and serialization
	$(RUN)/python -m benchmarks

bench-spark: setup  ## measure the Spark job against an identity job and its limits; QUICK=1 is short, ONLY=speed,listing selects parts, ROUNDS=5, ARGS="--help" shows more
	PYTHONPATH=tests $(RUN)/python -m benchmarks.spark $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

bench-peers: setup  ## measure relay against Flink, Kafka Connect and hand-written loops on one broker; QUICK=1 is short
	PYTHONPATH=tests $(RUN)/python -m benchmarks.peers $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS))

SEEDS ?= 20
chaos: setup $(if $(ONLY),,slow routes)  ## run the slow tests, try all routes, measure throughput, run a soak test, and inject faults; SEEDS=3 is short, ONLY=network selects a fault
	cd tests && ../$(RUN)/python -m chaos --seeds $(SEEDS) --only "$(ONLY)"

faults: setup  ## measure how soon monitoring shows faults of a real Kafka; writes docs/failures.md; ONLY=hung,refused selects faults
	cd tests && ../$(RUN)/python -m faults --only "$(ONLY)"

chaos-spark: setup  ## disturb runs of the Spark job: kill runs, executors and tasks, start speculative copies; SEEDS=10 is usual
	cd tests && PYTHONPATH=.. ../$(RUN)/python -m chaos spark --seeds $(SEEDS)

clean:  ## remove the environment and all caches in this folder
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
