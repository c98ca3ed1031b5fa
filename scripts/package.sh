#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a tarball that runs without root on another x86-64 Linux of the same or a newer glibc (Debian 12: 2.36).
#
#   scripts/package.sh [--build DIRECTORY] [--with-tests] [OUT]
#
# Writes OUT/trainer-VERSION-linux-x86_64.tar.gz (OUT: build by default) with bin/trainer, lib/libtrainer_cuda.so if it was
# built, every shared library except libc's and NVIDIA's, the recipes, the documentation, and the licences of bundled libraries.
# The loader looks for NVIDIA's libraries in LD_LIBRARY_PATH first, then in the system's folders.
# --build packs an existing build (default: builds the preset `release`); --with-tests adds bin/test_cuda and what it opens.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build="" tests=no out=build
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=${2:?"--build needs a directory"}; shift ;;
    --with-tests) tests=yes ;;
    -h | --help) sed -n '3,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "package: unknown argument '$1'; see --help" >&2; exit 64 ;;
    *) out=$1 ;;
  esac
  shift
done

if [ -z "$build" ]; then
  build=build/release
  cmake --preset release -DTRAINER_TESTS="$([ $tests = yes ] && echo ON || echo OFF)" -DCMAKE_CUDA_ARCHITECTURES=shipped
  cmake --build --preset release
  # Each architecture has its registers. 77: of another nvcc than the tables are.
  [ ! -e build/release/bin/libtrainer_cuda.so ] || scripts/gpu/kernel_table.py build/release || [ $? -eq 77 ]
fi

# Part of glibc, which a program must take from its host; and libraries that NVIDIA does not let others distribute.
not_bundled='^(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|libcuda|libcudart|libcudnn.*|libcublas.*|libnvrtc.*|libnccl|libnvidia.*)\.so'

name=trainer-$(sed -nE 's/.*kVersion = "([0-9.]+)".*/\1/p' core/base/version.h)-linux-x86_64
mkdir -p "$out"
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
root=$staging/$name
cmake --install "$build" --prefix "$root" --strip >/dev/null
if [ $tests = yes ]; then
  mkdir -p "$root/lib"
  cp "$build"/bin/test_cuda "$root/bin/"
  cp "$build"/bin/libfake_nvml.so "$root/lib/"
fi

# Name and place of each library that the given files load, including indirect ones.
loaded() {
  ldd "$@" 2>/dev/null | sed -nE 's/^\s*(\S+) => (\/\S+) .*/\1 \2/p' | sort -u
}
add_licence() { # PACKAGE OF-WHAT
  if [ -z "$1" ] || [ ! -f "/usr/share/doc/$1/copyright" ]; then
    echo "package: no licence is known for $2; install it from a package that has one" >&2
    exit 70
  fi
  cp -L "/usr/share/doc/$1/copyright" "$root/share/doc/trainer/licences/$1"
}
mkdir -p "$root/lib" "$root/share/doc/trainer/licences"
while read -r library place; do
  [[ $library =~ $not_bundled ]] && continue
  case $place in "$root"/*) continue ;; esac
  cp -L "$place" "$root/lib/$library"
  chmod 644 "$root/lib/$library"
  # The packages' lists say /lib or /usr/lib, depending on how they were built.
  real=$(realpath "$place")
  package=$(dpkg-query -S "$place" "$real" "${real#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1) || true
  add_licence "$package" "$place"
done < <(loaded "$root"/bin/* "$root"/lib/*.so)
# Headers only, compiled in (THIRD_PARTY.md).
for package in libcli11-dev nlohmann-json3-dev libprotozero-dev libxxhash-dev; do add_licence "$package" "$package"; done

tar -C "$staging" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz: $(du -h "$out/$name.tar.gz" | cut -f1)"
