#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything from nothing, without the compiler cache, and prints the seconds of each part: by the clock, and of
# all processors together. Usage: scripts/bench/build_time.sh [--release-only] [CMAKE ARGUMENTS OF THE RELEASE...]
# Another build beside it falsifies the numbers. JOBS (default: all processors) is how many files are compiled at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

debug=yes
if [ "${1:-}" = --release-only ]; then
  debug=no
  shift
fi
jobs=${JOBS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1 PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin

# Runs one part. Its output is shown only if it fails.
measure() { # NAME COMMAND...
  local name=$1 TIMEFORMAT='%R %U %S' real user system
  shift
  if ! { time "$@" >"$work/log" 2>&1; } 2>"$work/time"; then
    tail -n 40 "$work/log" >&2
    echo "build_time: $name failed" >&2
    exit 1
  fi
  read -r real user system <"$work/time"
  printf '%-24s %9.1f %9.1f %9.1f\n' "$name" "$real" "$user" "$system"
}

configure() { # PRESET [CMAKE ARGUMENTS...]
  local preset=$1
  shift
  cmake --preset "$preset" -B "$work/$preset" -DTRAINER_TESTS=ON "$@"
}

build() { # PRESET [ARGUMENTS...]
  local preset=$1
  shift
  cmake --build "$work/$preset" -j "$jobs" "$@"
}

echo "$(nproc) processors, $jobs jobs, $(g++ --version | head -n 1)"
printf '%-24s %9s %9s %9s\n' "seconds" "clock" "user" "system"
measure "configure" configure release "$@"
measure "program" build release --target trainer
if cmake --build "$work/release" --target help | grep -q '^trainer_cuda:'; then
  measure "libtrainer_cuda.so" build release --target trainer_cuda
fi
measure "tests" build release
if [ $debug = yes ]; then
  measure "configure debug" configure debug
  measure "debug" build debug
fi
