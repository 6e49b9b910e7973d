# `make run` and `make test` need python3 and nothing else: they make .venv and install what is pinned.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Groups of tests of about the same length; `make test` starts the next when one ends.
PAGE := tests/browser tests/cli
SERVICE := tests/service
LEARNING := tests/baselines tests/contract tests/evaluation tests/recognition

.PHONY: run test test-page test-service test-learning test-rest lint docs check-wheel bench clean lock install

run: install  ## the living system on the built-in letters: service and labeling page, embedded SQLite
	$(BIN)/openworld demo --output demo

test: install  ## every check and every test, side by side
	$(MAKE) -j3 lint test-page test-service test-learning test-rest

test-page: install
	$(BIN)/python -m pytest $(PAGE)

test-service: install
	$(BIN)/python -m pytest $(SERVICE)

test-learning: install
	$(BIN)/python -m pytest $(LEARNING)

test-rest: install
	$(BIN)/python -m pytest $(patsubst %,--ignore=%,$(PAGE) $(SERVICE) $(LEARNING))

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: install  ## the documentation site, in site/; broken links and failing tutorials are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# make check-wheel CHECK_WHEEL=--oldest tries the oldest dependencies that pyproject.toml allows.
check-wheel: install  ## build the wheel, install it alone with each extra in a new environment, try its commands
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python scripts/check_wheel.py dist $(CHECK_WHEEL)

bench: install  ## the short speed benchmarks; that on real data needs OPENWORLD_DATA
	$(BIN)/python -m benchmarks.speed

install: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(INSTALLED)

lock:  ## resolve the pinned versions again (needs `pip install uv`)
	uv pip compile pyproject.toml --group dev --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-header --upgrade -o requirements.lock

clean:
	rm -rf $(VENV) build dist demo report site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
