#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Follows CONTRIBUTING.md word for word in a copy of the sources. Of each section it counts the files that its blocks make
# and the lines that they add to existing files, and compares with the section's heading; then it builds what they touch and
# runs the tests of what they add. Usage: walkthrough.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1
work=$2
copy=$work/source

rm -rf "$copy" "$work/before" "$work/blocks" "$work/run" "$work/raw_run"
mkdir -p "$copy" "$work/blocks"
cp -r "$source_dir"/{CMakeLists.txt,CMakePresets.json,apps,configs,core,cpu,cuda,docs,mpi,scripts,tests} "$copy"
cp -r "$copy" "$work/before"
trap 'rm -rf "$work/before"' EXIT

fail() {
  echo "walkthrough: $1" >&2
  exit 1
}

# Each block of C++ into a file of its own, NUMBER, its place ("file=core/x.cpp") into NUMBER.place and the heading of its
# section into NUMBER.heading.
awk -v folder="$work/blocks" '
  /^## / { heading = $0 }
  /^```cpp [a-z]+=/ { name = sprintf("%s/%02d", folder, ++blocks); print $2 > (name ".place"); print heading > (name ".heading"); next }
  /^```$/ { name = ""; next }
  name != "" { print > name }' "$source_dir/CONTRIBUTING.md"

apply() { # BLOCK
  local kind path
  IFS='=' read -r kind path <"$1.place"
  case $kind in
    file | test)
      [ ! -e "$copy/$path" ] || fail "$path is there already"
      cp "$1" "$copy/$path"
      ;;
    line) # after the first line of the first table
      sed -i "0,/^#define TRAINER_[A-Z_]*(row) /{/^#define TRAINER_[A-Z_]*(row) /r $1
}" "$copy/$path"
      ;;
    struct)
      local name
      name=$(sed -n 's/^struct \([A-Za-z]*\) .*/\1/p' "$1")
      awk -v rule="$1" '
        /^\/\/\/ The closing list/ { while ((getline line < rule) > 0) print line; print "" }
        { print }' "$work/before/$path" | sed "/^using .* = std::variant</,/>;\$/ s/>;\$/, $name>;/" >"$copy/$path"
      grep -q ", $name>;" "$copy/$path" || fail "the closing list was not found in $path"
      ;;
    *) fail "a block has no place that is known: $kind" ;;
  esac
}

# The cost of a section's blocks, in the words of its heading: "1 file, 1 line".
cost() { # BEFORE
  { TZ=UTC diff -rN -U0 "$1" "$copy" || true; } | awk '
    function several(count, what) { return count " " what (count == 1 ? "" : "s") }
    /^--- / { existed = $0 !~ /1970-01-01/; next }
    /^\+\+\+ / {
      is_test = $2 ~ /_test\.cpp$/ && heading ~ /test/
      is_fuzzer = $2 ~ /\/tests\/fuzz\//
      if (!existed) { tests += is_test; fuzzers += is_fuzzer; files += !is_test && !is_fuzzer }
      path = $2; next
    }
    /^\+/ && existed { ++lines[path]; ++all }
    END {
      for (path in lines) if (lines[path] > 1) ++edited
      text = edited ? several(edited, "edited file") : ""
      if (files) text = text (text ? ", " : "") several(files, "file")
      if (!edited && all) text = text (text ? ", " : "") several(all, "line")
      if (tests) text = text ", " several(tests, "test")
      if (fuzzers) text = text ", " several(fuzzers, "fuzzer")
      print text
    }' heading="$2"
}

check_section() { # HEADING
  local stated found
  stated=${1##*: }
  found=$(cost "$work/state" "$stated")
  [ "$found" = "$stated" ] || fail "\"$1\" costs $found"
  echo "walkthrough: ${1#\#\# }"
}

section=""
for place in "$work"/blocks/*.place; do
  block=${place%.place}
  heading=$(<"$block.heading")
  if [ "$heading" != "$section" ]; then
    [ -z "$section" ] || check_section "$section"
    section=$heading
    rm -rf "$work/state"
    cp -r "$copy" "$work/state"
  fi
  apply "$block"
done
check_section "$section"
rm -rf "$work/state"

# Built like this test's own build, whose objects are reused unless the walk-through or an option has changed them.
main=$(dirname "$work") build=$copy/build/release
mkdir -p "$build"
export ORIGINAL=$source_dir ORIGINAL_BUILD=$main COPY=$copy COPY_BUILD=$build
# Optimising the others takes longer than running them.
export OPTIONS=-O0
# With CUDA as the build of the originals, so that the handlers of kernels are the same objects.
mapfile -t cuda < <(sed -nE 's/^((TRAINER_CUDA|CMAKE_CUDA_ARCHITECTURES):[A-Z]+=.*)$/-D\1/p' "$main/CMakeCache.txt")
cmake --preset release -S "$copy" -B "$build" -DTRAINER_TESTS=ON "${cuda[@]}" \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$source_dir/tests/reuse_objects.sh" >"$work/configure.log" || fail "$(cat "$work/configure.log")"
targets=(trainer test_ops test_passes)
# Only CMake's own messages excuse a missing emulation: a renamed target must not count as one.
emulation=test_cuda_emulation_checked
! grep "CUDA kernels are not " "$work/configure.log" || emulation=
targets+=(${emulation:+"$emulation"})
cmake --build "$build" --target "${targets[@]}" >"$work/build.log" || fail "$(tail -n 30 "$work/build.log")"

run_tests() { # PROGRAM NAMES
  "$build/bin/$1" "$2" >"$work/$1.log" || fail "$(tail -n 40 "$work/$1.log")"
  grep -q "All tests passed" "$work/$1.log" || fail "$1 has no test \"$2\""
}
run_tests test_ops "walk-through*"
run_tests test_ops "*every element-wise function*"
run_tests test_ops "*every optimiser*"
run_tests test_passes "walk-through*"
if [ -n "$emulation" ]; then
  for cases in elementwise optimizer cumulative_sum; do
    "$build/bin/$emulation" "every kernel agrees*" -c "add_${cases}_cases" >"$work/emulation.log" || fail "$(tail -n 40 "$work/emulation.log")"
  done
fi

cat >"$work/recipe.yaml" <<'RECIPE'
model:
  input: [1, 8, 8]
  layers:
    - flatten
    - linear: 16
    - celu: {alpha: 0.5}
    - feature_mix: {std: 0.2, name: mix}
    - linear: 4
data: {format: synthetic, synthetic: {train_samples: 256, val_samples: 64}}
training: {max_duration: 20ep, global_batch_size: 32}
optimizer: {name: qhm, lr: 0.2, beta: 0.9}
logging: {interval: 1ba}
RECIPE
trainer=$build/bin/trainer
# A fuzzer needs clang to run; compiling it also shows that it names existing functions.
g++ -std=c++20 -fsyntax-only -I"$copy" "$copy/tests/fuzz/raw_u8.cpp" || fail "the fuzzer does not compile"
python3 -c 'import sys; sys.stdout.buffer.write(b"".join(bytes([i % 2] + [i * 7 % 50 + 100 * (i % 2)] * 64) for i in range(64)))' >"$work/raw"
"$trainer" layers >"$work/layers.txt"
for name in celu feature_mix qhm; do
  grep -q "^  $name " "$work/layers.txt" || fail "the registry does not list $name"
done
"$trainer" plan --config "$work/recipe.yaml" --dump program:after=drop_double_relu >"$work/program.txt" || fail "the pass is not in the order"
"$trainer" --config "$work/recipe.yaml" run.output_dir="$work/run" 2>"$work/train.log" || fail "$(cat "$work/train.log")"
top1=$(sed -n 's/.*"top1": \([0-9.]*\).*/\1/p' "$work/run/summary.json" | head -n 1)
awk -v top1="$top1" 'BEGIN { exit !(top1 > 0.6) }' || fail "the network did not learn: top1 $top1"
echo "walkthrough: a network of them all learnt (top1 $top1)"

"$trainer" --config "$work/recipe.yaml" run.output_dir="$work/raw_run" data.format=raw_u8 data.train="$work/raw" data.val="$work/raw" 2>"$work/raw.log" ||
  fail "$(cat "$work/raw.log")"
grep -q '"top1": 1' "$work/raw_run/summary.json" || fail "the network did not learn from the new format"
truncate -s -1 "$work/raw"
! "$trainer" plan --config "$work/recipe.yaml" data.format=raw_u8 data.train="$work/raw" 2>"$work/raw.log" || fail "a cut file was taken"
grep -q "raw: offset 4159: expected plain records of 65 bytes" "$work/raw.log" || fail "$(cat "$work/raw.log")"
echo "walkthrough: the new format was read"
