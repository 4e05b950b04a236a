# make demo and make test work in a fresh clone: each does its own set-up first.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
PYTHON ?= $(firstword $(foreach v,3.11 3.12 3.13,$(shell python$(v) -c 'import venv, ensurepip, sys; print(sys.executable)' 2>/dev/null)))
TEST_WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo browser test lint typecheck wheel docs clean

help:
	@echo "make setup      create .venv with everything tpsrl needs"
	@echo "make demo       record a video of each scenario and a small evaluation"
	@echo "make test       run the tests"
	@echo "make lint       ruff: style and format"
	@echo "make typecheck  mypy"
	@echo "make wheel      build and check sdist and wheel, and run the wheel in an empty folder"
	@echo "make docs       the site of docs/ in outputs/docs; a warning or a broken link is an error"
	@echo "make clean      remove .venv, caches and outputs/"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 with venv is needed;" \
	  "install it with: sudo apt-get install python3 python3-venv" >&2; exit 1; }
	@test -x $(BIN)/pip || "$(PYTHON)" -m venv $(VENV)
	@# torch first: an index that has a build for this machine then decides which one is used.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch>=2.6,<2.14"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	$(BIN)/tpsrl setup
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/tpsrl demo

# The page of tpsrl view is tested in a browser: Debian's, if it may be installed.
browser:
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
	  || { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	  --no-install-recommends chromium >/dev/null; } || true

test: $(STAMP) browser
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(STAMP)
	$(BIN)/mypy

wheel: $(STAMP)
	scripts/try_release.sh $(BIN)/python

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) outputs build .pytest_cache .mypy_cache .ruff_cache *.egg-info
