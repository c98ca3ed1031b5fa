#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program in build/release; installs nothing. With nvcc (PATH, CUDA_HOME or /usr/local/cuda) and cuDNN it also
# builds libtrainer_cuda.so for this machine's GPUs. Arguments go to CMake: scripts/build.sh -DTRAINER_CUDA=off
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/release
PATH=${CUDA_HOME:+$CUDA_HOME/bin:}$PATH:/usr/local/cuda/bin
arguments=(-DTRAINER_CUDA=auto)
# A fresh build needs no Catch2. One that has the tests keeps them.
[ -f "$build/CMakeCache.txt" ] || arguments+=(-DTRAINER_TESTS=OFF)
if nvidia-smi -L >/dev/null 2>&1; then
  arguments+=(-UCMAKE_CUDA_ARCHITECTURES) # cuda/architectures.cmake queries the GPUs
else
  # One architecture, for planning: each takes the same time to build. A package has all (scripts/package.sh).
  arguments+=(-DCMAKE_CUDA_ARCHITECTURES=90-real)
fi

cmake --preset release "${arguments[@]}" "$@"
cmake --build --preset release -j "$(nproc)" --target programs

missing=$(sed -n 's/^TRAINER_CUDA_MISSING:INTERNAL=//p' "$build/CMakeCache.txt")
[ -z "$missing" ] || echo "build: without libtrainer_cuda.so, so device.type=cuda is refused: $missing"
echo "build: $build/bin/trainer"
