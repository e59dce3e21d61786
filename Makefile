# make run | test | check | bench | load | conformance. Each sets up what it needs: load in .venv-load, the others in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
ARGS   ?=
STAMP   = $(VENV)/.installed

# What loads, with locust: apart, because gevent is for nothing else here.
LOAD   ?= .venv-load

PLATFORMS ?= linux/amd64,linux/arm64

.PHONY: run test check fix bench load conformance image images lock proto clean

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

load: $(LOAD)/.installed
	@$(LOAD)/bin/python -m bench load $(ARGS)

conformance: $(STAMP)
	@$(BIN)/python -m tests.conformance $(ARGS)

# The image of this machine's platform.
image:
	@tools="$${IMAGE_TOOL:-docker build -t bmcsim .}"; sh -c "$$tools"

# The image for several platforms, pushed: buildx keeps such an image in a registry only. REPOSITORY=registry/name
images:
	docker buildx build --platform $(PLATFORMS) --build-arg REVISION="$$(git rev-parse HEAD)" -t $(REPOSITORY) --push .

# uv is used where it is there; pip otherwise. The directory of the target is the environment, the lock its first
# prerequisite.
$(STAMP): requirements-dev.lock pyproject.toml
$(LOAD)/.installed: requirements-bench.lock pyproject.toml
$(STAMP) $(LOAD)/.installed:
	@test -x $(@D)/bin/python || { command -v uv >/dev/null && uv venv -q --python $(PYTHON) $(@D); } || $(PYTHON) -m venv $(@D) || \
	  { echo "make: cannot create $(@D); on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@if command -v uv >/dev/null; then \
	  uv pip install -q --python $(@D)/bin/python --require-hashes -r $< && \
	  uv pip install -q --python $(@D)/bin/python --no-deps -e .; \
	else \
	  $(@D)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $< && \
	  $(@D)/bin/python -m pip install -q --disable-pip-version-check --no-deps -e .; \
	fi
	@touch $@

lock:
	uv pip compile -q --no-header --generate-hashes --no-emit-index-url --python-version 3.11 --universal --all-extras pyproject.toml -o requirements.lock
	uv pip compile -q --no-header --generate-hashes --no-emit-index-url --python-version 3.11 --universal --all-extras --group dev pyproject.toml -o requirements-dev.lock
	uv pip compile -q --no-header --generate-hashes --no-emit-index-url --python-version 3.11 --universal --group bench pyproject.toml -o requirements-bench.lock

# The messages of NICo's API, from their .proto files.
proto: $(STAMP)
	$(BIN)/python -m tests.protos

clean:
	rm -rf $(VENV) $(LOAD) build dist bench-out conformance-out .mypy_cache .pytest_cache .ruff_cache .hypothesis
