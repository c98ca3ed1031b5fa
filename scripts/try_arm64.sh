#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the sources on AArch64: cross-compiles program and tests in build/arm64 and runs the tests under emulation.
# Usage: scripts/try_arm64.sh [COMMAND]. COMMAND runs instead of the tests; it may run programs of build/arm64/bin.
# Needs g++-aarch64-linux-gnu, mmdebstrap and qemu-user-static, all for the release of Debian that runs here.
# Delete build/arm64-sysroot to fetch the libraries anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly usage=64 unavailable=69
if [ $# -gt 1 ]; then
  echo "usage: scripts/try_arm64.sh [COMMAND]" >&2
  exit "$usage"
fi
command=${1:-ctest --preset arm64 -j "$(nproc)"}
sysroot=$PWD/build/arm64-sysroot

for need in aarch64-linux-gnu-g++:g++-aarch64-linux-gnu mmdebstrap:mmdebstrap qemu-aarch64-static:qemu-user-static; do
  command -v "${need%:*}" >/dev/null || {
    echo "try_arm64: ${need%:*} not found; install it: apt-get install ${need#*:}" >&2
    exit "$unavailable"
  }
done

# The libraries that scripts/setup.sh installs, of the compiler's release; none of them runs.
fetch() {
  local libraries release link target
  libraries=$(sed -n '/^packages=(/,/)$/p' scripts/setup.sh | grep -oE '[a-z0-9.+-]+-dev|catch2' | paste -sd,)
  release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  mkdir -p build
  rm -rf "$sysroot.new"
  mmdebstrap --mode=chrootless --variant=extract --architectures=arm64 --include="$libraries" "$release" "$sysroot.new"
  # Programs search here before the system, which should stay unchanged except for libraries.
  rm -rf "$sysroot.new"/{dev,etc,tmp,var}
  [ -e "$sysroot.new/lib" ] || ln -s usr/lib "$sysroot.new/lib" # Debian 13's packages have all of them
  # A link to /lib means that of the tree.
  find "$sysroot.new/lib" "$sysroot.new/usr" -lname '/*' -printf '%p %l\n' | while read -r link target; do
    ln --symbolic --relative --force --no-dereference "$sysroot.new$target" "$link"
  done
  mv "$sysroot.new" "$sysroot"
}

[ -d "$sysroot" ] || fetch
cmake --preset arm64
cmake --build --preset arm64 -j "$(nproc)"

# The kernel must be configured for the emulator, for programs that tests start. Otherwise it is configured in a
# separate namespace, which requires Linux 6.7 but not root.
known=/proc/sys/fs/binfmt_misc
tell="mount -t binfmt_misc binfmt_misc $known && cat /usr/lib/binfmt.d/qemu-aarch64.conf >$known/register"
inside=(unshare --map-root-user --mount)
if [ -e "$known/qemu-aarch64" ]; then
  inside=() tell=true
elif ! "${inside[@]}" bash -c "$tell" 2>/dev/null; then
  echo "try_arm64: the kernel does not know the emulator, so tests that start programs will fail" >&2
  inside=() tell=true
fi
export QEMU_LD_PREFIX=$sysroot
# oneDNN 2.6 computes some gradients wrongly with 512-bit SVE, the emulator's default.
export QEMU_CPU=${QEMU_CPU:-neoverse-n1}
exec ${inside[@]+"${inside[@]}"} bash -euc "$tell; $command"
