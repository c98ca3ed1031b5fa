#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The real program as process of the step, stopped most of the time, so that a short run lasts until something happens
# to it: in the first PACED starts of a job, and of an array in its task PACED_TASK only. PAUSE: seconds of each stop.
# RANK_1: a word that rank 1 alone gets.
set -euo pipefail
if [ "${SLURM_RESTART_COUNT:-0}" -lt "${PACED:-0}" ] && [ "${SLURM_ARRAY_TASK_ID:-}" = "${PACED_TASK:-}" ]; then
  (
    trap '' TERM USR1 INT
    while kill -STOP $$; do
      sleep "${PAUSE:-0.8}"
      kill -CONT $$
      sleep 0.01
    done
  ) </dev/null >/dev/null 2>&1 &
fi
[ "${SLURM_PROCID:-0}" = 0 ] || set -- "$@" ${RANK_1:+"$RANK_1"}
exec "$TRAINER_BINARY" "$@"
