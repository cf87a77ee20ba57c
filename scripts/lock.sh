#!/usr/bin/env bash
# Writes requirements.lock: exact versions and hashes, for every platform and Python from 3.11 on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TOOLS=$(mktemp -d)
trap 'rm -rf "$TOOLS"' EXIT
"${PYTHON:-python3}" -m venv "$TOOLS"
"$TOOLS/bin/python" -m pip --disable-pip-version-check --quiet install uv
"$TOOLS/bin/uv" pip compile --quiet --universal --generate-hashes --python-version 3.11 --extra cli --extra dev \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@" pyproject.toml --output-file requirements.lock
