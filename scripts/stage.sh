# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# To be sourced: stage NAME COMMAND... prints the name, runs the command, prints the seconds it took, and those of processors.

# Of all processes that the shell PID has started and waited for.
processor_seconds() { # PID
  awk -v ticks="$(getconf CLK_TCK)" '{ print int(($16 + $17) / ticks) }' "/proc/$1/stat"
}

# The command sees these variables, so their names are not those of its own: a `failed` here once hid failed tests.
stage() {
  local stage_name=$1 stage_begin=$SECONDS stage_status=0 stage_shell=$BASHPID stage_used stage_failed=
  stage_used=$(processor_seconds "$stage_shell")
  shift
  printf '\n== %s\n' "$stage_name"
  "$@" || stage_status=$?
  [ "$stage_status" -eq 0 ] || stage_failed=' FAILED after'
  printf '== %s:%s %d s (%d s of processors)\n' "$stage_name" "$stage_failed" $((SECONDS - stage_begin)) \
    $(($(processor_seconds "$stage_shell") - stage_used))
  return "$stage_status"
}
