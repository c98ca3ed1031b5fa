#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, then builds and runs every test: release, ASan and UBSan, and TSan for loader and saver.
# With names of presets, only those.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/stage.sh
source scripts/stage.sh

presets=()
for argument in "$@"; do
  case $argument in
    --quick) presets+=(release) ;;
    release | debug | tsan) presets+=("$argument") ;;
    *)
      echo "usage: [ALLOW_NO_CUDA=1] [ALLOW_NO_SLURM=1] scripts/test.sh [--quick] [release] [debug] [tsan]" >&2
      echo "       --quick: only the release build" >&2
      exit 64
      ;;
  esac
done
[ ${#presets[@]} -gt 0 ] || presets=(release debug tsan)

passed=0
failed=0

# Runs the tests of a preset and adds to the two counts; after a failing test the next preset still runs.
run_tests() { # PRESET [COMMAND PREFIX...]
  local preset=$1 log=build/$1/ctest.log status=0 bad=0 all=0
  shift
  "$@" ctest --preset "$preset" -j "$(nproc)" | tee "$log" || status=$?
  read -r bad all < <(sed -nE 's/.* ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p' "$log") || bad=0 all=0
  passed=$((passed + all - bad))
  # A ctest that fails without a counted failure counts as one.
  [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
  failed=$((failed + bad))
  return "$status"
}

build() { # PRESET [CONFIGURE ARGUMENTS...]
  local preset=$1
  shift
  cmake --preset "$preset" "$@" && cmake --build --preset "$preset" -j "$(nproc)"
}

# Lets the cache serve a copy of the sources in another folder (tests/walkthrough.sh, another clone). It compares the
# files that were included, not their preprocessed text: g++ compares a precompiled header with its sources byte by
# byte, comments included, and includes a changed one a second time.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros

stage "setup" scripts/setup.sh --tests

test_release() {
  local cuda=on
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
  if ! command -v nvcc >/dev/null; then
    if [ "${ALLOW_NO_CUDA:-0}" != 1 ]; then
      echo "test: nvcc not found in PATH or ${CUDA_HOME:-/usr/local/cuda}/bin, so libtrainer_cuda.so cannot be built." >&2
      echo "test: install the CUDA toolkit, or set ALLOW_NO_CUDA=1 to test without it." >&2
      exit 69
    fi
    cuda=off
    echo "test: nvcc not found; testing without libtrainer_cuda.so, because ALLOW_NO_CUDA=1"
  fi
  # One architecture: each takes the same time to build. A package has all of them (scripts/package.sh).
  stage "build release" build release -DTRAINER_TESTS=ON -DTRAINER_CUDA="$cuda" -DCMAKE_CUDA_ARCHITECTURES=90-real
  stage "test release" run_tests release || true
}

test_debug() {
  stage "build with ASan and UBSan" build debug
  stage "test with ASan and UBSan" run_tests debug || true
}

test_tsan() {
  local still=()
  stage "build the tests of loader and saver with TSan" build tsan
  # TSan maps fixed addresses; some kernels randomise more address bits than it can handle.
  ! setarch -R true 2>/dev/null || still=(setarch -R)
  stage "test loader and saver with TSan" run_tests tsan "${still[@]}" || true
}

for preset in "${presets[@]}"; do "test_$preset"; done

echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
