# zorivest-rpc. A bare `make` lists the targets. Everything is installed into .venv in this clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# two stamps: `make run` waits for the first alone, every other target for both
RUNNABLE := $(VENV)/.runnable
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# test processes; each file stays in one of them
WORKERS ?= 3
# tests start hundreds of servers: without kept bytecode each would compile the whole package anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test tenancy check quick pythons conformance interop agents canary fuzz crash mutants soak isolation bench bench-peers golden docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# Only a whole install leaves its stamp, so an interrupted one is taken up again; a venv without pip is made anew.
$(RUNNABLE): pyproject.toml constraints.txt
	@echo "1. what running needs, into $(VENV): about 300 MB"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) -e '.[speed]'
	@touch $@

$(READY): $(RUNNABLE)
	@echo "2. what the tests and checks need besides (mypy, Node, Playwright, PostgreSQL), into $(VENV): about 590 MB"
	@$(INSTALL) -e '.[dev,speed]'
	@touch $@

setup: $(READY) ## install everything into .venv, for the tests and checks too

run: $(RUNNABLE) ## install what running needs, serve the demo journal on 127.0.0.1:8766, say what to do next
	@$(BIN)/zorivest-rpc serve --demo

check: $(READY) ## format, lint, types, and that the generated references are current
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python -m tests.docs

test: check ## check and every test, conformance and interop included
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

tenancy: $(READY) ## the tests of the server once more, in front of one with tenancy on
	@$(BIN)/python -m pytest --tenancy -n $(WORKERS) --dist loadfile

quick: $(READY) ## a share of every test file, in less than three minutes
	@$(BIN)/python -m pytest -n 2 --dist loadfile --quick

pythons: $(READY) ## the quick suite under every Python from 3.11 on that is here
	@$(BIN)/python -m tests.pythons

conformance: $(READY) ## the official suite against the fixture server and against the client
	@$(BIN)/python -m tests.conformance

interop: $(READY) ## the official clients against the installed command
	@$(BIN)/python -m pytest tests/interop

agents: $(READY) ## real agents from npm, driven by a scripted model; rewrites their transcripts
	@$(BIN)/python -m tests.interop.agents

canary: $(READY) ## what reaches below aiohttp's public interface, on the newest aiohttp there is
	@$(BIN)/python -m tests.canary

fuzz: $(READY) ## 100 000 hostile messages per transport, and the largest of every shape
	@for transport in memory stdio http sse; do $(BIN)/python -m tests.fuzz --count 100000 --transport $$transport || exit 1; done
	@$(BIN)/python -m tests.fuzz.largest

crash: $(READY) ## 300 kills of a writing backend; nothing acknowledged may be lost
	@$(BIN)/python -m tests.crash --kills 300

isolation: $(READY) ## 100 000 random steps along the wall between tenants; fails where one can be seen from another
	@$(BIN)/python -m tests.tenants.wall.walk 100000

soak: $(READY) ## 15 minutes of churn, vanished clients and kills; fails where something grows or slows
	@$(BIN)/python -m tests.soak

mutants: $(READY) ## change one operator at a time in critical modules; a test has to notice
	@$(BIN)/python -m tests.mutants

bench: $(READY) ## measure against the floors and write docs/benchmarks.md
	@$(BIN)/python -m tests.bench
	@$(BIN)/python -m tests.bench.product
	@$(BIN)/python -m tests.bench.exposure
	@$(BIN)/python -m tests.bench.devtools
	@$(BIN)/python -m tests.bench.gateway
	@$(BIN)/python -m tests.bench.tenants
	@$(BIN)/python -m tests.bench.scale
	@$(BIN)/python -m tests.bench.scale_imports
	@$(BIN)/python -m tests.bench.observed_page

bench-peers: $(READY) ## the same beside the official SDKs, installed for it
	@$(BIN)/python -m tests.bench.setup_peers
	@$(BIN)/python -m tests.bench --peers ts1-low,mcp2-low
	@$(BIN)/python -m tests.bench.product --peers ts1-low,mcp2-low

golden: $(READY) ## rewrite the golden files; the diff is the review
	@$(BIN)/python -m tests.mcp.protocol.transcripts --write
	@$(BIN)/python -m tests.golden.record --write

docs: $(READY) ## rewrite the generated references, with a real result of every tool
	@$(BIN)/python -m tests.docs.examples --write
	@$(BIN)/python -m tests.docs --write

clean: ## remove everything that was installed or generated
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist tests/bench/.env
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
