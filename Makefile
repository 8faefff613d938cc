# Every target sets up what it needs in .venv; the second time there is nothing to set up.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
VERSION = $(shell $(BIN)/polyarch --version | cut -d' ' -f2)
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export OMP_NUM_THREADS := 1
# Commands that tests start would compile the package again each time.
export PYTHONDONTWRITEBYTECODE :=

# What pip says that it would install, as requirements with the hashes of the very files.
HASHED := import json, sys; [print("{name}=={version}".format(**one["metadata"]), "--hash=sha256:" + one["download_info"]["archive_info"]["hashes"]["sha256"]) for one in json.load(sys.stdin)["install"] if "archive_info" in one["download_info"]]

.PHONY: demo test lint test-fast test-slow bench docs docs-release clean

demo: .venv/installed
	rm -rf runs/demo
	$(BIN)/polyarch search --data digits --out runs/demo

# Types are checked beside the tests: alone they would leave a core idle for a minute.
test: .venv/installed-dev
	$(MAKE) --jobs=2 lint test-fast

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-fast: .venv/installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow"

test-slow: .venv/installed-ray
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m slow

bench: .venv/installed-dev
	for script in supernet_step own_module_step elastic_step depth_step batched_heads replicas pruned_forward resident_epoch parallel_ranking strategy_step interchoice_overhead sotl_ranking table_load sotl_step unrolled_step mixed_forward unrolled_memory per_example_wiring per_example_operations ensemble_prefix gated_step extracted_forward parallel_candidates compiled_step ask_tell; do $(BIN)/python benchmarks/$$script.py || exit 1; done

docs: .venv/installed-docs
	$(BIN)/python docs/api/contents.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pages of this version beside those of earlier ones, on the branch gh-pages of this clone.
docs-release: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mike deploy --update-aliases $(VERSION) latest
	NO_MKDOCS_2_WARNING=1 $(BIN)/mike set-default latest

hashes.txt: pyproject.toml constraints.txt | .venv/pyvenv.cfg
	$(BIN)/pip install --quiet --dry-run --ignore-installed --report - '.[report,onnx,serve]' > hashes.json
	$(BIN)/python -c '$(HASHED)' < hashes.json > $@
	rm hashes.json

clean:
	rm -rf .venv hashes.txt runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/pyvenv.cfg:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "polyarch needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/pyvenv.cfg
	$(BIN)/pip install --quiet --editable '.[report,onnx]'
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt experiments/pyproject.toml | .venv/pyvenv.cfg
	$(BIN)/pip install --quiet --editable '.[dev,tensorboard,mlflow,report,onnx,serve,parquet,huggingface]' --editable experiments
	touch $@

.venv/installed-ray: .venv/installed-dev
	$(BIN)/pip install --quiet --editable '.[ray]'
	touch $@

.venv/installed-docs: .venv/installed
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@
