.PHONY: demo test fast dev bench clean

PYTHON ?= python3
BIN := .venv/bin

# The installed extras: `ui` for using it, `dev` for working on it.
.venv/.%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing rl_assets[$*] into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: .venv/.ui  ## train the quickstart experiment
	@$(BIN)/rl-assets train quickstart

dev: .venv/.ui  ## Dagster's web UI on the same state
	$(BIN)/rl-assets dev

fast: .venv/.dev  ## format, lint, types, layers, and the tests that take no processes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 -m 'not slow'

test: fast  ## everything
	$(BIN)/pytest -n 2 --dist loadgroup -m slow

bench: .venv/.dev  ## figures as JSON lines
	$(BIN)/python -m bench

clean:
	rm -rf .venv .rl_assets build dist *.egg-info
