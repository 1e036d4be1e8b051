#!/usr/bin/env bash
# Runs inside the new environment: the project, at the exact versions that pyproject.toml pins.
set -euo pipefail
python -m pip install uv
uv export --quiet --no-hashes --no-emit-project --no-header | uv pip install --requirement -
uv pip install --no-deps --editable .
