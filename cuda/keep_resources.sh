#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A launcher of nvcc. What ptxas prints of each kernel (registers, spills, shared memory) goes to OBJECT.resources, for
# scripts/gpu/kernel_table.py; everything else is printed as before.
#   cuda/keep_resources.sh COMPILER ARGUMENTS... -o OBJECT
set -uo pipefail
words=("$@")
object=""
for ((i = 0; i < $#; ++i)); do
  [ "${words[i]}" != -o ] || object=${words[i + 1]}
done
[[ $object == *.cu.o ]] || exec "$@"
status=0
"$@" -Xptxas=-v 2>"$object.said" || status=$?
said='^ptxas info|bytes stack frame, [0-9]+ bytes spill'
grep -E "$said" "$object.said" >"$object.resources"
grep -vE "$said" "$object.said" >&2
rm -f "$object.said"
exit "$status"
