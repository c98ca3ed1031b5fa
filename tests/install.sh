#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a folder of its own, as it is and without the CUDA library, and tries what was installed.
#   tests/install.sh SOURCES BUILD WORKSPACE
set -euo pipefail
sources=$1 build=$2 workspace=$3
rm -rf "$workspace"
mkdir -p "$workspace"
cd "$workspace"

fail() {
  echo "install: $1" >&2
  exit 1
}

check_installed() { # PREFIX
  [ "$("$1/bin/trainer" --version)" = "$("$build/bin/trainer" --version)" ] || fail "$1/bin/trainer does not run"
  local file
  for file in bash-completion/completions/trainer zsh/site-functions/_trainer fish/vendor_completions.d/trainer.fish \
    man/man1/trainer.1 trainer/configs/fashion_mnist_cnn.yaml trainer/docs/recipe.schema.json doc/trainer/LICENSE \
    doc/trainer/docs/install.md; do
    [ -s "$1/share/$file" ] || fail "$1/share/$file is not there"
    grep -qx "$1/share/$file" "$2/install_manifest.txt" || fail "$1/share/$file is not in the manifest"
  done
}

cmake --install "$build" --prefix "$workspace/whole" >/dev/null
check_installed "$workspace/whole" "$build"

# A build of the target `trainer` alone, whatever was configured.
mkdir part
(cd "$build" && find . -maxdepth 3 -name cmake_install.cmake -not -path '*_test/*' -not -path './walkthrough/*' -exec cp --parents {} "$workspace/part" \;)
grep -rlZ "$build" part | xargs -0 sed -i "s|$build|$workspace/part|g"
mkdir part/bin
cp "$build/bin/trainer" part/bin/
cmake --install part --prefix "$workspace/program" >install.log || fail "of a build without libtrainer_cuda.so: $(cat install.log)"
check_installed "$workspace/program" part
printf 'version: 1\nmodel: {input: [1, 8, 8], layers: [flatten, {linear: 10}]}\ndata: {format: synthetic}\n' >recipe.yaml
status=0
program/bin/trainer plan --config recipe.yaml device.type=cuda device.model=h200 2>refused.txt || status=$?
[ $status -eq 69 ] || fail "exit code $status without the library"
grep -q "libtrainer_cuda.so is neither in $workspace/program/bin nor in $workspace/program/lib" refused.txt || fail "$(cat refused.txt)"

# By default, kernels are built for this machine's GPUs, each architecture once, except for those that the program
# refuses.
mkdir tools
printf '#!/bin/sh\nprintf "compute_%%s\\n" 75 80 90 100 120\n' >tools/nvcc
printf '#!/bin/sh\nprintf "%%s\\n" 9.0 8.0 9.0 7.5\n' >tools/nvidia-smi
chmod +x tools/*
printf 'cmake_minimum_required(VERSION 3.22)\ninclude("%s/cuda/architectures.cmake")\n' "$sources" >architectures.cmake
PATH=$PWD/tools:$PATH cmake -DCMAKE_CUDA_COMPILER="$PWD/tools/nvcc" -P architectures.cmake >architectures.txt
grep -q "CUDA architectures: 90-real;80-real$" architectures.txt || fail "$(cat architectures.txt)"
