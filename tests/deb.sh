#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package of a build: its dependencies, what it installs below a root of its own, and that removing it leaves
# nothing behind. Exit code 77 where there is no dpkg.
#   tests/deb.sh BUILD WORKSPACE
set -euo pipefail
build=$1 workspace=$2
rm -rf "$workspace"
mkdir -p "$workspace"
cd "$workspace"

fail() {
  echo "deb: $1" >&2
  exit 1
}

command -v dpkg >/dev/null || exit 77
(umask 077 && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$workspace" >cpack.log 2>&1) || fail "$(cat cpack.log)"
deb=$(ls trainer_*.deb)
dpkg-deb --ctrl-tarfile "$deb" | tar -x ./control
grep -q '^Package: trainer$' control || fail "$(cat control)"
depends=$(sed -n 's/^Depends: //p' control)
names=$(tr ',' '\n' <<<"$depends" | awk '{ print $1 }')

# The package of each library that the program names, found without dpkg-shlibdeps; NVIDIA's are in none.
libraries=$(ldd "$build/bin/trainer")
while read -r name; do
  [[ $name != ld-linux* ]] || continue # of libc6, as libc is
  place=$(awk -v name="$name" '$1 == name { print $3 }' <<<"$libraries")
  real=$(realpath "$place")
  # The packages' lists say /lib or /usr/lib, depending on how they were built.
  owner=$(dpkg-query -S "$place" "$real" "${real#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1) || true
  grep -qxF "$owner" <<<"$names" || fail "$name is in $owner, which the package does not depend on: $depends"
done < <(objdump -p "$build/bin/trainer" | sed -n 's/^  NEEDED  *//p')

# Not this machine's packages: a root with a list of its own, without the dependencies.
mkdir -p root/var/lib/dpkg/{info,updates}
touch root/var/lib/dpkg/{status,available}
in_root() {
  dpkg --root="$workspace/root" --log=/dev/null --force-not-root --force-script-chrootless --force-depends --path-include='*' "$@" \
    >dpkg.log 2>&1 || fail "$(cat dpkg.log)"
}
files() {
  (cd root && find . -path ./var/lib/dpkg -prune -o -print | sort)
}
files >before.txt
in_root --install "$deb"
[ "$(root/usr/bin/trainer --version)" = "$("$build/bin/trainer" --version)" ] || fail "the installed program does not run"
root/usr/bin/trainer layers >layers.txt
grep -q '^  conv2d ' layers.txt || fail "the installed program lists no layers"
[ -s root/usr/share/man/man1/trainer.1 ] || fail "the package has no manual page"
[ ! -e "$build/bin/libtrainer_cuda.so" ] || [ -e root/usr/lib/libtrainer_cuda.so ] || fail "the package lacks libtrainer_cuda.so"
unreadable=$(find root/usr -not -perm -o=r -o -type d -not -perm -o=x)
[ -z "$unreadable" ] || fail "not for everyone: $unreadable"
in_root --purge trainer
files >after.txt
diff before.txt after.txt || fail "removing the package left these behind"
