#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a trained network: installs what is missing, builds, trains a CNN on Fashion-MNIST.
# Arguments go to the program: scripts/quickstart.sh training.max_duration=1ep
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
scripts/build.sh
device=() # the quickstart should continue with a GPU for which nothing could be built
[ -e build/release/bin/libtrainer_cuda.so ] || device=(device.type=cpu)
build/release/bin/trainer --config configs/fashion_mnist_cnn.yaml ${device[@]+"${device[@]}"} "$@"

cat <<TEXT

The program is $PWD/build/release/bin/trainer. To have the command \`trainer\`, install it:
  cmake --install build/release --prefix ~/.local     # ~/.local/bin must be on PATH
or put the build on PATH:
  export PATH=$PWD/build/release/bin:\$PATH
TEXT
