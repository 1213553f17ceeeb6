# Every target does its own set-up: Python 3.11 or newer, make and a package registry are all it needs.
PYTHON ?= python3
VENV ?= .venv
GNN ?= .venv-gnn
JOBS ?= 1
ARGS ?=
DEMO ?= build/demo
# The benchmarks run the neural methods where `make test-gnn` has installed them.
BENCH = $(if $(wildcard $(GNN)/.ready),$(GNN),$(VENV))/bin/python
RUN := $(VENV)/bin/python
# Threads that wait by spinning slow each other down on a busy machine.
export OMP_WAIT_POLICY = PASSIVE

.PHONY: help setup demo report test fuzz test-gnn bench bench-quick bench-speed figures docs lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

$(VENV)/.ready: requirements.lock pyproject.toml hatch_build.py src/ebbflow/smoothing/_sweep.c
	$(PYTHON) -c 'import sys; sys.exit("ebbflow needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(VENV)/.ready  ## make .venv with everything pinned in requirements.lock

demo: $(VENV)/.ready  ## what the graph is worth on 25 357 house sales
	@mkdir -p $(DEMO)
	$(RUN) -m ebbflow demo --output $(DEMO)/houses.ebb
	@echo "make report opens a report on this model in a browser"

$(DEMO)/houses.ebb:
	$(MAKE) demo

report: $(DEMO)/houses.ebb  ## open a report on the demo's model in a browser
	$(RUN) -m ebbflow report $< --title "House prices in Lucas County" --open

test: $(VENV)/.ready  ## style, types, architecture, tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(RUN) -m pytest

fuzz: $(VENV)/.ready  ## fit what is drawn at random for a minute (ARGS="--seconds 900 --seed 7"): finite predictions or an error of ours
	$(RUN) tools/fuzz_fits.py $(ARGS)

bench: $(VENV)/.ready  ## the paper's tables and figures in benchmarks/results; EBBFLOW_DATA says where the data sets are
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
	$(GNN)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
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

lock:  ## pin the newest versions again
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group docs pyproject.toml -c requirements.lock -o requirements-docs.lock

clean:  ## remove what was made
	rm -rf $(VENV) $(GNN) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist docs/_build docs/_generated docs/api docs/gallery
