#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Installs the programs that tests and the demo need besides Go.

set -euo pipefail

usage() {
  cat <<'EOF'
usage: hack/install-deps.sh [--without-wine]

Installs the Debian packages that tests and the demo need, and says which and
why. Does nothing, quickly, when all are installed. Needs root, or sudo that asks
no password, only when something is missing. Asks nothing and starts no service:
the SSH server it installs is run by the tests themselves, on loopback.

  --without-wine  leave out what the Wine hosts need (about 1 GB on disk)

On other systems than Debian and its derivatives it says which programs are
needed and whether they are there.

exit status:
  0  everything is there
  1  something that is needed could not be installed
  2  wrong usage
  3  everything is there except what the Wine hosts need, which could not be
     installed; tests and the demo can go on without those hosts
EOF
}

# Package, program to look for on other systems, what it is for.
readonly needed=(
  "openssh-server|sshd|hosts with the real sshd, run by the tests on loopback"
  "openssh-client|ssh-keygen|ssh, scp and sftp as users have them, keys"
  "iproute2|ip|network namespaces"
  "util-linux|unshare|namespaces of the Wine hosts, flock"
  "procps|ps|looking at processes"
  "gcc|gcc|the Go race detector is linked by it"
  "libc6-dev|gcc|the Go race detector is linked against it"
  "make|make|the Makefile"
  "git|git|comparing generated files"
)
readonly wine=(
  "wine64|wine64|Wine hosts: the Windows agent on real Win32 calls"
  "gcc-mingw-w64-x86-64-win32|x86_64-w64-mingw32-gcc|Wine hosts: the DLL that lets Go programs start on Wine 8"
)

say() { printf 'install-deps: %s\n' "$*" >&2; }

with_wine=true
for arg in "$@"; do
  case $arg in
    --without-wine) with_wine=false ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

# sbin is not in the PATH of ordinary users, and sshd is there.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  # status WHAT...: whether all programs are there, saying which are not.
  status() {
    local entry package program why result=0
    for entry in "$@"; do
      IFS='|' read -r package program why <<<"$entry"
      if ! command -v "$program" >/dev/null && [[ ! -x /usr/lib/wine/$program ]]; then
        say "missing: $program ($why)"
        result=1
      fi
    done
    return $result
  }
  say "this is no Debian system, so nothing is installed here"
  status "${needed[@]}" || { say "install these with the tools of your system"; exit 1; }
  if $with_wine && ! status "${wine[@]}"; then
    say "install these with the tools of your system, or go on without Wine hosts"
    exit 3
  fi
  say "all programs are there"
  exit 0
fi

# Those of the entries whose package is not installed.
missing() {
  local entry
  for entry in "$@"; do
    if [[ $(dpkg-query --show --showformat='${db:Status-Status}' "${entry%%|*}" 2>/dev/null) != installed ]]; then
      printf '%s\n' "$entry"
    fi
  done
}

mapfile -t to_install < <(missing "${needed[@]}")
wine_to_install=()
if $with_wine; then
  mapfile -t wine_to_install < <(missing "${wine[@]}")
fi
if ((${#to_install[@]} + ${#wine_to_install[@]} == 0)); then
  say "all packages are installed"
  exit 0
fi
for entry in "${to_install[@]}" "${wine_to_install[@]}"; do
  IFS='|' read -r package _ why <<<"$entry"
  say "to install: $package ($why)"
done

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null || ! sudo --non-interactive true 2>/dev/null; then
    say "installing packages takes root; run this as root, or once: sudo $0 $*"
    ((${#to_install[@]} == 0)) || exit 1
    say "only what the Wine hosts need is missing; one can go on without them"
    exit 3
  fi
  as_root=(sudo --non-interactive)
fi

# Package scripts ask policy-rc.d before they start a service; 101 forbids it.
# A policy that is there already and forbids it as well, as in most containers,
# is left alone; any other is put back when this script ends.
readonly policy=/usr/sbin/policy-rc.d
readonly policy_kept=$policy.kept-by-install-deps
readonly policy_mark="Made by hack/install-deps.sh and removed when it ends."
put_policy_back() {
  if [[ -e $policy_kept ]]; then
    "${as_root[@]}" mv -f "$policy_kept" "$policy"
  else
    "${as_root[@]}" rm -f "$policy"
  fi
}
# What a run has left that was killed.
if [[ -e $policy_kept ]] || grep --quiet --no-messages "$policy_mark" "$policy"; then
  put_policy_back
fi
policy_says=0
[[ ! -x $policy ]] || "$policy" ssh start >/dev/null 2>&1 || policy_says=$?
if ((policy_says != 101)); then
  trap put_policy_back EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  [[ ! -e $policy ]] || "${as_root[@]}" mv "$policy" "$policy_kept"
  printf '#!/bin/sh\n# %s\nexit 101\n' "$policy_mark" | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 0755 "$policy"
fi

# env, because sudo drops variables. needrestart would restart services on Ubuntu.
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get --quiet --quiet --option DPkg::Lock::Timeout=600 \
    --option Dpkg::Options::=--force-confdef --option Dpkg::Options::=--force-confold \
    "$@" </dev/null >&2
}

# install ENTRY...: all of them or an error.
install() {
  apt_get install --yes --no-install-recommends "${@%%|*}"
}

say "reading the package lists (about 10 seconds)"
if ! apt_get update; then
  say "that failed; trying once more"
  apt_get update || say "that failed again; going on with the lists there are"
fi

had_ssh_server=true
[[ " ${to_install[*]%%|*} " != *" openssh-server "* ]] || had_ssh_server=false

if ((${#to_install[@]} > 0)); then
  say "installing ${to_install[*]%%|*} (about 20 seconds)"
  if ! install "${to_install[@]}"; then
    say "could not install what is needed; what apt-get said is above"
    exit 1
  fi
fi

# The package enables the service for the next boot. Nobody asked for a server
# that is open to the network, so one that was not there before stays off.
if ! $had_ssh_server && command -v systemctl >/dev/null; then
  if "${as_root[@]}" systemctl --quiet disable ssh.service ssh.socket >&2; then
    say "the SSH server will not start at boot; to have it: systemctl enable --now ssh"
  else
    say "could not turn the SSH server off for the next boot; to do so: systemctl disable ssh"
  fi
fi

if ((${#wine_to_install[@]} > 0)); then
  say "installing ${wine_to_install[*]%%|*} (about 160 MB to download, 30 seconds)"
  if ! install "${wine_to_install[@]}"; then
    say "Wine could not be installed; what apt-get said is above. Everything else is there: go on without Wine hosts"
    exit 3
  fi
fi
say "done"
