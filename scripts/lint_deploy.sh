#!/usr/bin/env bash
# What is under deploy/, against the schemas and by the tools of those who will read it. Nothing is asked of the network once
# Debian's packages prometheus and systemd are here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh
scripts/prometheus.sh
command -v systemd-analyze > /dev/null || install_packages "no systemd-analyze here (it checks the unit)" systemd

BIN=.venv/bin
$BIN/yamllint --strict -c deploy/.yamllint deploy
$BIN/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
$BIN/kubernetes-validate --strict --quiet deploy/kubernetes/*.yaml
promtool check config deploy/prometheus/prometheus.yml
promtool test rules deploy/prometheus/alerts.test.yml

# the unit as it is, but for its program, which is not installed here
checked=$(mktemp -d)
trap 'rm -rf "$checked"' EXIT
sed 's|^ExecStart=\S*|ExecStart=/bin/true|' deploy/systemd/course-revenue.service > "$checked/course-revenue.service"
said=$(systemd-analyze verify --man=no "$checked/course-revenue.service" 2>&1 | grep course-revenue || true)
[ -z "$said" ] || die "the systemd unit: $said"
