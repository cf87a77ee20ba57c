#!/usr/bin/env bash
# classpath.sh job|golden: compiles that program where a source is newer than its classes, and prints the class path to run it with.
#
# Nothing is written beside the sources: classes and results go to $HEADRACE_JAVA_WORK (default: a folder in the user's cache).
# Kafka's jars come from where the local cluster has them ($HEADRACE_KAFKA_LIB, or its cache, filled by Maven when empty).
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
WORK="${HEADRACE_JAVA_WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace/java}"
PROGRAM=${1:?usage: classpath.sh job|golden}
PYTHON="$HERE/../../.venv/bin/python"
[ -x "$PYTHON" ] || { echo "no environment yet: run 'make setup' first" >&2; exit 1; }
command -v javac > /dev/null || { echo "no javac on PATH: install a JDK 17 or newer (Debian: apt-get install default-jdk-headless)" >&2; exit 1; }
LIB=$("$PYTHON" -m headrace.testing.cluster)
# another checkout may hold other sources: classes are kept by the sources' check sum
DONE="$WORK/$PROGRAM-$(cat "$HERE/$PROGRAM"/src/*.java | cksum | tr ' ' -)"
if [ ! -d "$DONE" ]; then
  mkdir -p "$WORK"
  NEW=$(mktemp -d "$WORK/.compiling-XXXXXX")
  trap 'rm -rf "$NEW"' EXIT
  javac -nowarn -Xlint:-options --release 17 -d "$NEW" -cp "$LIB/*" "$HERE/$PROGRAM"/src/*.java >&2
  mv -T "$NEW" "$DONE" 2> /dev/null || [ -d "$DONE" ]
fi
echo "$DONE:$LIB/*"
