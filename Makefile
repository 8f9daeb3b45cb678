.PHONY: setup demo test fast dev bench clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: setup  ## train the quickstart experiment
	$(BIN)/rl-assets train quickstart

dev: setup  ## Dagster's web UI on the same state
	$(BIN)/rl-assets dev

fast: setup  ## format, lint, types, layers, and the tests that take no processes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 -m 'not slow'

test: fast  ## everything
	$(BIN)/pytest -n 2 -m slow

bench: setup  ## figures as JSON lines
	$(BIN)/python -m bench

clean:
	rm -rf .venv .rl_assets build dist *.egg-info
