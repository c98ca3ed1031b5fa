#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every reader of files for SECONDS each (default 60), under sanitizers, on all processors. Fails on any crash, and on
# any input that takes more than a second alone. Prints the runs and the coverage of each fuzzer, earlier runs included.
# Usage: scripts/fuzz.sh [SECONDS [SEED [NAME...]]]. With a seed other than 0 it draws the same inputs again, from the same
# corpus; with names it runs these fuzzers only.
# --list prints their names. --pack: replaces tests/fuzz/corpus by the inputs found so far that add coverage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-60} in
  --pack | --list) ;;
  *[!0-9]*)
    echo "usage: scripts/fuzz.sh [SECONDS [SEED [NAME...]] | --pack | --list]" >&2
    exit 64
    ;;
esac
seconds=${1:-60}
seed=${2:-0} # libFuzzer's word for any
folder=build/fuzz
programs=build/debug/bin
stored=tests/fuzz/corpus
# libFuzzer's entropic schedule took more than half of the time: it traverses all features after each input.
limits=(-entropic=0 -rss_limit_mb=1024 -malloc_limit_mb=256 -max_len=65536)
mapfile -t names < <(grep -l LLVMFuzzerTestOneInput tests/fuzz/*.cpp | sed 's|.*/||; s|\.cpp$||')
if [ "${1:-}" = --list ]; then
  printf '%s\n' "${names[@]}"
  exit
fi
for name in "${@:3}"; do
  if [ ! -f "tests/fuzz/$name.cpp" ]; then
    echo "fuzz: no fuzzer is called $name; there are ${names[*]}" >&2
    exit 64
  fi
done
[ $# -lt 3 ] || names=("${@:3}")
command -v clang++ >/dev/null || {
  echo "fuzz: clang++ not found: run scripts/setup.sh --tests" >&2
  exit 69
}
cmake --preset debug >/dev/null
cmake --build --preset fuzz
# In memory if possible: a file system may write each truncated file to its disk at once.
files=$(mktemp -d --tmpdir="$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" trainer-fuzz-XXXXXX)
trap 'rm -rf "$files"' EXIT
export TMPDIR=$files
rm -rf "$folder/seeds"
"$programs/fuzz_seeds" "$folder/seeds"

# Findings of earlier runs, here or elsewhere.
unpack() { # NAME
  mkdir -p "$folder/corpus/$1"
  [ ! -f "$stored/$1.tar.xz" ] || tar -xJf "$stored/$1.tar.xz" -C "$folder/corpus/$1"
}

# The same inputs give the same archive.
pack() { # NAME
  local fewest=$folder/fewest/$1
  mkdir -p "$fewest" "$stored"
  "$programs/fuzz_$1" -merge=1 "${limits[@]}" "$fewest" "$folder/corpus/$1" "$folder/seeds/$1" >"$folder/$1.log" 2>&1
  tar -C "$fewest" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cJf "$stored/$1.tar.xz" .
  echo "$1: $(find "$fewest" -type f | wc -l) inputs, $(stat -c %s "$stored/$1.tar.xz") bytes packed"
}

for name in "${names[@]}"; do unpack "$name"; done
if [ "${1:-}" = --pack ]; then
  rm -rf "$folder/fewest"
  for name in "${names[@]}"; do pack "$name"; done
  exit
fi

# Runs one fuzzer. Its findings are kept, so that the next run continues from them.
fuzz() {
  local name=$1 status=0 results=$folder/results words=()
  [ ! -f "$folder/seeds/$name.dict" ] || words=(-dict="$folder/seeds/$name.dict")
  rm -f "$folder/$name"-slow-unit-*
  "$programs/fuzz_$name" ${words[@]+"${words[@]}"} -max_total_time="$seconds" -seed="$seed" -timeout=20 -report_slow_units=1 \
    "${limits[@]}" -print_final_stats=1 -artifact_prefix="$folder/$name-" "$folder/corpus/$name" "$folder/seeds/$name" \
    >"$folder/$name.log" 2>&1 || status=$?
  echo "$status" >"$results/$name"
}

# Whether an input that was slow among others takes more than a second alone, too.
is_slow() { # NAME FILE
  local ms
  ms=$("$programs/fuzz_$1" "${limits[@]}" "$2" 2>&1 | sed -n 's/^Executed .* in \([0-9]*\) ms$/\1/p')
  [ "${ms:-1001}" -gt 1000 ]
}

# Adds a fuzzer's runs to earlier ones and prints its row.
report() {
  local name=$1 log=$folder/$1.log input status runs total coverage kept=$folder/corpus/$1.runs
  status=$(cat "$folder/results/$name" 2>/dev/null || echo "none")
  for input in "$folder/$name"-slow-unit-*; do
    if [ -f "$input" ] && is_slow "$name" "$input"; then
      status=slow
      echo "fuzz: $input takes more than a second" >&2
    fi
  done
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
  total=$(($(cat "$kept" 2>/dev/null || echo 0) + ${runs:-0}))
  echo "$total" >"$kept"
  printf '%-11s %12s %12s %10s %6s\n' "$name" "${runs:-none}" "$total" "${coverage:-none}" "$status"
  [ "$status" = 0 ]
}

rm -rf "$folder/results"
mkdir -p "$folder/results"
for name in "${names[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  fuzz "$name" &
done
wait

failed=()
printf '%-11s %12s %12s %10s %6s\n' target runs 'all runs' coverage exit
for name in "${names[@]}"; do report "$name" || failed+=("$name"); done
for name in ${failed[@]+"${failed[@]}"}; do
  echo "fuzz: $name failed; the end of $folder/$name.log:" >&2
  tail -n 40 "$folder/$name.log" >&2
done
[ ${#failed[@]} -eq 0 ]
