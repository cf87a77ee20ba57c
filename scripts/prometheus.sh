#!/usr/bin/env bash
# Makes sure of Prometheus, which a test lets read our metrics, and of promtool, which checks its files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

have_prometheus() { command -v prometheus > /dev/null && command -v promtool > /dev/null; }

have_prometheus || install_packages "no Prometheus here (it reads our metrics in a test, and checks its own files)" prometheus
