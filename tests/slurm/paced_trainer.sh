#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The real program as process of the step. From about its first step on it is stopped most of the time, so that a short run lasts
# until it gets a signal: in the first PACED starts of a job, and of an array in its task PACED_TASK only. PAUSE: seconds of
# each stop. RANK_1: a word that rank 1 alone gets.
set -euo pipefail

# No process is started for it, which would take long on a busy machine.
pause() { read -rt "$1" -u "$never" || true; }

trains() {
  local lines=()
  [ ! -e "$status" ] || mapfile -t lines <"$status"
  [[ "${lines[*]}" = *"\"pid\": $$,"* ]]
}

# Other than the one that stops it.
has_signal() {
  local name mask
  while read -r name mask; do
    [ "$name" != ShdPnd: ] || [ "$((16#$mask & ~(1 << 18)))" = 0 ] || return 0
  done </proc/$$/status
  return 1
}

pace() {
  trap '' TERM USR1 INT
  exec {never}<> <(:)
  until trains; do
    kill -0 $$ || return 0
    pause 0.02
  done
  while kill -STOP $$; do
    for _ in $(seq "$((${PAUSE:-1} * 20))"); do
      if has_signal; then
        kill -CONT $$
        return 0
      fi
      pause 0.05
    done
    kill -CONT $$
    pause 0.01
  done
}

for word in "$@"; do
  case $word in run.output_dir=*) status=${word#*=}/status.json ;; esac
done
if [ "${SLURM_RESTART_COUNT:-0}" -lt "${PACED:-0}" ] && [ "${SLURM_ARRAY_TASK_ID:-}" = "${PACED_TASK:-}" ]; then
  pace </dev/null >/dev/null 2>&1 &
fi
[ "${SLURM_PROCID:-0}" = 0 ] || set -- "$@" ${RANK_1:+"$RANK_1"}
exec "$TRAINER_BINARY" "$@"
