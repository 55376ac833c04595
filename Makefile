# Two commands are enough on a fresh machine with Python 3.11 or newer, git and make:
#   make up     installs Interlock into .venv and serves it on this machine
#   make test   runs the whole test suite
# All else: make help

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
STAMPS := $(VENV)/.stamps

PINS_VENV := .venv-pins
PIP_TOOLS := pip-tools==7.6.2
PIP_COMPILE = CUSTOM_COMPILE_COMMAND="make pins" $(PINS_VENV)/bin/pip-compile --quiet --upgrade \
	--generate-hashes --strip-extras --allow-unsafe \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install up test check format demo prove docs screenshots budgets bench install-bench pins clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# Where Python may not write bytecode, a start without it takes three times as long. Up to date files cost nothing.
install: $(STAMPS)/install ## make .venv with the command at .venv/bin/interlock
	@$(BIN)/python -m compileall -qq src/interlock || true

# Without a terminal, in CI and with UP_ONCE=1 it only starts, checks itself and ends.
up: install ## install, then serve Interlock on http://127.0.0.1:8420 (ARGS="--port 18000" chooses; UP_ONCE=1: start, check, end)
	@if [ -n "$$UP_ONCE$$CI" ] || [ ! -t 1 ]; then \
		$(BIN)/interlock up --once --port 0 && echo "It works here. To serve: make up in a terminal, or $(BIN)/interlock up."; else exec $(BIN)/interlock up $(ARGS); fi

test: $(STAMPS)/test ## run the whole test suite (ARGS="-k fence" chooses)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal $(ARGS)

check: $(STAMPS)/check ## lint, formatting, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(STAMPS)/check ## rewrite the sources as `check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: install ## show Interlock at work
	$(BIN)/interlock demo $(ARGS)

prove: install ## try to break Interlock for a minute, and judge the outcome (ARGS="--break fence" must fail)
	$(BIN)/interlock prove $(ARGS)

docs: $(STAMPS)/test ## bring the reference and the output of examples up to date
	$(BIN)/python deploy/grafana/board.py
	$(BIN)/python -m docs.generate
	$(BIN)/python -m docs.examples

screenshots: $(STAMPS)/test ## take the pictures of the dashboard anew (ARGS="overview" chooses)
	$(BIN)/python -m docs.screenshots $(ARGS)

budgets: $(STAMPS)/test ## bring the budgets of calls up to date, after a change that must cost more or costs less
	$(BIN)/python -m tests.integration.budgets

bench: $(STAMPS)/bench ## measure Interlock beside other queues
	$(BIN)/python -m bench $(ARGS)

install-bench: $(STAMPS)/bench ## install the peers that benchmarks measure

# Pins are made with the oldest Python that is supported, so that they hold for the newer ones too.
pins: $(PINS_VENV)/bin/pip-compile ## compile requirements/*.txt anew
	@$(PINS_VENV)/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "Pins are made with Python 3.11: make clean, then make pins PYTHON=python3.11." >&2; exit 1; }
	$(PIP_COMPILE) --only-build-deps --build-deps-for wheel --build-deps-for editable \
		--output-file requirements/build.txt pyproject.toml
	$(PIP_COMPILE) --constraint requirements/build.txt \
		--output-file requirements/runtime.txt pyproject.toml
	$(PIP_COMPILE) --extra otel --extra test --constraint requirements/build.txt --constraint requirements/runtime.txt \
		--output-file requirements/test.txt pyproject.toml
	$(PIP_COMPILE) --extra otel --constraint requirements/build.txt --constraint requirements/test.txt \
		--output-file requirements/otel.txt pyproject.toml
	$(PIP_COMPILE) --extra otel --extra test --extra check --constraint requirements/build.txt --constraint requirements/test.txt \
		--output-file requirements/check.txt pyproject.toml
	$(PIP_COMPILE) --extra otel --extra test --extra bench --constraint requirements/build.txt --constraint requirements/check.txt \
		--output-file requirements/bench.txt pyproject.toml
	@! grep -nE '://|file:|^-|[ =(]/' requirements/*.txt

clean: ## remove what make and the tools made
	rm -rf $(VENV) $(PINS_VENV) build dist bench/pgboss/node_modules tests/github/npm/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps: each is newer than what it was made from, so that a second `make` does nothing.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
		"Interlock needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true):" \
		"name another with make PYTHON=python3.12." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo \
		"'$(PYTHON)' cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)." \
		>&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/install: pyproject.toml requirements/build.txt requirements/runtime.txt | $(BIN)/python
	$(PIP) install --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	$(PIP) install --no-build-isolation --no-deps --editable .
	@mkdir -p $(@D) && touch $@

$(STAMPS)/test $(STAMPS)/check $(STAMPS)/bench: $(STAMPS)/%: requirements/%.txt $(STAMPS)/install
	$(PIP) install --require-hashes -r $<
	@mkdir -p $(@D) && touch $@

$(PINS_VENV)/bin/pip-compile:
	$(PYTHON) -m venv $(PINS_VENV)
	$(PINS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install '$(PIP_TOOLS)'
