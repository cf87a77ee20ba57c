#!/usr/bin/env bash
# vectors.sh OUT DIR: writes OUT/vectors.json (hashes, serdes, formats, store layouts, config defaults) from the Java library; DIR holds cases/.
set -euo pipefail
[ $# = 2 ] || { sed -n 2p "$0"; exit 2; }
CP=$("$(dirname "$0")/../classpath.sh" golden)
mkdir -p "$1"
OUT=$(cd "$1" && pwd)
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
cd "$2"
java -Dorg.apache.logging.log4j.level=OFF -cp "$CP" Vectors "$OUT" "$TMP" 2> "$TMP/errors.log" || { tail -20 "$TMP/errors.log" >&2; exit 1; }
