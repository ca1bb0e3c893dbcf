# `make demo` and `make test` each do all their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install demo app bench test test-slow test-hard test-interop test-browser screenshots docs docs-serve docs-links dist lint clean

help:
	@echo "make demo         explain two photos with the starter encoder; says where the pictures are"
	@echo "make test         lint, type-check and test"
	@echo "make test-slow    the long checks as well"
	@echo "make test-hard    an hour of bad calls, kills, damaged files, full disks and long streams (docs/evidence/reliability.md)"
	@echo "make test-interop targets in Captum, SHAP, shapiq, Quantus and pytorch-grad-cam; installs the last two"
	@echo "make bench        speed and accuracy of this machine, beside Captum, SHAP and shapiq (docs/evidence/performance.md)"
	@echo "make app          the web page, at http://127.0.0.1:7860"
	@echo "make test-browser the web page in a real browser; installs Chromium if there is none"
	@echo "make docs         the site, with the gallery executed; warnings are errors"
	@echo "make docs-serve   the site at http://127.0.0.1:8000"
	@echo "make dist         sdist and wheel, the wheel tried in fresh environments"
	@echo "make install      create $(VENV) with everything that demo and tests need"

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON="; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -c constraints.txt -e '.[starter,sound,app,fast,dev]'
	@# With their dependencies these would bring a torchvision that does not fit torch's CPU build; they are used without.
	$(BIN)/pip install -q --no-deps 'timm>=1.0' 'open_clip_torch>=2.24' ftfy wcwidth
	@# Of this one only the weights are used, not the chain of packages that it asks for.
	$(BIN)/pip install -q --no-deps resemblyzer==0.1.4
	@touch $@

install: $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/cocoax demo

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# One process for each core; tests of one file stay together, since they share what they load.
test: lint
	$(BIN)/pytest -n auto --dist loadfile

test-slow: lint
	$(BIN)/pytest -n auto --dist loadfile -m 'not browser and not interop'

# With their dependencies these would bring a torchvision that does not fit torch's CPU build, and OpenCV's windows.
$(VENV)/.interop: $(INSTALLED)
	$(BIN)/pip install -q --no-deps 'quantus>=0.6' cachetools 'grad-cam>=1.5.7' ttach opencv-python-headless
	@touch $@

test-interop: $(VENV)/.interop
	$(BIN)/pytest -m 'not browser' tests/test_interop.py

# The campaigns of docs/evidence/reliability.md; each prints its table and ends with an error if something did not hold.
test-hard: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz.py --calls 10000
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzz_commands --calls 1000
	for campaign in files trouble kill long; do OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.campaigns.$$campaign || exit 1; done
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.page_load --minutes 10

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.bench

app: $(INSTALLED)
	$(BIN)/cocoax app

# Debian's Chromium serves Playwright well, so that Playwright need not download one of its own. axe-core looks for what
# people with keyboards and screen readers would stumble over.
$(VENV)/.browser: $(INSTALLED)
	$(BIN)/pip install -q -c constraints.txt -e '.[browser]'
	@command -v chromium chromium-browser >/dev/null || test -n "$$CHROMIUM" || { \
	  sudo=$$(test "$$(id -u)" = 0 || echo sudo); $$sudo apt-get update -q && $$sudo apt-get install -y -q chromium; }
	@command -v npm >/dev/null || { \
	  sudo=$$(test "$$(id -u)" = 0 || echo sudo); $$sudo apt-get update -q && $$sudo apt-get install -y -q npm; }
	npm install --silent --no-fund --no-audit --prefix $(VENV)/axe axe-core@4
	@touch $@

test-browser: $(VENV)/.browser
	$(BIN)/pytest -m browser tests/browser

screenshots: $(VENV)/.browser
	$(BIN)/python -m tests.browser.screenshots docs/images

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -b html -W --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

# Links to other sites; needs a network.
docs-links: $(VENV)/.docs
	$(BIN)/python -m sphinx -b linkcheck -D sphinx_gallery_conf.plot_gallery=0 docs docs/_build/links

dist: $(INSTALLED)
	$(BIN)/pip install -q -c constraints.txt -e '.[dist]'
	$(BIN)/python deploy/check_dist.py

clean:
	rm -rf docs/_build docs/gallery docs/reference/generated docs/reference/cli.md dist $(VENV) demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
