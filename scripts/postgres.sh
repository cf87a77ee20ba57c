#!/usr/bin/env bash
# Makes sure of PostgreSQL's programs, which the tests of the reconciliation start a server with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

have_postgres() { command -v initdb > /dev/null || ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1; }

if ! have_postgres; then
  # no server of the package's own is wanted: the tests start theirs
  install_packages "no PostgreSQL here (the tests start one)" postgresql
  have_postgres || die "PostgreSQL was installed, but initdb is not in /usr/lib/postgresql/*/bin: put its directory on PATH."
fi
