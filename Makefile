# Two commands on a machine with Python 3.11 and pip: `make demo` and `make test`. The rest are their parts.
#
#   PYTHON   the interpreter that makes the environment     make PYTHON=python3.12 test
#   EXTRAS   the extras to install (gpu in place of cpu)    make EXTRAS=gpu,test demo

PYTHON ?= python3
EXTRAS ?= cpu,test

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
# The stamps live inside the environment, so that removing it removes them.
MADE := $(VENV)/.made
comma := ,
INSTALLED := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
# Client libraries that cannot be installed beside the host have an environment of their own.
CLIENTS := $(VENV)/clients
CLIENT_LIBRARIES := instructor>=1.17,<2
CLIENTS_INSTALLED := $(CLIENTS)/.installed

# Models come from the embedded ones or from folders: nothing is fetched or reported while demo and tests run.
RUN_ENV := HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=$(or $(VLLM_CPU_KVCACHE_SPACE),1) VLLM_NO_USAGE_STATS=1
PYTEST := $(RUN_ENV) $(BIN)/python -m pytest
SPREAD := --numprocesses $(or $(WORKERS),2) --dist
# Several engines run beside each other in the tests: each computes on one core, and none is bound to another's.
ONE_CORE := OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test setup clients models lint unit engine coverage docs format clean

help: ## show these lines
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: setup models ## set up, then run the first light demo on the embedded model
	@echo "==> demo"
	@$(RUN_ENV) $(BIN)/python examples/first_light.py

test: setup models clients lint unit engine coverage ## set up, then lints, unit, engine and server tests

setup: $(INSTALLED) ## make .venv and install the project into it

clients: $(CLIENTS_INSTALLED) ## make the environment of client libraries that the tests drive

models: setup ## make the embedded models (kept in a cache folder)
	@echo "==> embedded models"
	@$(BIN)/ninfer model all

lint: setup ## ruff, mypy and the import contracts
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> mypy (the first run reads the host's types: about a minute)"
	@$(BIN)/mypy
	@echo "==> import contracts"
	@$(BIN)/lint-imports --no-logo

unit: setup ## the tests that start no engine
	@echo "==> unit tests"
	@$(PYTEST) $(SPREAD) loadfile -m "not engine and not server"
	@echo "==> kernels in Triton's interpreter"
	@TRITON_INTERPRET=1 $(PYTEST) $(SPREAD) worksteal tests/ninfer_kernels

engine: setup models clients ## the tests on the real engine and the real server
	@echo "==> engine and server tests"
	@$(ONE_CORE) $(PYTEST) $(SPREAD) loadfile --durations 15 -m "engine or server"

coverage: setup ## the contract clauses that no test names
	@echo "==> contract coverage"
	@$(BIN)/python tests/contract_coverage.py

docs: setup ## build the documentation site in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

format: setup ## let ruff lay out the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## remove the environment, the caches and the build results
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@echo "==> [1/2] environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade pip
	@touch $@

# torchvision, torchaudio and torchcodec come with the host but do not import beside its CPU build of torch,
# and a text model needs none of them.
$(INSTALLED): $(MADE) pyproject.toml
	@echo "==> [2/2] ninfer-vllm[$(EXTRAS)] and its dependencies (two to four minutes)"
	@$(PIP) install -e '.[$(EXTRAS)]'
	@$(PIP) uninstall -y torchvision torchaudio torchcodec
	@touch $@

# instructor needs older releases of rich and jiter than the host does.
$(CLIENTS_INSTALLED): $(MADE) Makefile
	@echo "==> client libraries in $(CLIENTS) (half a minute)"
	@$(PYTHON) -m venv --clear $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip --disable-pip-version-check --no-input -qq install '$(CLIENT_LIBRARIES)'
	@touch $@
