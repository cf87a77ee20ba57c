#!/usr/bin/env bash
# lines.sh [SECONDS]: a case of the vocabulary on each line of standard input, what the Java library does with it on each line of the output; SECONDS (30) for a case.
set -euo pipefail
CP=$("$(dirname "$0")/../classpath.sh" golden)
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
java -Xmx768m -XX:+UseSerialGC -Dorg.apache.logging.log4j.level=OFF -cp "$CP" Lines "$TMP" "${1:-30}" 2> "$TMP/errors.log" || { tail -20 "$TMP/errors.log" >&2; exit 1; }
