#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a trained network: installs what is missing, builds, trains a CNN on Fashion-MNIST.
# Arguments go to the program: scripts/quickstart.sh training.max_duration=1ep
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
cmake --preset release -DTRAINER_CUDA=auto
cmake --build --preset release -j "$(nproc)" --target trainer
exec build/release/bin/trainer --config configs/fashion_mnist_cnn.yaml "$@"
