# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# To be sourced: stage NAME COMMAND... prints the name, runs the command, prints the seconds it took, and those of processors.

# Of all processes that the shell PID has started and waited for.
processor_seconds() { # PID
  awk -v ticks="$(getconf CLK_TCK)" '{ print int(($16 + $17) / ticks) }' "/proc/$1/stat"
}

stage() {
  local name=$1 begin=$SECONDS status=0 shell=$BASHPID used failed=
  used=$(processor_seconds "$shell")
  shift
  printf '\n== %s\n' "$name"
  "$@" || status=$?
  [ "$status" -eq 0 ] || failed=' FAILED after'
  printf '== %s:%s %d s (%d s of processors)\n' "$name" "$failed" $((SECONDS - begin)) $(($(processor_seconds "$shell") - used))
  return "$status"
}
