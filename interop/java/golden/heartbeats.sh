#!/usr/bin/env bash
# heartbeats.sh CASES OUT: what the Java library tells the brokers of each topology that has topics to agree in partitions, as packed lines.
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2p "$0"; exit 2; }
CP=$("$(dirname "$0")/../classpath.sh" golden)
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
java -Xmx512m -Dorg.apache.logging.log4j.level=OFF -cp "$CP" Wire "$1" "$TMP/lines" "$TMP" 2> "$TMP/errors.log" || { tail -20 "$TMP/errors.log" >&2; exit 1; }
xz -9 -c "$TMP/lines" > "$2"
