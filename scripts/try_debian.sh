#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the sources on another release of Debian, in a tree of its own below build/: installs, trains one epoch, tests.
# Usage: [sudo] scripts/try_debian.sh RELEASE [COMMAND]. COMMAND runs in the sources instead. Needs mmdebstrap and root.
# The tree is kept, with the packages and the build in it; delete build/debian-RELEASE to begin anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly usage=64 unavailable=69
declare -A names=([12]=bookworm [13]=trixie)
release=${1:-}
name=${names[$release]:-}
if [ -z "$name" ] || [ $# -gt 2 ]; then
  echo "usage: scripts/try_debian.sh 12|13 [COMMAND]" >&2
  exit "$usage"
fi
command=${2:-scripts/quickstart.sh training.max_duration=1ep && ALLOW_NO_CUDA=1 scripts/test.sh --quick}
tree=$PWD/build/debian-$release
sources=$tree/srv/trainer

if [ "$(id -u)" -ne 0 ]; then
  echo "try_debian: a tree of another system needs root: sudo scripts/try_debian.sh $release" >&2
  exit "$unavailable"
fi
if ! command -v mmdebstrap >/dev/null; then
  echo "try_debian: mmdebstrap not found; install it: apt-get install mmdebstrap" >&2
  exit "$unavailable"
fi

# An incomplete tree is not used.
if [ ! -d "$tree" ]; then
  mkdir -p build
  rm -rf "$tree.new"
  mmdebstrap --mode=root --variant=apt --include=ca-certificates,git "$name" "$tree.new"
  mv "$tree.new" "$tree"
fi
# It resolves hosts and trusts authorities like this system, which may use a proxy.
for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
  [ ! -e "$file" ] || cp --dereference "$file" "$tree$file"
done

# The files that git would commit, so that builds and runs are not copied; deleted files are deleted there too.
mkdir -p "$sources"
find "$sources" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files --cached --others --exclude-standard -z | tar --create --null --files-from=- | tar --extract --directory="$sources"

# Mounts that end with the command.
PATH=$(getconf PATH):/usr/sbin:/sbin
export tree command
# shellcheck disable=SC2016 # expanded in the inner shell
exec unshare --mount --pid --fork --kill-child bash -euc '
  mount -t proc proc "$tree/proc"
  mount --rbind /dev "$tree/dev"
  mount -t tmpfs tmpfs "$tree/dev/shm"
  mount --rbind /sys "$tree/sys"
  proxies=()
  for variable in http_proxy https_proxy; do [ -z "${!variable:-}" ] || proxies+=("$variable=${!variable}"); done
  exec chroot "$tree" env -i HOME=/srv LANG=C.UTF-8 PATH="$PATH" ${proxies[@]+"${proxies[@]}"} \
    bash -c "cd /srv/trainer && $command"'
