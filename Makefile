# Everything runs in .venv, which the first target that needs it builds from requirements.lock.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PYTHONHASHSEED = 0
unexport PYTHONDONTWRITEBYTECODE  # else each of the hundreds of processes that the tests start compiles the package's source again

.PHONY: help demo site reproduce bench tables test thorough mutants lint types warm unit browser database clocks node dist release format lock clean
help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sparing needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(VENV)/ready  ## from a raw table to money: pay for a reward only where it repays itself; under a minute
	$(BIN)/sparing demo

reproduce: $(VENV)/ready  ## run the paper's experiments again, with a verdict on each claim (half an hour); rewrites docs/reproduction
	$(BIN)/python -m research reproduce --out docs/reproduction

bench: $(VENV)/ready  ## measure side by side with peers, NumPy and the machine's limit; rewrites docs/performance
	$(BIN)/python -m research bench --out docs/performance --page docs/performance.md

tables: $(VENV)/ready  ## measure the tables of the docs on models, methods and intervals again (an hour on two cores); rewrites them
	$(BIN)/python -m research tables

site: $(VENV)/ready  ## build the site into site/, from docs/ and the code, without the network
	$(BIN)/python -m research site --out site

test: lint  ## formatter, linter, import contract, types and all tests
	$(MAKE) --jobs=2 types warm
	$(MAKE) unit

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache

warm: $(VENV)/ready  # compiled once, on one core, while types are checked on the other
	$(BIN)/sparing warm-up >/dev/null

types: $(VENV)/ready
	$(BIN)/mypy

# Three workers for two cores, since many tests wait for processes of their own.
# One BLAS thread a worker: two workers with two each wait for one another. One set of BLAS kernels, so that recorded bits can be compared.
unit: $(VENV)/ready browser database clocks node
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell $(BIN)/pytest -n 3 --dist worksteal -q

thorough: $(VENV)/ready browser node  ## what takes minutes more: the package in an empty environment, every page of the site, 20 million rows, compiling anew, faults in the learners
	OPENBLAS_CORETYPE=Haswell $(BIN)/pytest -q -m thorough tests
	$(MAKE) mutants

mutants: $(VENV)/ready  ## put faults into the learners, one at a time: does a test notice each? some minutes
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell $(BIN)/python tests/mutants

browser:  # pages are tested in Debian's Chromium
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || { echo "the tests of pages need chromium: apt-get install chromium (as root)"; exit 1; }

database:  # stores are tested in Debian's PostgreSQL, each run in a server of its own
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } \
	  || { echo "the tests of stores need PostgreSQL 15 or newer: apt-get install postgresql (as root)"; exit 1; }

clocks:  # services are tested under clocks that jump; without libfaketime those faults are left out
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq --no-install-recommends libfaketime >/dev/null; } \
	  || echo "libfaketime is missing: no test of jumping clocks (apt-get install libfaketime, as root)"

node:  # the JavaScript client is tested in Debian's Node
	@command -v node >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs npm >/dev/null; } \
	  || { echo "the tests of the JavaScript client need Node 18 or newer: apt-get install nodejs npm (as root)"; exit 1; }

dist: $(VENV)/ready  ## build the source archive and the wheel into dist/, and check their metadata; nothing is uploaded
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*

release: $(VENV)/ready  ## give the newest section of the changelog its date and its version to every file that has one, then build; nothing is committed or uploaded
	$(BIN)/python -m research release
	$(MAKE) dist

format: $(VENV)/ready  ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# hatchling and editables build the package itself, which `make` installs without a look at any index.
lock:  ## resolve the newest versions anew into requirements.lock, every file of theirs with its hash; deploy/ has what the service needs of it
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	printf '%s\n' hatchling editables | .venv-lock/bin/uv pip compile --quiet --no-config --upgrade --universal --fork-strategy fewest \
	  --python-version 3.11 --extra dev --generate-hashes --no-annotate --no-header \
	  --output-file requirements.lock pyproject.toml -
	printf '%s\n' hatchling | .venv-lock/bin/uv pip compile --quiet --no-config --universal --fork-strategy fewest \
	  --python-version 3.11 --extra service --constraint requirements.lock --generate-hashes --no-annotate --no-header \
	  --output-file deploy/requirements.lock pyproject.toml -
	rm -rf .venv-lock

clean:  ## remove what the other targets made
	rm -rf $(VENV) .venv-lock dist site .site .mypy_cache .ruff_cache .pytest_cache sparing-demo sparing-bench sparing-reproduction
