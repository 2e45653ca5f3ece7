# Everything starts from a bare Python >= 3.11 and a C linker.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# In compat mode a script beside a checkout named "workbench" imports the package, and not that folder.
EDIT   := --config-settings editable_mode=compat --editable
OUT    ?= out

.PHONY: install demo test lint types check bench bench-search bench-models bench-fusion bench-warm bench-start clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; give one with: make PYTHON=python3.11"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(EDIT) .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) $(EDIT) '.[dev]'
	touch $@

demo: install
	$(BIN)/workbench run encoder --out $(OUT)/encoder --minutes 3 --trials-per-task 32

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

check: lint types test

# Every figure; the parts by themselves: bench-start, bench-search, bench-warm, bench-models, bench-fusion.
# bench-models and bench-fusion take hours on two cores when nothing is in the store: python -m benchmarks.models NAME...
# picks some, as does python -m benchmarks.fusion NAME...
bench: install
	$(BIN)/python -m benchmarks

bench-start:  part = start_up
bench-search: part = search_speed
bench-warm:   part = warm_store
bench-models: part = models
bench-fusion: part = fusion
bench-start bench-search bench-warm bench-models bench-fusion: install
	$(BIN)/python -m benchmarks.$(part)

clean:
	rm -rf $(VENV) build dist *.egg-info out
