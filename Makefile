# `make demo` and `make test` each do all their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install demo test test-slow lint clean

help:
	@echo "make demo       explain two photos with the starter encoder; says where the pictures are"
	@echo "make test       lint, type-check and test"
	@echo "make test-slow  the long checks as well"
	@echo "make install    create $(VENV) with everything that demo and tests need"

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON="; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -c constraints.txt -e '.[starter,dev]'
	@# With their dependencies these would bring a torchvision that does not fit torch's CPU build; they are used without.
	$(BIN)/pip install -q --no-deps 'timm>=1.0' 'open_clip_torch>=2.24' ftfy wcwidth
	@touch $@

install: $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/cocoax demo

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest

test-slow: lint
	$(BIN)/pytest -m 'slow or not slow'

clean:
	rm -rf $(VENV) demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
