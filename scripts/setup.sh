#!/usr/bin/env bash
# Makes .venv with the exact packages of requirements.lock and this checkout installed in it (editable).
#
#   scripts/setup.sh            PYTHON=/path/to/python3.12 scripts/setup.sh
#
# The stamp in .venv is written last and says what the environment was made from: with an equal one nothing is done, an
# environment without one is made anew, and one that could not be finished is removed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/packages.sh

VENV=.venv
STAMP=$VENV/.headrace-stamp

python_ok() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; }

choose_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    python_ok "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.11 or newer that runs here."
    echo "$PYTHON"
    return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if python_ok "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  die "No Python 3.11 or newer is on PATH: install one (Debian 12 and later: apt-get install python3), or name it with PYTHON=/path/to/python."
}

# What the environment depends on: the lock, the packages' metadata, and the interpreter it was made with.
fingerprint() {
  cat requirements.lock pyproject.toml apps/course_revenue/pyproject.toml scripts/setup.sh | cksum
  if [ -n "${PYTHON:-}" ]; then "$PYTHON" -c 'import sys; print(sys.base_prefix, *sys.version_info[:3])'; else sed -n 2p "$STAMP" 2> /dev/null; fi
}

if [ -f "$STAMP" ] && [ -x "$VENV/bin/python" ] && python_ok "$VENV/bin/python" && [ "$(fingerprint)" = "$(cat "$STAMP")" ]; then
  exit 0
fi

# A changed lock is installed over a finished environment of the same interpreter; anything else is made from nothing.
python=$(choose_python)
identity=$("$python" -c 'import sys; print(sys.base_prefix, *sys.version_info[:3])')
if [ -d "$VENV" ] && { [ "$(sed -n 2p "$STAMP" 2> /dev/null)" != "$identity" ] || ! "$VENV/bin/python" -m pip --version > /dev/null 2>&1; }; then
  rm -rf "$VENV"
fi

unfinished() {
  rm -rf "$VENV"
}
trap unfinished EXIT
trap 'exit 130' INT TERM HUP
rm -f "$STAMP"

make_venv() { "$python" -m venv "$VENV" > "$log" 2>&1 && "$VENV/bin/python" -m pip --version > /dev/null 2>> "$log"; }

if [ ! -d "$VENV" ]; then
  say "making $VENV with $("$python" --version)"
  log=$(mktemp)
  if ! make_venv; then
    rm -rf "$VENV"
    # Debian ships venv's pip apart from python3; the package carries the interpreter's version in its name, except for the default one.
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if "$python" -c 'from ensurepip import bootstrap' 2> /dev/null; then
      cat "$log" >&2
      die "$python could not make a virtual environment (its message is above)."
    fi
    install_packages "$python cannot make virtual environments (no ensurepip)" "python$version-venv" "python3-venv"
    make_venv || { cat "$log" >&2; die "$python still cannot make a virtual environment: name another interpreter with PYTHON=/path/to/python."; }
  fi
  rm -f "$log"
fi

say "installing the locked packages"
pip=("$VENV/bin/python" -m pip --disable-pip-version-check --quiet --no-input install)
"${pip[@]}" --require-hashes --no-deps -r requirements.lock || die "pip could not install requirements.lock (its message is above)."
"${pip[@]}" --no-deps --no-build-isolation -e . -e apps/course_revenue || die "pip could not install this checkout (its message is above)."
"$VENV/bin/python" -m pip check > /dev/null || die "the locked packages do not fit together: run 'make lock'."

{
  cat requirements.lock pyproject.toml apps/course_revenue/pyproject.toml scripts/setup.sh | cksum
  echo "$identity"
} > "$STAMP"
trap - EXIT
say "$VENV is ready"
