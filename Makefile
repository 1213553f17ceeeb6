# Every target sets up its own environment: it needs Python 3.11 or newer, make and a package registry.
PYTHON ?= python3
VENV ?= .venv
DEMO_VENV ?= .venv-demo
ARGS ?=
DEMO ?= build/demo
RUN := $(VENV)/bin/python
RUN_DEMO := $(DEMO_VENV)/bin/python
PIP = -m pip install --quiet --disable-pip-version-check
SOURCES = pyproject.toml hatch_build.py src/ebboost/_native/kernel.c
# The tests of the library alone, without benchmarks and pages: the numbers printed on pages are those of the lock.
LIBRARY = --ignore tests/benchmarks --ignore tests/project
# Threads that wait by spinning slow each other down on a busy machine.
export OMP_WAIT_POLICY = PASSIVE

.PHONY: help setup demo report test coverage fuzz test-lowest test-newest bench bench-quick bench-default docs wheels lock clean

help:  ## show this list
	@grep -hE '^[a-z0-9.%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

$(VENV)/.ready: requirements.lock $(SOURCES)
	$(PYTHON) -c 'import sys; sys.exit("ebboost needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(RUN) $(PIP) --require-hashes -r requirements.lock
	$(RUN) $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

setup: $(VENV)/.ready  ## create .venv with the development tools pinned in requirements.lock

# The demo needs the library and its command line only; --no-compile leaves bytecode to the modules that are imported. A pip that
# can install for another interpreter (23 or newer) spares installing pip into the environment, which takes longer than pandas.
HOST_PIP := $(shell $(PYTHON) -c 'import pip; print("yes" * (int(pip.__version__.split(".")[0]) > 22))' 2> /dev/null)
PIP_DEMO = $(if $(HOST_PIP),$(PYTHON) -m pip --python $(DEMO_VENV),$(RUN_DEMO) -m pip) $(wordlist 3,99,$(PIP)) --no-compile
$(DEMO_VENV)/.ready: requirements-demo.lock $(SOURCES)
	$(PYTHON) -c 'import sys; sys.exit("ebboost needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(if $(HOST_PIP),--without-pip) $(DEMO_VENV)
	$(PIP_DEMO) --require-hashes -r requirements-demo.lock
	$(PIP_DEMO) --no-deps --no-build-isolation -e .
	@touch $@

demo: $(DEMO_VENV)/.ready  ## compare LightGBM, LightGBM with neighbour columns and ebboost on 25 357 house sales
	@mkdir -p $(DEMO)
	$(RUN_DEMO) -m ebboost demo --output $(DEMO)/houses.ebb

report: demo  ## open the HTML report of the demo's model
	$(RUN_DEMO) -m ebboost report $(DEMO)/houses.ebb --title "House prices in Lucas County" --open

test: $(VENV)/.ready  ## style, types, import layers, tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 LOKY_MAX_CPU_COUNT=1 $(RUN) -m pytest -n 2 --dist worksteal $(ARGS)

coverage: $(VENV)/.ready  ## the tests with line and branch coverage; fails below 95 %
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest $(ARGS)
	$(RUN) -m coverage combine --quiet
	$(RUN) -m coverage report

fuzz: $(VENV)/.ready  ## a minute each of random fits and of changed model files (ARGS="--seconds 900 --seed 7")
	$(RUN) tools/fuzz_fits.py $(ARGS)
	EBBOOST_FUZZ=2000 $(RUN) -m pytest tests/files -k "changed or damaged or hostile"

test-lowest:  ## the tests with the oldest allowed versions (ARGS="-x"); needs uv
	uv venv --quiet --clear --python 3.11 .venv-lowest
	uv pip install --quiet --python .venv-lowest --resolution lowest-direct --group dev -e .
	.venv-lowest/bin/python -m pytest $(LIBRARY) -o filterwarnings=default $(ARGS)

test-newest:  ## the tests with the newest versions of everything, Python too (INTERPRETER=3.14, ARGS="-x"); needs uv
	uv venv --quiet --clear --python $(or $(INTERPRETER),3.14) .venv-newest
	uv pip install --quiet --python .venv-newest --group dev -e .
	.venv-newest/bin/python -m pytest $(LIBRARY) $(ARGS)

bench: $(VENV)/.ready  ## ours and rivals on all public tables, into benchmarks/results; EBBOOST_DATA names the folder of data sets
	$(RUN) -m benchmarks run $(ARGS)
	$(RUN) -m benchmarks report

bench-quick: $(VENV)/.ready  ## the same on one split each of small tables: some minutes
	$(RUN) -m benchmarks run --quick $(ARGS)

bench-default: $(VENV)/.ready  ## the default against the stored table of version 0.2.0: an hour (ARGS="--groups county lucas")
	$(RUN) -m benchmarks.default $(ARGS)

$(VENV)/.docs-ready: $(VENV)/.ready requirements-docs.lock
	$(RUN) $(PIP) --require-hashes -r requirements-docs.lock
	@touch $@

docs: $(VENV)/.docs-ready  ## build the documentation into docs/_build/html
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

TARGETS = $(shell $(RUN) -c 'import hatch_build; print(*hatch_build.TARGETS)')
wheels: $(VENV)/.ready  ## an sdist, wheels for Linux, macOS and Windows and a pure one, in dist
	for target in $(TARGETS); do EBBOOST_TARGET=$$target $(RUN) -m hatchling build -t wheel || exit 1; done
	$(RUN) -m hatchling build -t sdist

lock:  ## write the lock files anew; needs uv
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group docs pyproject.toml -c requirements.lock -o requirements-docs.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group demo pyproject.toml -c requirements.lock -o requirements-demo.lock

clean:  ## remove environments and build products
	rm -rf $(VENV) $(DEMO_VENV) .venv-lowest .venv-newest .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist docs/_build docs/_generated docs/api
