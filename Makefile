# Every target does all of its own set-up in .venv; a fresh machine needs only Python 3.10+ and make.
PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test lint bench docs clean
.DEFAULT_GOAL := test

.venv/pip: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

.venv/demo: .venv/pip
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	@touch $@

.venv/test: .venv/pip
	$(BIN)/python -m pip install --quiet -e ".[test]"
	@touch $@ .venv/demo

.venv/peers: .venv/pip
	$(BIN)/python -m pip install --quiet -e ".[peers]"
	@touch $@ .venv/demo

demo: .venv/demo
	$(BIN)/torchtally bench

test: .venv/test
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/peers
	$(BIN)/python -m benchmarks

docs: .venv/test
	$(BIN)/python docs/make_pages.py

clean:
	rm -rf .venv
