# Every target makes what it needs first. PYTHON=/path/to/python3.12 chooses another interpreter.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BIN := .venv/bin
N ?= 1000000
RUNS ?= 3
SEED ?= 1
MINUTES ?= 15
ARGS ?=
TESTS ?= tests
OLDER ?= 3.9.1
WORKERS ?= 2

.PHONY: help setup run test test-older fuzz faults simulate lint format bench lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## the locked Python environment in .venv (quick when it is up to date)
	@scripts/setup.sh

run: setup ## the course-revenue job on a local Kafka, totals here and on a web page; ARGS="--once" ends by itself
	@scripts/java.sh
	@$(BIN)/course-revenue demo $(ARGS)

test: setup ## every test, those on a real broker included; TESTS=tests/unit for some, WORKERS=0 in one process
	@scripts/java.sh --jdk
	@scripts/browser.sh
	@scripts/postgres.sh
	@scripts/faketime.sh
	@scripts/prometheus.sh
	@$(BIN)/headrace cluster fetch --kafka-version 3.9.1 --registry > /dev/null
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(TESTS) $(ARGS)

test-older: setup ## the tests of the classic protocol and of exactly once on brokers of OLDER=3.9.1; make test has some of them
	@scripts/java.sh --jdk
	@scripts/faketime.sh
	@HEADRACE_KAFKA_VERSION=$(OLDER) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
	  tests/cluster/kafka tests/cluster/runtime tests/cluster/test_three_brokers.py tests/cluster/test_topics.py \
	  $(patsubst %,tests/cluster/course_revenue/test_%.py,broken_input crashed_instance exactly_once full_disk instances peers rebuild reset slow_disk) $(ARGS)

fuzz: setup ## random topologies and inputs, the Java library against headrace: SEED=1 is the first of N=1000 cases
	@scripts/java.sh --jdk
	@PYTHONPATH=tests $(BIN)/python -m fuzz --seed $(SEED) --cases $(if $(filter file,$(origin N)),1000,$(N)) $(ARGS)

faults: setup ## brokers, instances, disks, clocks, the network fail by a seed: SEED=1 MINUTES=15 of each protocol and guarantee
	@scripts/java.sh --jdk
	@scripts/faketime.sh
	@PYTHONPATH=tests $(BIN)/python -m faults --seed $(SEED) --minutes $(MINUTES) $(ARGS)

simulate: setup ## the real runtime on virtual brokers and time, faults by seed: SEED=1 is the first of N=2000; N=1 tells all
	@PYTHONPATH=tests $(BIN)/python -m simulation --seed $(SEED) --count $(if $(filter file,$(origin N)),2000,$(N)) $(ARGS)

lint: setup ## ruff, mypy, basedpyright, import-linter; the files under deploy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports
	@scripts/lint_deploy.sh

format: setup ## ruff's formatter and its safe fixes
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

bench: setup ## the Java job and ours on the same topic: N=1000000 lines, RUNS=3 alternating runs; then restores of N keys
	@scripts/java.sh --jdk
	@$(BIN)/python benchmarks/bench.py --lines $(N) --runs $(RUNS) $(ARGS)
	@$(BIN)/python benchmarks/restore.py --keys $(N) --runs $(RUNS)

lock: ## requirements.lock anew from pyproject.toml
	@scripts/lock.sh

clean: ## removes what was made here: environment, local cluster, caches
	@if [ -x $(BIN)/headrace ] && [ -d .headrace ]; then for d in .headrace/cluster .headrace/demo/cluster; do $(BIN)/headrace cluster down --data-dir $$d; done; fi
	@rm -rf .venv .headrace build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src apps tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
	@find src apps -name '*.egg-info' -prune -exec rm -rf {} +
