#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A compiler launcher for a copy of the sources. It takes over an object that the build of the originals has made by the
# same command of the same files, and compiles the others, with what OPTIONS adds.
#   ORIGINAL=DIR ORIGINAL_BUILD=DIR COPY=DIR COPY_BUILD=DIR [OPTIONS=...] reuse_objects.sh COMPILER ARGUMENTS...
set -euo pipefail
list=$COPY_BUILD/reusable.txt
# Before there are commands, CMake tries the compiler.
[ -f "$COPY_BUILD/compile_commands.json" ] || exec "$@"

words=("$@")
for ((i = 0; i < $#; ++i)); do
  case ${words[i]} in
    -o) output=${words[i + 1]} ;;
    -MF) depends=${words[i + 1]} ;;
  esac
done
# The first of several compilations makes the list.
if [ ! -f "$list" ]; then
  exec 9>"$list.lock"
  flock 9
  if [ ! -f "$list" ]; then
    python3 "$(dirname "$0")/reusable_objects.py" "$ORIGINAL" "$ORIGINAL_BUILD" "$COPY" "$COPY_BUILD" >"$list.part"
    mv "$list.part" "$list"
  fi
  exec 9>&-
fi
# A precompiled header only serves files compiled with the same options.
[[ -z ${OPTIONS:-} || ${output:-} != *.gch ]] || output=""
# shellcheck disable=SC2086 # several options
grep -qxF "${output:-none}" "$list" || exec "$@" ${OPTIONS:-}
cp "$ORIGINAL_BUILD/$output" "$output"
[ -z "${depends:-}" ] || echo "$output:" >"$depends"
