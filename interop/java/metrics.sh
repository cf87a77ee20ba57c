#!/usr/bin/env bash
# metrics.sh BOOTSTRAP OUT: writes which metrics the Java library has for the course-revenue topology (conformance/metrics.json).
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2p "$0"; exit 2; }
java -Xmx512m -Dorg.apache.logging.log4j.level=OFF -cp "$("$(dirname "$0")/classpath.sh" job)" MetricNames "$@"
