#!/usr/bin/env bash
# run.sh CASES OUT [TEXT]: runs every case below CASES (or those whose name contains TEXT) through the Java library, results below OUT.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2p "$0"; exit 2; }
CP=$("$(dirname "$0")/../classpath.sh" golden)
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
mkdir -p "$2"
java -Xmx768m -Dorg.apache.logging.log4j.level=OFF -cp "$CP" Golden "$1" "$2" "$TMP" "${@:3}" 2> "$TMP/errors.log" || { tail -20 "$TMP/errors.log" >&2; exit 1; }
