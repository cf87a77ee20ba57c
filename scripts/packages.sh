# Sourced. Messages, and system packages where this user may install them.

say() { echo "headrace: $*" >&2; }

die() {
  echo "headrace: $*" >&2
  exit 1
}

# install_packages WHY NAME...: installs the first NAME that the system's package manager has, or says in one sentence what to do.
install_packages() {
  local why=$1 as_root=() name
  shift
  if ! command -v apt-get > /dev/null; then
    die "$why, and there is no apt-get here to install it with: install ${*: -1} (or your system's package of the same purpose) and try again."
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2> /dev/null; then
      die "$why, and this user may not install packages: run 'sudo apt-get install ${*: -1}' and try again."
    fi
    as_root=(sudo -n)
  fi
  for refresh in no yes; do
    if [ $refresh = yes ]; then
      "${as_root[@]}" apt-get -qq update >&2 || say "apt-get update failed; going on with the package lists that are here"
    fi
    for name in "$@"; do
      if apt-cache show "$name" > /dev/null 2>&1; then
        say "$why: installing $name"
        if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$name" > /dev/null; then
          return 0
        fi
      fi
    done
  done
  die "$why, and apt-get could not install it: install ${*: -1} and try again."
}
