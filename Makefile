# Everything runs inside .venv, which is built from the lock file and rebuilt when that changes.
# Recipes use relative paths only, so the checkout may lie in a folder whose name has spaces.

PYTHON ?= python3
RUN := .venv/bin/python
READY := .venv/.ready

# Tests start servers of their own and often wait for them, so twice as many as there are processors run side by side.
TEST_PROCESSES ?= $(shell $(PYTHON) -c 'import os; print(2 * len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)))')

# Where this is set, every process of the tests and of the stack would compile all code anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo up test check bench format lock clean

help:
	@echo "make demo    set up, start everything, run a reconcile and a retry job, show the results, end"
	@echo "make up      the same stack, stays up until Ctrl-C; SET='NAME=VALUE ...' changes its settings"
	@echo "make test    the whole test suite"
	@echo "make check   format, lint, types, import contracts, fast tests"
	@echo "make bench   measure everything side by side, write bench/results.json"
	@echo "make lock    pin the dependencies anew"

setup: $(READY)

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "Python's venv module is needed; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "setting up .venv"
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY)
	@$(RUN) -m workers.cli demo

up: $(READY)
	@$(RUN) -m workers.cli up $(foreach setting,$(SET),--set $(setting))

# By folder, so that files with a few long tests do not come last and keep one core idle at the end.
test: $(READY)
	$(RUN) -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

bench: $(READY)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	$(RUN) -m bench

check: $(READY)
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(RUN) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
	$(RUN) -m pytest -q -n $(TEST_PROCESSES) --dist loadfile tests/unit tests/conformance

format: $(READY)
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

# Needs uv, which is not among the locked tools: it only writes the files that lock them.
lock:
	uv pip compile pyproject.toml --extra build --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --output-file requirements.lock
	uv pip compile pyproject.toml --extra build --extra devstack --extra dev --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--output-file requirements-dev.lock
	uv pip compile pyproject.toml --extra build --extra devstack --extra dev --extra bench --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--constraints requirements-dev.lock --output-file requirements-bench.lock

clean:
	rm -rf .venv .devstack .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
