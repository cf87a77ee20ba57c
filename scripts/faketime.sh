#!/usr/bin/env bash
# Makes sure of libfaketime, by which tests set the clock of single processes, and of a C compiler for what it leaves out and for
# disks that misbehave.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' > /dev/null || install_packages "no libfaketime here" faketime

have_cc() { echo '#include <threads.h>' | cc -E - > /dev/null 2>&1; }

if ! have_cc; then
  install_packages "no C compiler here" gcc
  have_cc || install_packages "no C library headers here" libc6-dev
fi
