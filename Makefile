PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PINS := pyproject.toml constraints.txt

# Material's notice about MkDocs 2 is not about this project.
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two pips in one venv would overwrite each other.
.NOTPARALLEL:
.PHONY: help demo test sweep chaos check spec bench conformance docs fmt clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## compose nine MCP servers behind one URL, and print the trace
	@$(BIN)/weft demo

test: $(VENV)/.dev ## run all tests
	$(BIN)/python -m pytest -n auto --maxprocesses 4

sweep: $(VENV)/.dev ## kill sagas and workflows at every point on every store, and 5,000 sagas at random
	WEFT_SWEEP=all WEFT_SAGAS=5000 $(BIN)/python -m pytest -n auto --maxprocesses 4 tests/saga tests/stores/test_redis_failover.py tests/workflows/test_durable_sweep.py

chaos: $(VENV)/.dev ## ten minutes of killed gateways, restarted stores and held locks under load
	$(BIN)/python -m scripts.chaos

check: $(VENV)/.dev ## lint, types, import directions, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache
	@site=$$(mktemp -d) && trap 'rm -rf "$$site"' EXIT && \
		echo '$(BIN)/mkdocs build --strict' && $(BIN)/mkdocs build --strict --quiet --site-dir "$$site"

spec: ## list the requirements of docs/spec.md that no test carries
	@$(PYTHON) scripts/spec.py

conformance: $(VENV)/.dev ## run the official MCP conformance suites, and real third-party servers and clients, through weft
	$(BIN)/python -m scripts.conformance
	$(BIN)/python -m scripts.conformance_client
	$(BIN)/python -m scripts.thirdparty

bench: $(VENV)/.dev ## measure weft against hand-written Python (and other libraries, where installed)
	@$(PIP) --editable '.[bench]' || echo 'The bench extra cannot be installed here; going on without it.' >&2
	$(BIN)/python -m bench

docs: $(VENV)/.dev ## build the documentation into site/
	$(BIN)/mkdocs build --strict

fmt: $(VENV)/.dev ## format the code and sort its imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the venv and everything built
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'weft needs Python 3.11 or newer: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made $(PINS)
	@echo 'Installing weft into $(VENV) ...'
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.made $(PINS)
	@echo 'Installing weft and its tools into $(VENV) ...'
	@$(PIP) --editable '.[all,test,dev,docs]'
	@touch $@ $(VENV)/.core
