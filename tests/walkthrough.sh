#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Follows CONTRIBUTING.md word for word in a copy of the sources: an element-wise function touches one file, a layer
# two, and both then train. Usage: walkthrough.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1
work=$2
copy=$work/source

rm -rf "$copy" "$work/run"
mkdir -p "$copy"
cp -r "$source_dir"/{CMakeLists.txt,CONTRIBUTING.md,apps,configs,core,cpu} "$copy"
mkdir "$copy/cuda" && touch "$copy/cuda/CMakeLists.txt"
cp -r "$copy" "$work/before"
trap 'rm -rf "$work/before"' EXIT

# The Nth block of C++ in CONTRIBUTING.md.
block() { awk -v n="$1" '/^```cpp$/ { ++seen; inside = seen == n; next } /^```$/ { inside = 0 } inside' "$source_dir/CONTRIBUTING.md"; }

changed() { diff -rq "$work/before" "$copy" | wc -l; }

fail() {
  echo "walkthrough: $1" >&2
  exit 1
}

# An element-wise function.
functions=$copy/core/graph/ops/elementwise.h
block 1 >"$work/functor.txt"
awk -v functor="$work/functor.txt" '
  /^\/\/\/ The closing list/ && !done { while ((getline line < functor) > 0) print line; print ""; done = 1 }
  { print }' "$source_dir/core/graph/ops/elementwise.h" |
  sed '/^using Function =/,/>;$/ s/>;$/, Elu>;/' >"$functions"
grep -q ', Elu>;' "$functions" || fail "the closing list was not found in $functions"
[ "$(changed)" -eq 1 ] || fail "an element-wise function touched $(changed) files, not 1"

# A layer.
block 2 >"$copy/core/layers/feature_mix.cpp"
block 3 >"$work/row.txt"
sed -i "/^#define TRAINER_LAYERS(row)/r $work/row.txt" "$copy/core/layers/table.h"
[ "$(changed)" -eq 3 ] || fail "a layer touched $(($(changed) - 1)) files, not 2"

# Built as the release is, relative to its sources, so that ccache serves every file that the walk left alone.
export CCACHE_BASEDIR=$copy CCACHE_NOHASHDIR=1
build=$copy/build/release
cmake -S "$copy" -B "$build" -G Ninja -DTRAINER_TESTS=OFF -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || fail "$(cat "$work/configure.log")"
cmake --build "$build" --target trainer >"$work/build.log" || fail "$(tail -n 30 "$work/build.log")"

cat >"$work/recipe.yaml" <<'RECIPE'
model:
  input: [1, 8, 8]
  layers:
    - flatten
    - linear: 16
    - elu: {alpha: 0.5}
    - feature_mix: {std: 0.2, name: mix}
    - linear: 4
data: {format: synthetic, synthetic: {train_samples: 256, val_samples: 64}}
training: {max_duration: 20ep, global_batch_size: 32}
optimizer: {lr: 0.05, momentum: 0.9}
logging: {interval: 1ba}
RECIPE
trainer=$build/bin/trainer
"$trainer" layers >"$work/layers.txt"
grep -q '^  elu ' "$work/layers.txt" || fail "the registry does not list elu"
grep -q '^  feature_mix ' "$work/layers.txt" || fail "the registry does not list feature_mix"
"$trainer" --config "$work/recipe.yaml" run.output_dir="$work/run" 2>"$work/train.log" || fail "$(cat "$work/train.log")"
top1=$(sed -n 's/.*"top1": \([0-9.]*\).*/\1/p' "$work/run/summary.json" | head -n 1)
awk -v top1="$top1" 'BEGIN { exit !(top1 > 0.6) }' || fail "the network did not learn: top1 $top1"
echo "walkthrough: one file for a function, two for a layer; the network with both learnt (top1 $top1)"
