#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Feeds the readers of files with damaged ones, each for SECONDS (default 60), under sanitizers. Fails on any crash.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-60} in
  *[!0-9]*)
    echo "usage: scripts/fuzz.sh [SECONDS]" >&2
    exit 64
    ;;
esac
seconds=${1:-60}
folder=build/fuzz
command -v clang++ >/dev/null || {
  echo "fuzz: clang++ not found: run scripts/setup.sh --lint" >&2
  exit 69
}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
rm -rf "$folder/seeds"
"$folder/bin/fuzz_seeds" "$folder/seeds"

failed=0
for name in jpeg png idx; do
  # What is found is kept, so that the next run goes on from there.
  mkdir -p "$folder/corpus/$name"
  log=$folder/$name.log status=0
  "$folder/bin/fuzz_$name" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=256 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$folder/$name-" "$folder/corpus/$name" "$folder/seeds/$name" \
    >"$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1 | cut -d ' ' -f 2)
  echo "$name: ${runs:-no} runs, coverage ${coverage:-unknown}, exit $status"
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$log" >&2
    failed=1
  fi
done
exit "$failed"
