#!/usr/bin/env bash
# Makes sure of Chromium: what the tests of the dashboard look at its page with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

have() { command -v chromium > /dev/null || command -v chromium-browser > /dev/null; }

have || install_packages "no Chromium here (the tests of the dashboard use it)" chromium chromium-browser
have || die "a package of Chromium was installed, but there is no chromium on PATH."
# without a font, pictures of the page show boxes
ls /usr/share/fonts/truetype/*/*.ttf > /dev/null 2>&1 || install_packages "no fonts here (pictures of the dashboard need one)" fonts-dejavu-core fonts-liberation
