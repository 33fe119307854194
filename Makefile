# What you can do here. `make help` lists it.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE := 1

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo up test test-quick check format bench chaos chaos-webhooks reference docs audit lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## install everything into this folder (.venv, node_modules); skips what is done
	@$(PYTHON) scripts/setup.py

setup-dev:
	@$(PYTHON) scripts/setup.py --dev

demo: setup ## show it all with a simulated WhatsApp: no phone, proxy, Docker or Redis needed
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/demo.py

up: setup ## run the server for real (settings: env.example, .env)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/wa-orchestrator up

test: setup-dev ## run all checks and tests, as CI does
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/test.py

test-quick: setup-dev ## unit tests only, in seconds
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest tests/unit -q

check: setup-dev ## lint and types, Python and TypeScript
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm run check --silent

format: setup-dev ## format the code
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: setup-dev ## benchmarks; each prints its ratio to a baseline of the same run
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks

chaos: setup-dev ## every part killed with -9, and faults of disk, store, clock, network, Docker, while messages flow; prints ledgers
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/chaos.py

chaos-webhooks: setup-dev ## 10,000 messages in, a receiver that fails and is away, the server killed twice: is every event there?
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/webhook_test.py

reference: setup-dev ## make the generated reference pages and env.example anew
	@$(BIN)/python scripts/make_reference.py && $(BIN)/python scripts/make_env_example.py

docs: setup-dev ## build the documentation site into site/; a broken link stops it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --clean && echo "The site is in site/: open site/index.html"

audit: setup-dev ## known weaknesses in what we depend on; needs the internet
	@$(BIN)/python -m venv .setup/audit && .setup/audit/bin/pip install -q pip-audit
	@.setup/audit/bin/pip-audit --disable-pip --require-hashes -r requirements/base.txt
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm audit --omit=dev

lock: ## make the hashed requirements anew (needs uv)
	@for f in base dev node; do uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header requirements/$$f.in -o requirements/$$f.txt; done

clean: ## remove what set-up and tests made; never the data folder
	rm -rf .venv node_modules .setup worker/dist simulator/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis test-artifacts
