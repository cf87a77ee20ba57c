#!/usr/bin/env bash
# Makes sure of Chromium: what the tests of the dashboard look at its page with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

have() { command -v chromium > /dev/null || command -v chromium-browser > /dev/null; }

have || install_packages "no Chromium here (the tests of the dashboard use it)" chromium chromium-browser
have || die "a package of Chromium was installed, but there is no chromium on PATH."
