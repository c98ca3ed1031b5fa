#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sweeps with the real program: all values, one that fails, a stop, and a task of an array.
#   tests/sweep.sh TRAINER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sweep=$here/../scripts/sweep.sh
TRAINER=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TRAINER OUTPUT=$work/runs OMP_WAIT_POLICY=passive
unset "${!SLURM_@}" TRAIN
readonly fixed=(-- --config "$here/slurm/recipe.yaml" training.max_duration=200ba)

fail() {
  echo "sweep: $1" >&2
  cat "$work/out" "$work/err" >&2
  exit 1
}

expect() { # CODE ARGUMENT...
  local wanted=$1 code=0
  shift
  "$sweep" "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" = "$wanted" ] || fail "$* ends with $code, not $wanted"
}

shows() { grep -qE "$1" "$work/out" "$work/err" || fail "no \"$1\""; }
shows_not() { ! grep -qE "$1" "$work/out" "$work/err" || fail "\"$1\""; }

# Usage.
expect 0 --help
shows '^usage: scripts/sweep.sh KEY VALUE'
expect 64
expect 64 batch 8 "${fixed[@]}"
expect 64 training.global_batch_size "${fixed[@]}"
shows 'has no values'
expect 64 training.global_batch_size 8
shows 'write -- between'
expect 64 optimizer.lr 0.1 0.1 "${fixed[@]}"
shows 'two values would be trained in .*optimizer.lr=0.1'
TRAINER=$work/absent expect 64 optimizer.lr 0.1 "${fixed[@]}"
shows 'there is no program .*absent: set TRAINER'
[ ! -e "$OUTPUT" ] || fail "wrong usage has trained something"

# All values, one of which the recipe refuses: the others are trained, the table is last.
expect 1 training.global_batch_size 8 -3 16 "${fixed[@]}"
shows '^sweep: training.global_batch_size=16, run 3 of 3$'
for size in 8 16; do shows "^training.global_batch_size=$size +finished +$size +200/200 "; done
shows '^sweep: failed: training.global_batch_size=-3: exit code 78$'
[ "$(sed -n '$p' "$work/out" | cut -d = -f 1)" = training.global_batch_size ] || fail "the table does not come last"
[ "$(grep -c '^run  *state ' "$work/out")" = 1 ] || fail "expected one table"
expect 0 training.global_batch_size 8 16 "${fixed[@]}"
shows 'this run is finished'
shows_not 'failed'
# A value that cannot be a file name.
expect 0 model.layers '[flatten, {linear: 10}]' "${fixed[@]}"
[ -s "$OUTPUT/model.layers=_flatten___linear__10__/model.safetensors" ] || fail "no run of a list"

# A signal to the script alone: the current run is saved, the others do not begin, and the same command continues.
long=(optimizer.lr 0.01 0.02 "${fixed[@]}" training.max_duration=100000ba)
code=0
: >"$work/err" # it still reports the earlier runs
"$sweep" "${long[@]}" >"$work/out" 2>"$work/err" &
until grep -q 'step 1/' "$work/err"; do sleep 0.05; done
kill -TERM $!
wait $! || code=$?
[ "$code" = 75 ] || fail "a stopped sweep ends with $code"
shows '^saved after step'
shows '^sweep: stopped at optimizer.lr=0.01; start the same command again'
shows '^optimizer.lr=0.01 +saved '
[ ! -e "$OUTPUT/optimizer.lr=0.02" ] || fail "the sweep went on after a stop"
expect 0 "${long[@]}"
shows '^resuming after step [1-9]'
shows '^optimizer.lr=0.02 +finished +0.02 +8 +100000/'

# A run that was interrupted twice ends the sweep too.
# shellcheck disable=SC2016
printf '#!/bin/sh\n[ "$1" = runs ] || { echo one; exit 130; }\n' >"$work/interrupted"
chmod +x "$work/interrupted"
TRAINER=$work/interrupted expect 130 optimizer.lr 1 2 "${fixed[@]}"
[ "$(grep -c '^one$' "$work/out")" = 1 ] || fail "it went on after 130"

# In an array only the task's value, by the job script, which becomes its process.
printf 'echo "$$ $*"; exit 7\n' >"$work/job"
export SLURM_ARRAY_TASK_ID=1 TRAIN=$work/job
expect 7 optimizer.lr 1 2 3 -- seed=4
shows '^[0-9]+ seed=4 optimizer.lr=2 run.output_dir=.*/optimizer.lr=2$'
SLURM_ARRAY_TASK_ID=3 expect 64 optimizer.lr 1 2 3 -- seed=4
shows 'task 3 has no value: there are 3, for --array=0-2'
echo "sweep: passed"
