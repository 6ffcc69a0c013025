# Every target works on a fresh machine with Python >= 3.11, git >= 2.38 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: help install demo demo-ssh test lint slow bench chaos clean

help:
	@echo "make demo   a whole bisection on a small generated repository (under 4 minutes)"
	@echo "make test   lint, types, import rules and tests"
	@echo "make slow   calibration, campaigns and fuzzing (long)"
	@echo "make chaos  a hundred short nights with random faults, from a seed"
	@echo "make bench  speeds, as ratios within one run (HISTORY=\"REPOSITORY GOOD BAD\": steps on that history)"

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("bisectperf needs Python >= 3.11; say make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

install: $(VENV)/.installed

demo: $(VENV)/.installed
	@$(BIN)/python examples/laptop/demo.py

demo-ssh: $(VENV)/.dev
	@tests/needs.sh
	@$(BIN)/python -m pytest -q -s -m 'slow or not slow' tests/e2e/test_demo_ssh.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint
	@tests/needs.sh
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup -m 'not slow'

slow: $(VENV)/.dev
	@tests/needs.sh
	$(BIN)/python -m pytest -q -m slow

chaos: $(VENV)/.dev
	$(BIN)/python tests/chaos/campaign.py --nights 100

bench: $(VENV)/.dev
	@tests/needs.sh
	$(BIN)/python tests/bench/run.py
	$(BIN)/python tests/bench/step.py $(HISTORY)

clean:
	rm -rf $(VENV) .demo
