# Every target does its own set-up: Python 3.11 or newer, make and a package registry are all it needs.
PYTHON ?= python3
VENV ?= .venv
GNN ?= .venv-gnn
JOBS ?= 1
ARGS ?=
DEMO ?= build/demo
# What tests the library: not the benchmarks, and not the pages, whose printed numbers are those of the lock.
LIBRARY = --ignore tests/benchmarks --ignore tests/project/test_docs.py --ignore tests/project/test_examples.py --ignore tests/project/test_readme.py
# The benchmarks run the neural methods where `make test-gnn` has installed them.
BENCH = $(if $(wildcard $(GNN)/.ready),$(GNN),$(VENV))/bin/python
RUN := $(VENV)/bin/python
# Threads that wait by spinning slow each other down on a busy machine.
export OMP_WAIT_POLICY = PASSIVE

.PHONY: help setup demo report test fuzz faults coverage mutate audit test-lowest test-newest test-gnn bench bench-quick bench-speed figures docs lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

$(VENV)/.ready: requirements.lock pyproject.toml hatch_build.py src/ebboost/_native/kernels.c
	$(PYTHON) -c 'import sys; sys.exit("ebboost needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(VENV)/.ready  ## make .venv with everything pinned in requirements.lock

demo: $(VENV)/.ready  ## what the graph is worth on 25 357 house sales
	@mkdir -p $(DEMO)
	$(RUN) -m ebboost demo --output $(DEMO)/houses.ebb
	@echo "make report opens a report on this model in a browser"

$(DEMO)/houses.ebb:
	$(MAKE) demo

report: $(DEMO)/houses.ebb  ## open a report on the demo's model in a browser
	$(RUN) -m ebboost report $< --title "House prices in Lucas County" --open

test: $(VENV)/.ready  ## style, types, architecture, tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(RUN) -m pytest

coverage: $(VENV)/.ready  ## the tests once more, with the share of lines and branches that they go through: 95 % or it fails
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest $(ARGS)
	$(RUN) -m coverage combine --quiet
	$(RUN) -m coverage report

$(VENV)/.mutants-ready: $(VENV)/.ready
	$(RUN) -m pip install --quiet --disable-pip-version-check cosmic-ray==8.7.0
	@touch $@

mutate: $(VENV)/.mutants-ready  ## break the code on purpose, see whether a test notices (ARGS="--mutants 400 --seed 2"): 85 % or it fails
	$(RUN) tools/mutate.py $(ARGS)

fuzz: $(VENV)/.ready  ## a minute each of fits drawn at random and of spoilt model files (ARGS="--seconds 900 --seed 7"): numbers or an error of ours
	$(RUN) tools/fuzz_fits.py $(ARGS)
	$(RUN) tools/fuzz_files.py $(ARGS)

faults: $(VENV)/.ready  ## disturb fits on purpose for a minute and compare what is resumed (ARGS="--minutes 10 --seed 7")
	$(RUN) tools/faults.py $(ARGS)

# A mirror that does not know of single releases lets pip-audit skip them in silence, hence the question first, and --strict.
KNOWN = from packaging.version import Version as V; from pip_audit._service import PyPIService as S, ResolvedDependency as D; \
	exit(S().query(D("pip", V("25.0")))[0].is_skipped())
audit:  ## ask the package index whether a version pinned here is known to be vulnerable
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.10'
	@.venv-audit/bin/python -c '$(KNOWN)' 2> /dev/null \
	  || { echo "Nothing was audited: what the package index knows of single releases cannot be reached from here."; exit 1; }
	.venv-audit/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r requirements.lock
	.venv-audit/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r requirements-docs.lock

.venv-lowest/.ready: requirements-lowest.lock pyproject.toml hatch_build.py src/ebboost/_native/kernels.c
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-lowest.lock
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Old libraries meet newer ones there, and warn of each other.
test-lowest: .venv-lowest/.ready  ## the tests with the oldest versions that pyproject.toml allows (ARGS="-x")
	.venv-lowest/bin/python -m pytest $(LIBRARY) -W ignore::DeprecationWarning -W "ignore:numpy.ufunc size:RuntimeWarning" \
	  -W "ignore:X does not have valid feature names:UserWarning" -W "ignore:Using fork:RuntimeWarning" $(ARGS)

test-newest:  ## the tests with the newest versions there are, whatever the lock says (ARGS="-x")
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade pip  # older ones know no dependency groups
	.venv-newest/bin/python -m pip install --quiet --upgrade --group dev -e .
	.venv-newest/bin/python -m pytest $(LIBRARY) $(ARGS)

bench: $(VENV)/.ready  ## the paper's tables and figures in benchmarks/results; EBBOOST_DATA says where the data sets are
	$(BENCH) -m benchmarks run --jobs $(JOBS) $(ARGS)
	$(BENCH) -m benchmarks run --jobs $(JOBS) --datasets county-rewired avazu-rewired house-rewired lucas-rewired --methods LightGBM EBBS
	$(BENCH) -m benchmarks report

bench-quick: $(VENV)/.ready  ## two data sets, two splits, one configuration each: minutes
	$(BENCH) -m benchmarks run --jobs $(JOBS) --datasets county avazu --splits 0 1 --configurations 1 --store build/bench-quick/runs.sqlite
	$(BENCH) -m benchmarks report --store build/bench-quick/runs.sqlite --out build/bench-quick

bench-speed: $(VENV)/.ready  ## time and memory of a fit against plain LightGBM and others, in benchmarks/results/speed: a quarter of an hour
	$(BENCH) -m benchmarks.speed $(ARGS)

$(GNN)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(GNN)
	$(GNN)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(GNN)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(GNN)/bin/python -m pip install --quiet --disable-pip-version-check torch_geometric
	$(GNN)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

test-gnn: $(GNN)/.ready  ## install torch in an environment of its own and test the neural methods; `make bench` then runs them too
	$(GNN)/bin/python -m pytest tests/benchmarks/test_networks.py

figures: $(VENV)/.ready  ## the guarantees and the ablation as pictures in benchmarks/figures (needs County, as bench does)
	$(RUN) benchmarks/figures.py

$(VENV)/.docs-ready: $(VENV)/.ready requirements-docs.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

docs: $(VENV)/.docs-ready  ## build the documentation into docs/_build/html, the gallery of examples with it
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

lock:  ## pin the newest versions again, and the oldest
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group docs pyproject.toml -c requirements.lock -o requirements-docs.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --resolution lowest-direct --group dev pyproject.toml -o requirements-lowest.lock

clean:  ## remove what was made
	rm -rf $(VENV) $(GNN) .venv-audit .venv-lowest .venv-newest .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist docs/_build docs/_generated docs/api docs/gallery
