# Two commands to start with: `make demo` and `make test`. Both build .venv first.
PYTHON ?= python3
PYTHON311 ?= python3.11
PYTHON313 ?= python3.13
VENV := .venv
BIN := $(VENV)/bin
# Processes of tests: one a core, and two fill the cores of a small machine. Each has one half of the tests, so that a
# file's fixtures are made once, and who is done takes from what another has left.
TEST_JOBS ?= 2
PYTEST := -m pytest --numprocesses $(TEST_JOBS) --dist worksteal
export MPLBACKEND := Agg

.PHONY: help setup demo test test-slow test-oldest test-newest test-browser test-torch docs check lint style types \
  imports format build torture calibration reproduce bench clean

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

test: setup  ## the whole suite (four to eight minutes on two cores)
	$(BIN)/python $(PYTEST)

test-slow: setup  ## the long experiments
	$(BIN)/python -m pytest -m slow

test-oldest: $(VENV)-oldest/.installed  ## the suite on Python 3.11 with the oldest versions supported
	$(VENV)-oldest/bin/python $(PYTEST)

$(VENV)-oldest/.installed: pyproject.toml constraints/oldest.txt
	$(PYTHON311) -m venv --clear $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-oldest/bin/python -m pip install --quiet -e '.[test]' -c constraints/oldest.txt
	touch $@

test-newest:  ## the suite on Python 3.13 with the newest versions there are
	test -x $(VENV)-newest/bin/python || $(PYTHON313) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager -e '.[test]'
	$(VENV)-newest/bin/python $(PYTEST)

test-browser: setup  ## the report in a real browser (installs playwright, and Debian's chromium where there is none)
	$(BIN)/python -m pip install --quiet -e '.[browser]'
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" != 0 ]; then run=sudo; fi; $$run apt-get update -q && $$run apt-get install -y -q chromium; }
	NEEDS_BROWSER=1 $(BIN)/python -m pytest tests/test_report.py tests/test_report_page.py

# The version that is tested; users may have any that the extra `torch` allows.
test-torch: setup  ## the kernels on PyTorch tensors, on CUDA where there is a device (installs the CPU build)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	NEEDS_TORCH=1 $(BIN)/python -m pytest tests/test_torch.py tests/test_devices.py tests/test_cuda_kernels.py

docs: setup  ## the documentation, its tutorials run while it is built: out/docs/index.html
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -b html docs out/docs

check: lint style types imports  ## lint, style, types and imports; what pre-commit runs

lint: setup  ## ruff's rules
	$(BIN)/ruff check .

style: setup  ## the house style
	$(BIN)/ruff format --check .

types: setup  ## mypy
	$(BIN)/mypy

imports: setup  ## which room imports which
	$(BIN)/lint-imports

format: setup  ## rewrite files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

build: setup  ## the wheel and the source archive in dist/, checked; the wheel is tried by itself
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv --clear $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet dist/*.whl
	$(VENV)-wheel/bin/sshiba --version
	$(VENV)-wheel/bin/python .ci/try_wheel.py

torture: setup  ## attempts to break the library (at most 150 minutes on two cores, resumable): docs/trust.md
	$(BIN)/python -m torture $(TORTURE)

calibration: setup  ## promises checked by simulation (at most an hour on two cores, resumable): docs/trust.md
	$(BIN)/python -m calibration $(CALIBRATION)

reproduce: setup  ## the paper's experiments (hours, resumable); QUICK=--quick takes six minutes
	$(BIN)/sshiba reproduce $(QUICK)

bench: setup  ## all benchmarks, peers beside us (nine minutes); QUICK=--quick takes four
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python benchmarks/run.py $(QUICK)

clean:  ## remove environments, caches and what was built
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest $(VENV)-wheel
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache dist out
