#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What to run first where there is an NVIDIA GPU: whether it computes right, what takes the time, and how far the predictions
# are off. A call takes eight minutes at most and keeps each result at once; call it again until it ends with 0. Then follows
# scripts/gpu/check.sh.
#
#   scripts/gpu/first.sh [--list] [--package TARBALL] [--results DIRECTORY]
#
# --list     prints the rows in their order with the seconds that each may take; needs no GPU
# The others, the exit codes and the environment are those of check.sh; 75: call it again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rows=(doctor smoke tests relu_masks gelus epilogue_log gram gram_rows moments predicted_times predicted_passes streaming_kernels
  predicted_autotune vocabulary_speed gpt2_speed memcheck_first)
if [ "${1:-}" = --list ]; then
  "${PYTHON:-python3}" scripts/gpu/rows.py --list |
    awk -v order="${rows[*]}" '{ seconds[$1] = $3 } END { n = split(order, row, " "); for (i = 1; i <= n; ++i) print row[i], seconds[row[i]] }'
  exit
fi
exec scripts/gpu/check.sh --missing --minutes 8 "$@" "${rows[@]}"
