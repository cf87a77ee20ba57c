#!/usr/bin/env bash
# Makes sure of Java 17 or newer and Maven: what the local Kafka broker needs. With --jdk also of javac, which the Java
# reference programs need (benchmarks, peer tests).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

# The feature number (17, 21, …) of a java or javac on PATH, 0 when there is none.
feature() {
  command -v "$1" > /dev/null || { echo 0; return; }
  "$1" -version 2>&1 | sed -n 's/^\(.* version "\|javac \)\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\3/p' | head -n 1
}

need_java() { [ "$(feature java)" -ge 17 ] 2> /dev/null && { [ "${1:-}" != --jdk ] || [ "$(feature javac)" -ge 17 ] 2> /dev/null; }; }

if ! need_java "${1:-}"; then
  install_packages "no Java 17 or newer here" openjdk-17-jdk-headless openjdk-21-jdk-headless openjdk-25-jdk-headless default-jdk-headless
  need_java "${1:-}" || die "Java 17 or newer was installed, but the java on PATH is $(feature java): put the newer one first on PATH."
fi
command -v mvn > /dev/null || install_packages "no Maven here (it fetches Kafka's jars)" maven
