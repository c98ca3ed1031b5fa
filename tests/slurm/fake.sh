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
# Like the real one before its step exists: USR1 is lost, or cancels the step with exit code 0. Then it is the program
# itself.
cat >"$work/bin/srun" <<'TEXT'
#!/bin/bash
[ -z "${FAKE_OPTIONS:-}" ] || echo "$*" | head -1 >>"$FAKE_OPTIONS"
while [[ $1 = --* ]]; do shift; done
printf '%s' "${FAKE_MESSAGES:-}" >&2
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

# The program that a script has started, once it has its handler for TERM: before that it would just be ended.
listening_trainer() { # SCRIPT
  local process mask
  process=$(pgrep -P "$1" -x trainer) || return 0
  mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$process/status") || return 0
  [ "$((16#$mask >> 14 & 1))" = 0 ] || echo "$process"
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
    step) listening_trainer "$batch" | xargs -r kill -TERM || true ;;
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
# Of several ranks: failures that another try may fix are queued again, those that the program itself refuses are not.
# Each case: srun's code, the end of each rank by its messages, the job's code.
ranks_end_with() { # CODE EXPECTED [MESSAGE...]
  local code=0 queued=0 task=0 message
  FAKE_MESSAGES=
  for message in "${@:3}"; do FAKE_MESSAGES+="srun: error: node$task: task $task: $message"$'\n'; task=$((task + 1)); done
  printf '#!/bin/sh\nexit %s\n' "$1" >"$work/ends"
  chmod +x "$work/ends"
  : >"$FAKE_REQUEUED"
  FAKE_MESSAGES=$FAKE_MESSAGES FAKE_START='' TRAINER=$work/ends RANK_OPTIONS=${RANK_OPTIONS---ntasks=2} SLURM_JOB_ID=1 \
    bash "$here/../../scripts/slurm/train.sbatch" >"$work/log" 2>&1 || code=$?
  [ "$code" = "$2" ] || fail "ranks that end with $* make the job end with $code"
  [ -z "$FAKE_MESSAGES" ] || [ "$(grep -c '^srun: error: node' "$work/log")" = $(($# - 2)) ] || fail "messages of srun are missing"
  case $code in 75 | 76) queued=1 ;; esac
  [ "$(wc -l <"$FAKE_REQUEUED")" = "$queued" ] || fail "ranks that end with $* are queued again $(wc -l <"$FAKE_REQUEUED") times"
}
exited="Exited with exit code"
for code in 0 1 2 13 64 65 69 70 71 74 75 76 78 127 143; do ranks_end_with "$code" "$code"; done
for code in 14 63 134 137 139; do ranks_end_with "$code" 76; done
ranks_end_with 143 78 "$exited 78" Terminated
ranks_end_with 75 64 "$exited 64" "$exited 75"
ranks_end_with 143 2 Terminated "$exited 2"
ranks_end_with 137 71 "$exited 71" Killed
ranks_end_with 143 76 Killed Terminated
ranks_end_with 143 143 Terminated Terminated
ranks_end_with 137 76 "$exited 76" Killed
ranks_end_with 76 76 "$exited 76" "$exited 14"
ranks_end_with 75 75 "$exited 75" "$exited 75"
# Of one: a missing program, and TERM that the script was not asked for.
for code in 78 127 143; do RANK_OPTIONS='' ranks_end_with "$code" "$code"; done

# A file that each node copies before the program starts, here with a program that prints it.
cat >"$work/reads" <<'TEXT'
#!/bin/sh
printf 'read %s\n' "$(cat "$STAGED")"
TEXT
# A slow disk.
cat >"$work/bin/cp" <<'TEXT'
#!/bin/sh
[ -z "$FAKE_SLOW" ] || exec sleep 5
exec /bin/cp "$@"
TEXT
cat >"$work/bin/sha256sum" <<'TEXT'
#!/bin/sh
[ -z "$FAKE_SLOW_SUM" ] || exec sleep 60
exec /usr/bin/sha256sum "$@"
TEXT
chmod +x "$work/reads" "$work/bin/cp" "$work/bin/sha256sum"
mkdir "$work/data"
printf samples >"$work/data/train.rec"
staged() { # EXPECTED CODE [VARIABLE=VALUE...]: what the job must print
  local code=0
  : >"$FAKE_REQUEUED"
  env FAKE_START='' TRAINER="$work/reads" SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=2 STAGE="$work/data/train.rec" STAGE_TO="$work/node" \
    "${@:3}" bash "$here/../../scripts/slurm/train.sbatch" >"$work/log" 2>&1 || code=$?
  [ "$code" = "$2" ] || fail "a job that stages ends with $code instead of $2"
  grep -q "$1" "$work/log" || fail "a job that stages does not print '$1'"
  [ "$code" = 0 ] || ! grep -q "^read" "$work/log" || fail "the program has started without its file"
}
staged "^read samples" 0 FAKE_OPTIONS="$work/options"
grep -q -- "^--nodes=2 --ntasks=2 --ntasks-per-node=1 " "$work/options" || fail "not one copy on each node"
printf damaged >"$work/node/train.rec"
staged "^read samples" 0
chmod a-w "$work/node/train.rec"
touch -d 2000-01-01 "$work/node/train.rec"
staged "^read samples" 0
[ "$(date -r "$work/node/train.rec" +%Y)" = 2000 ] || fail "an intact copy is copied again"
rm "$work/node/train.rec"
(cd "$work/data" && sha256sum train.rec >train.rec.sha256)
staged "^read samples" 0
printf other >"$work/data/train.rec"
rm "$work/node/train.rec"
staged "does not have the SHA-256 $(cut -c1-64 "$work/data/train.rec.sha256")" 65
[ -z "$(ls "$work/node")" ] || fail "a wrong copy is left on the node"
# What is there already stays: another job's file of that name, and the file itself.
printf another >"$work/node/train.rec"
staged "does not have the SHA-256" 65
[ "$(cat "$work/node/train.rec")" = another ] || fail "a wrong copy replaces another file"
rm "$work/node/train.rec"
ln -s data "$work/same"
staged "choose one on each node's own disk" 64 STAGE_TO="$work/same"
[ "$(cat "$work/data/train.rec")" = other ] || fail "the file that is to be copied is gone"
staged "must be a file" 64 STAGE="$work/data"
staged "must be a file" 64 STAGE="$work/nowhere"
staged "a folder on each node's own disk" 64 STAGE_TO=
staged "cannot copy" 74 STAGE_TO="$work/data/train.rec/below"
stopped_while() { # WORD VARIABLE: what the job prints when it begins, and what makes that slow
  : >"$work/log"
  export "$2=yes"
  staged "ended with 75" 75 &
  unset "$2"
  until grep -qs "$1" "$work/log"; do sleep 0.01; done
  pkill -USR1 -P $! -x bash || true
  wait $! || exit 1
  [ "$(cat "$FAKE_REQUEUED")" = 1 ] || fail "stopped by a signal ($1), but not queued again"
}
stopped_while copying FAKE_SLOW
rm "$work/data/train.rec.sha256"
begun=$SECONDS
stopped_while "adding up" FAKE_SLOW_SUM
[ $((SECONDS - begun)) -lt 30 ] || fail "a signal waits for the file's sum"
echo "fake: $rounds runs with the bits of an uncut one, $restarts restarts, $resumed of them past step 0"
