# Two commands to start with: `make demo` and `make test`. Both build .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MPLBACKEND := Agg

.PHONY: help setup demo test test-slow test-browser test-torch docs check format reproduce bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(VENV)/.installed  ## build .venv with the library and its test tools

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

demo: setup  ## fit digits as four views with holes; shows a table, writes a picture
	$(BIN)/sshiba demo

test: setup  ## the whole test suite (under eight minutes on two cores)
	$(BIN)/python -m pytest

test-slow: setup  ## the long experiments
	$(BIN)/python -m pytest -m slow

test-browser: setup  ## the report in a real browser (installs playwright, and Debian's chromium where there is none)
	$(BIN)/python -m pip install --quiet -e '.[browser]'
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" != 0 ]; then run=sudo; fi; $$run apt-get update -q && $$run apt-get install -y -q chromium; }
	NEEDS_BROWSER=1 $(BIN)/python -m pytest tests/test_report.py

# The version that is tested; users may have any that the extra `torch` allows. The CPU build is a tenth of the other.
test-torch: setup  ## the kernels on PyTorch tensors (installs the CPU build)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	NEEDS_TORCH=1 $(BIN)/python -m pytest tests/test_torch.py

docs: setup  ## the documentation, its tutorials run while it is built: out/docs/index.html
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -b html docs out/docs

check: setup  ## lint, format, types, and which room imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## rewrite files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reproduce: setup  ## the paper's experiments (hours, resumable); QUICK=--quick takes six minutes
	$(BIN)/sshiba reproduce $(QUICK)

bench: setup  ## all benchmarks, peers beside us (twenty minutes); QUICK=--quick takes four
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python benchmarks/run.py $(QUICK)

clean:  ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis out
