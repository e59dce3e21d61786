# make run | test | check | bench | conformance. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
ARGS   ?=
STAMP   = $(VENV)/.installed

.PHONY: run test check fix bench conformance image lock clean

run: $(STAMP)
	@$(BIN)/bmcsim serve $(ARGS)

# Unit tests in parallel, then those that run whole programs one after the other.
test: $(STAMP)
ifdef ARGS
	@$(BIN)/python -m pytest $(ARGS)
else
	@$(BIN)/python -m pytest -n auto tests/unit tests/reports
	@$(BIN)/python -m pytest tests --ignore=tests/unit --ignore=tests/reports
endif

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/bmcsim profile check

fix: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	@$(BIN)/python -m bench $(ARGS)

conformance: $(STAMP)
	@$(BIN)/python -m tests.conformance $(ARGS)

image:
	@tools="$${IMAGE_TOOL:-docker build -t bmcsim .}"; sh -c "$$tools"

# uv is used where it is there; pip otherwise.
$(STAMP): requirements-dev.lock pyproject.toml
	@test -x $(BIN)/python || { command -v uv >/dev/null && uv venv -q --python $(PYTHON) $(VENV); } || $(PYTHON) -m venv $(VENV) || \
	  { echo "make: cannot create $(VENV); on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@if command -v uv >/dev/null; then \
	  uv pip install -q --python $(BIN)/python --require-hashes -r requirements-dev.lock && \
	  uv pip install -q --python $(BIN)/python --no-deps -e .; \
	else \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock && \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .; \
	fi
	@touch $@

lock:
	uv pip compile -q --no-header --generate-hashes --no-emit-index-url --python-version 3.11 --universal pyproject.toml -o requirements.lock
	uv pip compile -q --no-header --generate-hashes --no-emit-index-url --python-version 3.11 --universal --group dev pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV) build dist bench-out conformance-out .mypy_cache .pytest_cache .ruff_cache .hypothesis
