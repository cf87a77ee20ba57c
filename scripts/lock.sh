#!/usr/bin/env bash
# Writes requirements.lock: exact versions and hashes, for every platform and Python from 3.11 on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TOOLS=$(mktemp -d)
trap 'rm -rf "$TOOLS"' EXIT
"${PYTHON:-python3}" -m venv "$TOOLS"
"$TOOLS/bin/python" -m pip --disable-pip-version-check --quiet install uv
compile=("$TOOLS/bin/uv" pip compile --quiet --universal --generate-hashes --python-version 3.11
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock")
"${compile[@]}" --extra cli --extra dev "$@" pyproject.toml --output-file requirements.lock
# what the application's image has: no tools, and the same versions
cat > "$TOOLS/application.in" << EOF
headrace[avro,cli,metrics] @ file://$PWD
course-revenue[dashboard,lake,postgres] @ file://$PWD/apps/course_revenue
setuptools
EOF
"${compile[@]}" --no-emit-package headrace --no-emit-package course-revenue --no-annotate --constraint requirements.lock \
  "$TOOLS/application.in" --output-file deploy/requirements.lock
