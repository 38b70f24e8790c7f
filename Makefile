# nvfp4-moe: every target works from a bare clone. The first call makes a virtual environment in .venv and
# installs the pinned versions of constraints.txt; later calls find it done, until one of the two files that
# define it changes.
#
#   make verify                           prove, exhaust and fuzz the padding bound; replay recorded routings
#   make test                             the test suite
#
# Variables (give them on the command line):
#   PYTHON=python3.12                     interpreter that the environment is made from (3.11 or newer)
#   VENV=DIR                              where the environment is
#   VENV=none                             no environment, nothing installed: run PYTHON as it is (for a machine
#                                         that already has the packages, such as a GPU node with its own torch)
#   CONSTRAINTS=FILE                      other pins, for example another torch
#   LEVEL=2  TRACES=FILES  VERIFY_ARGS=.. what `make verify` is told
#   TESTS=PATH  PYTEST_ARGS=..            what `make test` is told
#   TARGETS="100a 120a"                   what `make blackwell` compiles (all without)

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
EXTRAS ?= proofs,plots,cuda,weights,test,dev

LEVEL ?= 1
TRACES ?= $(wildcard examples/router_traces/*.npz)
VERIFY_ARGS ?=
TESTS ?=
PYTEST_ARGS ?=
TARGETS ?=

ifeq ($(VENV),none)
  ENVIRONMENT :=
  RUN := PYTHONPATH=src $(PYTHON)
else
  ENVIRONMENT := $(VENV)/.installed
  RUN := $(VENV)/bin/python
  # ninja, ruff and the like are found beside the interpreter, also by programs that look on PATH
  export PATH := $(abspath $(VENV))/bin:$(PATH)
endif

.DEFAULT_GOAL := help
.PHONY: help install verify mutants test test-gpu blackwell lint format typecheck bench wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(ENVIRONMENT) ## make the virtual environment and install what the other targets need

# torch goes first and alone, so that no later requirement can pull in another build of it (gigabytes).
# setuptools comes with it: the editable install then needs no build environment of its own.
$(VENV)/.installed: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is %d.%d; say make PYTHON=python3.12" % v)'
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) torch setuptools
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

verify: $(ENVIRONMENT) ## check every claim at level 1 and replay the recorded routings (LEVEL=2 for minutes)
	$(RUN) -m nvfp4_moe.cli.main verify --level $(LEVEL) $(addprefix --trace ,$(TRACES)) $(VERIFY_ARGS)

mutants: $(ENVIRONMENT) ## show that every known-wrong variant is refuted and right code passes
	$(RUN) -m nvfp4_moe.cli.main mutants

test: $(ENVIRONMENT) ## run the test suite
	$(RUN) -m pytest $(TESTS) $(PYTEST_ARGS)

test-gpu: $(ENVIRONMENT) ## on a machine with a GPU: device tests, conformance of the kernels, sanitizer, times
	RUN="$(RUN)" LEVEL=$(LEVEL) bash .ci/run-gpu

# CUTLASS's headers and the disassembler, and nvcc too where it is not on PATH, go into a folder of their own: the package
# of the headers asks for much that is not needed for them.
BLACKWELL := build/blackwell
blackwell: $(ENVIRONMENT) ## compile Blackwell's grouped GEMM and look for its instruction (a minute and 6 GB a target)
	@mkdir -p $(BLACKWELL)
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(BLACKWELL) \
	    nvidia-cutlass==4.2.0.0 nvidia-cuda-nvdisasm==13.2.86 $(if $(shell command -v nvcc),,$(TOOLKIT))
	PYTHONPATH=src:$(BLACKWELL) $(if $(shell command -v nvcc),,CUDA_HOME=$(BLACKWELL)/nvidia/cu13) \
	    $(filter-out PYTHONPATH=src,$(RUN)) tools/check_blackwell.py $(TARGETS)
TOOLKIT := nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
    nvidia-cuda-cccl==13.0.85

lint: $(ENVIRONMENT) ## formatting, lint, spelling, import layers
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m codespell_lib
	$(RUN) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-logo

format: $(ENVIRONMENT) ## rewrite the sources as the linter wants them
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

typecheck: $(ENVIRONMENT) ## mypy --strict on the package
	$(RUN) -m mypy

bench: $(ENVIRONMENT) ## measure the golden quantizers and the fuzz on this machine (records in build/)
	@mkdir -p build
	$(RUN) -m nvfp4_moe.verification.bench.quantize --json build/bench-quantize.json
	$(RUN) -m nvfp4_moe.verification.bench.fuzz --json build/bench-fuzz.json

wheel: $(ENVIRONMENT) ## build the source archive and from it the wheel, and check what is in them
	rm -rf dist build/lib build/bdist.*
	$(RUN) -m build --quiet --no-isolation --outdir dist .
	$(RUN) tools/check_wheel.py dist/*.whl
	$(RUN) -m check_wheel_contents dist/*.whl

clean: ## remove everything that the other targets made
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache nvfp4-moe-out
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
ifneq ($(VENV),none)
	rm -rf $(VENV)
endif
