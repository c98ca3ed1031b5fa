# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# To be sourced: stage NAME COMMAND... prints the name, runs the command, prints the seconds it took.

stage() {
  local name=$1 begin=$SECONDS status=0
  shift
  printf '\n== %s\n' "$name"
  "$@" || status=$?
  if [ "$status" -ne 0 ]; then
    printf '== %s: FAILED after %d s\n' "$name" $((SECONDS - begin))
  else
    printf '== %s: %d s\n' "$name" $((SECONDS - begin))
  fi
  return "$status"
}
