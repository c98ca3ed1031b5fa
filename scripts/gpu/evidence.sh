#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a machine with an NVIDIA GPU is asked for: the CUDA tests on the device, then again under compute-sanitizer.
#
#   scripts/gpu/evidence.sh [BUILD [RESULTS]]
#
# BUILD (default: build-gpu) may be a build brought along: where it holds bin/test_cuda nothing is compiled.
# RESULTS (default: BUILD/evidence) gets the logs and evidence.tsv, whose rows belong into docs/gpu-evidence.tsv.
# TRAINER_COMMIT names the commit where there is no git.
# Exit codes: 0 all passed, 69 no GPU here, 70 something failed or could not run.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:-build-gpu}
results=${2:-$build/evidence}

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
if [ -z "$gpu" ]; then
  echo "evidence.sh: no GPU on this machine: nvidia-smi is missing or lists none; run it where there is one" >&2
  exit 69
fi
commit=${TRAINER_COMMIT:-$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)}
export PATH=$PATH:/usr/local/cuda/bin

mkdir -p "$results"
table=$results/evidence.tsv
head -n 2 docs/gpu-evidence.tsv >"$table"
failed=0

# record COMMAND WHAT FIGURES RESULT
record() {
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$gpu" "$commit" "$1" "$2" "$3" "$4" >>"$table"
  echo "$2: $4${3:+ ($3)}"
  [ "$4" = passed ] || failed=1
}

# run_tests WHAT LOG COMMAND...: a skipped test is no evidence, so it counts as a failure.
run_tests() {
  local what=$1 log=$results/$2 result=passed figures
  shift 2
  "$@" >"$log" 2>&1 || result=failed
  if grep -q '^skipped:' "$log"; then result=failed; fi
  figures=$(grep -E '^(All tests passed|test cases:|assertions:|========= ERROR SUMMARY|skipped:)' "$log" |
    tr '\t\n' ' ;' | cut -c 1-300 || true)
  record "$*" "$what" "$figures" "$result"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv >"$results/gpu.txt"

if [ ! -x "$build/bin/test_cuda" ]; then
  if ! { cmake -S . -B "$build" -DTRAINER_CUDA=on && cmake --build "$build" --target trainer_cuda test_cuda -j "$(nproc)"; } \
    >"$results/build.log" 2>&1; then
    tail -n 20 "$results/build.log" >&2
    record "cmake -S . -B $build -DTRAINER_CUDA=on" "build on the machine" "see build.log" failed
    exit 70
  fi
fi

run_tests "test_cuda on a device" test_cuda.log "$build/bin/test_cuda"
# One test provokes an error of the runtime on purpose, and the program checks every call itself.
if command -v compute-sanitizer >/dev/null; then
  run_tests "compute-sanitizer memcheck of test_cuda" memcheck.log \
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 "$build/bin/test_cuda"
else
  record "compute-sanitizer --tool memcheck $build/bin/test_cuda" "compute-sanitizer memcheck of test_cuda" \
    "compute-sanitizer is not on PATH" "not run"
fi

echo "results: $table"
[ "$failed" = 0 ] || exit 70
