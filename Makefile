# Each target sets up what it needs by itself: `make demo` works on a fresh clone.
# Needed on the machine: make, Python 3.11 or newer, Java 17 or newer (for Spark and the Kafka broker).

SHELL := bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
# Tests wait for brokers and Spark more than they compute. A file's tests stay together, in the order of the folders.
WORKERS ?= 3
PYTEST := -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
ARGS ?=
# Of the machine if it has one, else the project's own.
UV := $(or $(shell command -v uv 2>/dev/null),.tools/uv/bin/uv)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A Python with PyFlink, which has dependencies that do not go with ours.
FLINK := .venvs/flink/bin/python

export UV_PYTHON_DOWNLOADS := never
# Spark starts many Python processes; compiled modules are what makes that quick.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test durations test-all test-python faults mutants capture simulate fuzz oracle oracle-streams lint fmt bench bench-peers lock clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(READY) ## Build .venv from requirements.lock and say what is missing
	@$(BIN)/penstock doctor

demo: $(READY) ## Run the demonstration: a real broker, a pipeline, a crash, and no record lost or repeated
	@$(BIN)/penstock demo $(ARGS)

test: $(READY) ## Run the tests (ARGS="tests/unit -k name" for some)
	@$(BIN)/python $(PYTEST) -m "not slow" $(ARGS)

durations: $(READY) ## Run the tests and write to tests/durations.txt how long each file takes (ARGS="tests/unit/cli" for some)
	@$(BIN)/python $(PYTEST) -m "not slow" --durations-file tests/durations.txt $(ARGS)

test-all: $(READY) ## Run all tests, those that take long among them
	@$(BIN)/python $(PYTEST) $(ARGS)

test-python: ## Run the unit tests and the demonstration on another Python (PYTHON=python3.13), in .venvs
	@$(MAKE) VENV=.venvs/$(subst /,-,$(PYTHON)) PYTHON=$(PYTHON) test ARGS=tests/unit
	@$(MAKE) VENV=.venvs/$(subst /,-,$(PYTHON)) PYTHON=$(PYTHON) demo ARGS=

faults: $(READY) ## Run the fault matrix and write docs/faults.md (ARGS="--only F5" for some, "--runs 3 --jobs 2")
	@$(BIN)/python -m tests.faults $(ARGS)

mutants: $(READY) ## Run penstock without its safeguards, one after the other, through the matrix, which must notice
	@$(BIN)/python -m tests.faults --mutants $(ARGS)

capture: $(READY) ## Copy what Debezium captures of random workloads, with a pipeline that is killed twice (ARGS="--seeds 1 --changes 10000")
	@$(BIN)/python -m tests.capture $(ARGS)

simulate: $(READY) ## Walk through the exactly-once protocol on a simulated cluster, at random (ARGS="--walks 10000")
	@$(BIN)/python -m tests.simulation $(ARGS)

fuzz: $(READY) ## A million broken messages for the formats, 1,000 changelogs for each operator and for random queries (ARGS="--inputs 10000")
	@$(BIN)/python -m tests.fuzz $(ARGS)

oracle: $(READY) $(FLINK) ## Record what Flink answers to Nexmark's queries, and to random queries and functions what is not recorded yet (needs Python 3.11 or 3.12)
	@$(BIN)/python -m tests.nexmark.answers $(FLINK)
	@$(BIN)/python -m tests.recorded.queries $(FLINK)
	@$(BIN)/python -m tests.recorded.over $(FLINK)
	@$(FLINK) tests/recorded/functions.py .venvs/flink

oracle-streams: $(READY) $(FLINK) ## Record what PyFlink does with tests/streams (FLINK_JARS: a folder with its connector for Kafka)
	@FLINK_PYTHON=$(FLINK) $(BIN)/python -m tests.recorded.streams $(ARGS)
	@$(FLINK) tests/recorded/flink_types.py

lint: $(READY) ## Check format, rules, types and the directions of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fmt: $(READY) ## Format the code and repair what can be repaired
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## Measure the whole path, each format by itself, and many tables (ARGS="--rounds 3" for the first)
	@$(BIN)/python -m bench $(ARGS)
	@$(BIN)/python -m bench.formats
	@$(BIN)/python -m bench.tables --counts 10,1000 --records 400000 --per-batch 100000 --shared

bench-peers: $(READY) $(FLINK) ## Measure penstock beside Flink and Spark (BENCH_FLINK_KAFKA_JAR=..., see bench/gate)
	@BENCH_FLINK_PYTHON=$${BENCH_FLINK_PYTHON:-$(FLINK)} $(BIN)/python -m bench.peers --write $(ARGS)

lock: $(UV) ## Resolve the dependencies of pyproject.toml afresh into requirements.lock
	@$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade --quiet \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --output-file requirements.lock

clean: ## Delete everything that was built, downloaded jars excepted
	@rm -rf .venv .venvs .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(FLINK): | $(UV)
	@echo "building .venvs/flink with Flink 2.2" >&2
	@$(UV) venv --quiet --seed --python $(PYTHON) .venvs/flink
	@$@ -m pip install --quiet 'setuptools<80' wheel
	@$@ -m pip install --quiet apache-flink==2.2.0 || { rm -rf .venvs/flink; exit 1; }

.tools/uv/bin/uv:
	@echo "no uv on PATH: installing one into .tools" >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is too old or missing: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .tools/uv
	@.tools/uv/bin/python -m pip install --quiet 'uv>=0.8,<1'

$(READY): requirements.lock pyproject.toml testing/pyproject.toml | $(UV)
	@echo "building $(VENV) from requirements.lock" >&2
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	@$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable . --editable testing
	@echo "compiling loops, once" >&2
	@$(BIN)/python -c 'from penstock.engine.session.daemon import warm; warm()'
	@touch $@
