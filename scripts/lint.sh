#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting, rules of the source tree and clang-tidy. Each finding is one line: file:line: what is wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/stage.sh
source scripts/stage.sh

# Files that are tracked, or not yet added.
list() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    [ ! -f "$file" ] || printf '%s\n' "$file"
  done
}

# Runs a rule, which prints its findings; any output, including errors of its own tools, is a failure.
rule() {
  local found
  found=$("$1" 2>&1 || true)
  [ -z "$found" ] || { printf '%s\n' "$found" && return 1; }
}

# Release 14 by preference: other releases format differently and have other checks.
tool() {
  command -v "$1-14" || command -v "$1" || {
    echo "lint: $1 not found: run scripts/setup.sh --lint" >&2
    exit 69
  }
}

sources=('*.h' '*.cpp' '*.cu' '*.cuh')
scripts=('*.sh' '*.sbatch' '*.py' '*.cmake' '*CMakeLists.txt' '*.yaml' '*.yml' .ci/run .clang-tidy)
text=("${sources[@]}" "${scripts[@]}" '*.json' '*.md' '*.txt' .clang-format .gitignore LICENSE)

check_format() {
  local format
  format=$(tool clang-format)
  list "${sources[@]}" | xargs -d '\n' "$format" --dry-run -Werror
}

check_spdx() {
  list "${sources[@]}" "${scripts[@]}" | xargs -d '\n' awk '
    FNR <= 2 && /SPDX-License-Identifier: Apache-2.0$/ { found[FILENAME] = 1 }
    FNR > 2 { nextfile }
    END {
      for (i = 1; i < ARGC; ++i) {
        if (!found[ARGV[i]]) print ARGV[i] ":1: no \047SPDX-License-Identifier: Apache-2.0\047 in the first two lines"
      }
    }'
}

# The folders that each folder may include: a list of files or folders. The folders under core/ count one by one.
check_includes() {
  list "${sources[@]}" | xargs -d '\n' grep -HnE '^[[:space:]]*#[[:space:]]*include' | awk '
    BEGIN {
      base = "core/base/"; config = base " core/config/"; graph = base " core/graph/"
      engine = graph " core/engine/"
      may["core/base"] = base
      may["core/config"] = config
      may["core/graph"] = graph
      may["core/engine"] = engine
      may["core/pruning"] = graph " core/pruning/"
      may["core/passes"] = engine " core/passes/"
      may["core/layers"] = graph " core/config/ core/layers/"
      may["core/tasks"] = graph " core/config/ core/layers/ core/tasks/"
      may["core/data"] = config " core/data/ core/storage/ core/text/ core/engine/buffer.h core/graph/names.h"
      may["core/text"] = base " core/text/"
      may["core/storage"] = base " core/storage/"
      may["core/export"] = graph " core/storage/ core/export/"
      may["core/import"] = config " core/storage/ core/text/utf8.h core/import/"
      may["core/host"] = base " core/host/"
      may["core/ranks"] = base " core/host/ core/ranks/"
      may["core/metrics"] = base " core/host/ core/storage/ core/metrics/"
      may["core/track"] = base " core/host/ core/storage/ core/metrics/ core/track/"
      may["core/quantization"] = base " core/quantization/"
      may["core/optim"] = graph " core/config/ core/optim/"
      may["core/step"] = engine " core/config/ core/layers/ core/optim/ core/passes/ core/quantization/ core/step/ core/tasks/"
      may["core/train"] = engine " core/config/ core/data/ core/storage/ core/host/ core/metrics/ core/optim/ core/pruning/ core/quantization/ core/step/ core/tasks/ core/train/"
      may["core/run"] = may["core/train"] " core/run/"
      may["core/report"] = base " core/metrics/ core/run/ core/search/ core/sweep/ core/report/"
      may["core/search"] = base " core/search/"
      may["core/recipe"] = may["core/run"] " core/text/ core/passes/ core/layers/ core/pruning/ core/search/ core/track/ core/recipe/"
      may["core/sweep"] = may["core/recipe"] " core/sweep/"
      may["core/session"] = may["core/tune"] = "core/"
      may["cpu"] = engine " cpu/"
      may["cuda"] = engine " cuda/"
      may["mpi"] = engine " mpi/"
      may["apps"] = "core/ cpu/backend.h apps/"
      may["tests"] = "core/ cpu/ cuda/ mpi/ apps/ tests/"
      # Headers of libraries: the files that may include them.
      lib["yaml-cpp/"] = "^core/config/.*[.]cpp$"
      lib["CLI/"] = "^apps/.*[.]cpp$"
      lib["oneapi/"] = lib["dnnl"] = "^(cpu|tests)/"
      lib["nlohmann/"] = "^(core/base/json[.]cpp|tests/.*[.]cpp)$"
      lib["zlib.h"] = lib["jpeglib.h"] = lib["jerror.h"] = lib["jpegint.h"] = lib["png.h"] = lib["webp/"] = lib["gif_lib.h"] = lib["tiffio.h"] = lib["avif/"] = lib["openjpeg.h"] = lib["xxhash.h"] = "[.]cpp$"
      lib["pcre2.h"] = lib["sentencepiece"] = lib["utf8proc.h"] = "^core/text/.*[.]cpp$"
      lib["protozero/"] = "^(core/(data|export|import|metrics|text|track)|tests/text)/.*[.]cpp$"
      lib["zip.h"] = "^core/import/.*[.]cpp$"
      lib["sodium.h"] = "^core/ranks/.*[.]cpp$"
      lib["curl/"] = "^core/track/"
      lib["catch2/"] = "^tests/"
      lib["mpi.h"] = "^mpi/"
      lib["cuda"] = lib["cublas"] = lib["cudnn"] = lib["nccl"] = "^(cuda|tests/cuda_emulation|tests/cuda_standin)/"
    }
    function starts(text, prefix) { return substr(text, 1, length(prefix)) == prefix }
    function finding(text) { print file ":" line ": " text }
    {
      file = $0; sub(/:.*/, "", file)
      line = substr($0, length(file) + 2); sub(/:.*/, "", line)
      if ($0 ~ /include TRAINER_EMULATED_DEVICE$/) next
      if (!match($0, /["<][^">]*[">]/)) { finding("an include that is neither \"file\" nor <header>"); next }
      target = substr($0, RSTART + 1, RLENGTH - 2); quoted = substr($0, RSTART, 1) == "\""
      if (quoted && target !~ /\.(h|cuh)$/) { finding("\"" target "\": only headers are included"); next }
      if (target ~ /(^|\/)\.\.?\//) { finding("\"" target "\": write includes from the root"); next }
      if (!quoted) {
        for (prefix in lib) {
          if (starts(target, prefix) && file !~ lib[prefix]) finding("<" target "> may only stand in " lib[prefix])
        }
        next
      }
      split(file, part, "/")
      folder = part[1] == "core" ? "core/" part[2] : part[1]
      if (!(folder in may)) { finding("folder " folder " has no include rule in scripts/lint.sh"); next }
      count = split(may[folder], allowed, " "); ok = 0
      for (i = 1; i <= count; ++i) if (starts(target, allowed[i])) ok = 1
      if (!ok) finding("\"" target "\": " folder " may include only " may[folder])
    }'
}

check_headers() {
  list '*.h' '*.cuh' | xargs -d '\n' grep -c '^#pragma once$' | sed -n '/:1$/!s/:[0-9]*$/:1: expected one \x27#pragma once\x27/p'
}

check_compiler_switches() {
  list "${sources[@]}" | grep -vE '^(core/base/host_device|cuda/launch)\.h$' |
    xargs -d '\n' grep -HnE '^[[:space:]]*#[[:space:]]*(if|elif).*(CUDA|NVCC)' |
    sed 's/$/   <- only core\/base\/host_device.h and cuda\/launch.h may ask for CUDA/'
}

# An operand is identified by its place, which has a name (core/graph/ops/), never by the number of operands.
# Loops over all of them are allowed. Files that may compare or compute with their number:
#   core/graph/operation.cpp, verify.cpp   check the number itself
#   core/engine/device.h, planner.h, tests/reference/loop.h   ask for an output that the operation may not have
#   core/graph/ops/for_each.cpp, cuda/loss_scale.cpp   take a list: of sets of tensors, of gradients
check_operands() {
  local number='((in|out)puts(\(\))?|\<(in|out))\.size\(\)' operator='(==|!=|<=|>=|<|>|\+|-|\*|/|%)'
  list {core/{engine,graph,layers,optim,passes,recipe,tasks},cpu,cuda,mpi,apps,tests/reference}/'*.'{h,cpp,cu,cuh} |
    grep -vE '^(core/graph/(operation|verify|ops/for_each)\.cpp|core/engine/(device|planner)\.h|cuda/loss_scale\.cpp|tests/reference/loop\.h)$' |
    xargs -d '\n' grep -HnE "$number $operator( |$)| $operator ([A-Za-z_.()]|->)*$number" |
    grep -vE -e ':[0-9]+:.*\<for \(' -e '^core/layers/.*\<in\.size\(\)' |
    sed 's/$/   <- operands have names, and an absent one is kNone: their number says nothing/'
}

# Paths of one machine. The install paths of NVIDIA and Debian are the same everywhere, and named in the code that needs
# them.
check_paths() {
  list "${text[@]}" | grep -v -e '^LICENSE$' -e '^scripts/lint\.sh$' | xargs -d '\n' grep -HnE \
    '(^|[^[:alnum:]_./}-])/(work|tmp|home|root|opt|mnt|scratch|usr/local|usr/share)(/|[^[:alnum:]_-]|$)' |
    grep -vE \
      -e '^(scripts/[^:]*|[^:]*\.cmake|([^:]*/)?CMakeLists\.txt|[^:]*\.md):[0-9]+:.*/usr/local/cuda' \
      -e '^(configs/[^:]*|scripts/[^:]*|tests/[^:]*|[^:]*\.md):[0-9]+:.*/usr/share/(datasets|doc)' |
    sed 's/$/   <- a path of one machine/'
}

# Control characters, carriage returns, and the invisible ones that reorder or hide text.
check_characters() {
  list "${text[@]}" | LC_ALL=C.UTF-8 xargs -d '\n' grep -aHnP \
    '[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}]' |
    LC_ALL=C sed -E 's/^([^:]*:[0-9]+):.*/\1: a control or invisible character/'
}

# Builds do not detect a file's missing includes: they read several files as one, after precompiled headers.
check_included() {
  list "${sources[@]}" | xargs -d '\n' python3 scripts/includes.py
}

# The same with certainty, in minutes: each file is compiled by itself, after the precompiled headers of a plain build.
# clang++ takes two thirds of g++'s time: its precompiled headers hold the templates that they instantiate.
check_alone() {
  local database=build/alone headers commands status=0
  tool clang++ >/dev/null
  cmake --preset alone >/dev/null
  mapfile -t headers < <(ninja -C "$database" -t targets all | sed -n 's/^\(.*\.pch\): .*/\1/p')
  ninja -C "$database" "${headers[@]}" >/dev/null
  # Each command of the database without its output, and with one level of JSON's backslashes gone. nvcc has no -fsyntax-only:
  # most of its files are compiled for the emulation too.
  commands=$(sed -nE 's/^ *"command": "(.*) -o [^ ]+ -c (.*)",?$/\1 -fsyntax-only \2/; T; s/\\(.)/\1/g; p' "$database/compile_commands.json" |
    grep -v -e '/nvcc ' -e ' -emit-pch ')
  [ -n "$commands" ] || { echo "lint: no commands were found in $database/compile_commands.json" && return 1; }
  (cd "$database" && xargs -d '\n' -P "$(nproc)" -n 1 bash -c <<<"$commands") || status=$?
  echo "$(wc -l <<<"$commands") files"
  return "$status"
}

# Reads files as the build does, several as one: most of the time goes into the headers.
check_tidy() {
  local database=build/lint log=build/clang-tidy.log status=0 tidy units sources
  tidy=$(tool clang-tidy)
  cmake --preset lint >/dev/null
  # The commands are g++'s: clang does not support all its warnings, and brings no <omp.h>.
  run-clang-tidy -quiet -clang-tidy-binary "$tidy" -p "$database" -j "$(nproc)" \
    -extra-arg=-Wno-unknown-warning-option "-extra-arg=-idirafter$(g++ -print-file-name=include)" \
    -checks=-bugprone-suspicious-include >"$log" 2>&1 || status=$?
  sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -vE '^[^ ]*clang-tidy|warnings? (generated|treated)|^$' || true
  units=$(grep -E '^[^ ]*clang-tidy[^ ]* ' "$log" | grep -oE '[^ ]+$')
  # A unit consists only of includes, unless it is a source that is read alone.
  sources=$(xargs -d '\n' awk '/^#include "\// && FILENAME ~ /\/Unity\// { ++n } FILENAME !~ /\/Unity\// && FNR == 1 { ++n } END { print n }' <<<"$units")
  echo "$sources files in $(wc -l <<<"$units") units"
  return "$status"
}

fast=yes tidy=yes
case ${1:-} in
  "") ;;
  --fast) tidy=no ;;
  --tidy) fast=no ;;
  --alone)
    stage "files by themselves" check_alone
    exit
    ;;
  *)
    echo "usage: scripts/lint.sh [--fast | --tidy | --alone]" >&2
    echo "       --fast: what compiles nothing; --tidy: the rest; --alone: each file compiles without the others" >&2
    exit 64
    ;;
esac

failed=0
if [ "$fast" = yes ]; then
  stage "format" check_format || failed=1
  stage "licence lines" rule check_spdx || failed=1
  stage "include directions" rule check_includes || failed=1
  stage "names without their header" rule check_included || failed=1
  stage "header guards" rule check_headers || failed=1
  stage "CUDA switches" rule check_compiler_switches || failed=1
  stage "operands by name" rule check_operands || failed=1
  stage "machine paths" rule check_paths || failed=1
  stage "control characters" rule check_characters || failed=1
fi
if [ "$tidy" = yes ]; then
  stage "clang-tidy" check_tidy || failed=1
fi
exit "$failed"
