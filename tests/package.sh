#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The package of a build, unpacked elsewhere: the program takes every library but glibc's from within, and trains.
#   tests/package.sh SOURCES BUILD WORKSPACE
set -euo pipefail
sources=$1 build=$2 workspace=$3
rm -rf "$workspace"
mkdir -p "$workspace/unpacked"
cd "$workspace"
tests=()
[ ! -e "$build/bin/libtrainer_cuda.so" ] || tests=(--with-tests)
"$sources/scripts/package.sh" --build "$build" ${tests[@]+"${tests[@]}"} "$workspace"
tar -xzf trainer-*.tar.gz -C unpacked --strip-components=1

outside=$(env -u LD_LIBRARY_PATH ldd unpacked/bin/trainer | sed -nE 's/^\s*(\S+) => (\S+).*/\1 \2/p' | sort -u |
  grep -v " $workspace/unpacked/" |
  grep -vE '^(ld-linux|linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|libcuda|libcudart|libcudnn|libcublas|libnvrtc|libnvidia)[^ ]*\.so' || true)
if [ -n "$outside" ]; then
  echo "package: taken from outside:" >&2
  echo "$outside" >&2
  exit 1
fi
for package in libcli11-dev nlohmann-json3-dev libprotozero-dev libsodium23 libxxhash-dev; do [ -s "unpacked/share/doc/trainer/licences/$package" ]; done
[ "$(find unpacked/share/doc/trainer/licences -type f -size +0 | wc -l)" -ge 5 ]

cat >recipe.yaml <<'TEXT'
version: 1
model: {input: [1, 8, 8], layers: [{conv2d: {out_channels: 4, kernel_size: 3}}, relu, flatten, {linear: 10}]}
data: {format: synthetic, synthetic: {train_samples: 64, val_samples: 32}}
training: {max_duration: 1ep, global_batch_size: 16}
device: {type: cpu}
TEXT
env -i unpacked/bin/trainer --config recipe.yaml run.output_dir=run
grep -q '"finished": true' run/summary.json

# The tests for a GPU need nothing of the build; without one they report the skipped parts.
if [ -e unpacked/bin/test_cuda ]; then
  ! grep -qF "$build/" unpacked/bin/test_cuda || { echo "package: test_cuda names files of the build" >&2 && exit 1; }
  env -i ${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} unpacked/bin/test_cuda >test_cuda.log 2>&1 || {
    tail -n 30 test_cuda.log >&2
    exit 1
  }
  # With the stand-in in place of the library they need no GPU: they open files at the places that the package has.
  if [ -e "$build/standin/libtrainer_cuda.so" ]; then
    cp -r unpacked standin
    cp "$build/standin/libtrainer_cuda.so" standin/lib/
    env -i standin/bin/test_cuda "the library*,*memory*,*monitor*,sums*" >test_cuda.log 2>&1 && ! grep "skipped:" test_cuda.log || {
      tail -n 30 test_cuda.log >&2
      exit 1
    }
  fi
fi
