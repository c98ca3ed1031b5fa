#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One run for each value of a key, one after the other, and a table at the end. As a task of a Slurm array only the task's own.
set -uo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/sweep.sh KEY VALUE... -- --config RECIPE [KEY=VALUE...]
  trains the recipe once with each KEY=VALUE and prints a table of the runs
  example: scripts/sweep.sh training.global_batch_size 32 64 128 -- --config recipe.yaml

  A run that fails is named at the end, and the others are trained. A signal or Ctrl-C saves the current run and ends the sweep.
  The same command goes on there. In a task of a Slurm array (sbatch scripts/slurm/sweep.sbatch) only the task's value is trained.

environment:
  TRAINER  the program (trainer)
  OUTPUT   run directories are OUTPUT/KEY=VALUE (runs/sweep)
  TRAIN    a job script that starts the program in its place; sweep.sbatch sets it

exit code: 0: all runs are finished; 1: some failed; 64: wrong usage; 75 or 130: stopped before the end
TEXT
}

: "${TRAINER:=trainer}"
: "${OUTPUT:=runs/sweep}"
readonly wrong_usage=64 stopped=75 interrupted=130

refuse() {
  echo "sweep: $1" >&2
  exit "$wrong_usage"
}

values=()
read_arguments() {
  case ${1:-} in
    -h | --help) usage && exit 0 ;;
    [a-z]*.*[a-z_]) ;;
    *) usage >&2 && exit "$wrong_usage" ;;
  esac
  key=$1
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    values+=("$1")
    shift
  done
  [ "${#values[@]}" -gt 0 ] || refuse "$key has no values"
  [ "${1:-}" = -- ] || refuse "write -- between the values and what the program gets, as in: -- --config recipe.yaml"
  shift
  words=("$@")
}

# Of a value, which may be a list or a path.
directory_of() { echo "$OUTPUT/$key=${1//[^[:alnum:]._+-]/_}"; }

# The command that trains one value, with its words in `command`.
command_for() { # VALUE
  command=("$TRAINER")
  [ -z "${TRAIN:-}" ] || command=(bash "$TRAIN")
  command+=("${words[@]}" "$key=$1" "run.output_dir=$(directory_of "$1")")
}

# The terminal sends Ctrl-C to the run as well. Signals to this script alone are passed on.
asked='' run=''
trap 'asked=yes' INT
trap 'asked=yes; [ -z "$run" ] || kill -USR1 "$run" 2>/dev/null' TERM HUP USR1

# Waits for a command; its exit code is in `code`.
await() {
  "$@" &
  run=$!
  while kill -0 "$run" 2>/dev/null; do wait "$run"; done
  wait "$run"
  code=$?
  run=
  # Ended by USR1 before the program installed its handler: nothing was lost.
  [ -z "$asked" ] || [ "$code" != 138 ] || code=$stopped
}

train_all() {
  local number=0 value
  for value in "${values[@]}"; do
    number=$((number + 1))
    [ -z "$asked" ] || code=$stopped
    if [ -z "$asked" ]; then
      echo "sweep: $key=$value, run $number of ${#values[@]}"
      command_for "$value"
      await "${command[@]}"
    fi
    case $code in
      0) ;;
      "$stopped" | "$interrupted") echo "sweep: stopped at $key=$value; start the same command again to go on" && return "$code" ;;
      *) failed+=("$key=$value: exit code $code") ;;
    esac
  done
}

read_arguments "$@"
shared=$(for value in "${values[@]}"; do directory_of "$value"; done | sort | uniq -d)
[ -z "$shared" ] || refuse "two values would be trained in $shared"
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
  value=${values[$SLURM_ARRAY_TASK_ID]:-}
  [ -n "$value" ] ||
    refuse "task $SLURM_ARRAY_TASK_ID has no value: there are ${#values[@]}, for --array=0-$((${#values[@]} - 1))"
  command_for "$value"
  trap - INT TERM HUP USR1
  exec "${command[@]}"
fi
[ -n "$(command -v "$TRAINER")" ] || refuse "there is no program $TRAINER: set TRAINER to its path"
code=0 failed=()
train_all
ended=$?
"$TRAINER" runs "$OUTPUT"
for failure in ${failed[@]+"${failed[@]}"}; do echo "sweep: failed: $failure" >&2; done
if [ "$ended" = 0 ] && [ ${#failed[@]} -gt 0 ]; then ended=1; fi
exit "$ended"
