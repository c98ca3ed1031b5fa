#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The job script without Slurm, many times: each round is a job that gets signals at random moments, at its start too, and
# is started again while it ends with 75. Every run must end with the bits of an uncut one.
#   tests/slurm/fake.sh TRAINER [ROUNDS [SEED]]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export TRAINER RECIPE=$here/recipe.yaml OMP_WAIT_POLICY=passive
TRAINER=$(realpath "$1")
rounds=${2:-5} seed=${3:-$RANDOM}
RANDOM=$seed
echo "fake: $rounds rounds, seed $seed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin"
PATH=$work/bin:$PATH
# As the real one before its step exists: USR1 is lost, or cancels the step with exit code 0. Then it is the program itself.
cat >"$work/bin/srun" <<'TEXT'
#!/bin/bash
while [[ $1 = --* ]]; do shift; done
case $FAKE_START in
  lost) trap '' USR1 ;;
  cancelled) trap 'echo "srun: Cancelled pending job step with signal 10"; exit 0' USR1 ;;
esac
[ -z "$FAKE_START" ] || { sleep 0.4 & wait $!; }
trap - USR1
exec "$@"
TEXT
cat >"$work/bin/squeue" <<'TEXT'
#!/bin/sh
case "$*" in *%T) echo RUNNING ;; *) echo 1:00:00 ;; esac
TEXT
cat >"$work/bin/scontrol" <<'TEXT'
#!/bin/sh
[ "$1" = requeue ] && echo "$2" >>"$FAKE_REQUEUED"
TEXT
chmod +x "$work"/bin/*

unset "${!SLURM_@}"
length=training.max_duration=20000ba
"$TRAINER" --config "$RECIPE" "$length" run.output_dir="$work/uncut" >/dev/null 2>&1

fail() {
  echo "fake: round $round of seed $seed: $1" >&2
  cat "$work/log" >&2
  exit 1
}

# One start of the job, with a signal to its script, or to the program as when Slurm ends a step, or none.
start() { # RESTART SIGNAL
  local status=0 batch
  SLURM_JOB_ID=$round SLURM_RESTART_COUNT=$1 bash "$here/../../scripts/slurm/train.sbatch" "$length" \
    run.output_dir="$work/run" >>"$work/log" 2>&1 &
  batch=$!
  until grep -q "restart $1 .*start on" "$work/log"; do sleep 0.01; done
  sleep "$(printf '0.%03d' $((RANDOM % 1000)))"
  case $2 in
    batch) kill -USR1 "$batch" 2>/dev/null || true ;;
    step) pkill -TERM -P "$batch" -x trainer || true ;;
  esac
  wait "$batch" || status=$?
  return "$status"
}

restarts=0 resumed=0
for round in $(seq "$rounds"); do
  rm -rf "$work/run"
  : >"$work/log"
  export FAKE_REQUEUED=$work/requeued
  : >"$FAKE_REQUEUED"
  for restart in $(seq 0 9); do
    starts=(lost cancelled "")
    export FAKE_START=${starts[RANDOM % 3]}
    signals=(batch batch batch step)
    signal=${signals[RANDOM % 4]}
    [ "$restart" -lt 4 ] || signal=none
    code=0
    start "$restart" "$signal" || code=$?
    [ "$code" = 75 ] || break
    restarts=$((restarts + 1))
    [ "$(wc -l <"$FAKE_REQUEUED")" = $((restart + 1)) ] || fail "75, but not queued again"
  done
  [ "$code" = 0 ] || fail "ended with $code after $restart restarts"
  resumed=$((resumed + $(grep -c "^resuming after step" "$work/log" || true)))
  cmp "$work/uncut/model.safetensors" "$work/run/model.safetensors" || fail "other bits after $restart restarts"
done
# Of several ranks: what another try would mend is queued again, what the program itself refuses is not.
for pair in 14:76 137:76 76:76 75:75 1:1 65:65 78:78; do
  printf '#!/bin/sh\nexit %s\n' "${pair%:*}" >"$work/ends"
  chmod +x "$work/ends"
  : >"$FAKE_REQUEUED"
  code=0
  FAKE_START='' TRAINER=$work/ends RANK_OPTIONS=--ntasks=2 SLURM_JOB_ID=1 \
    bash "$here/../../scripts/slurm/train.sbatch" >"$work/log" 2>&1 || code=$?
  [ "$code" = "${pair#*:}" ] || fail "ranks that end with ${pair%:*} make the job end with $code"
  case $code in 75 | 76) queued=1 ;; *) queued=0 ;; esac
  [ "$(wc -l <"$FAKE_REQUEUED")" = "$queued" ] || fail "ranks that end with ${pair%:*} are queued again $(wc -l <"$FAKE_REQUEUED") times"
done
echo "fake: $rounds runs with the bits of an uncut one, $restarts restarts, $resumed of them past step 0"
