#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What only a machine with an NVIDIA GPU can show, as rows of docs/gpu-evidence.tsv (scripts/gpu/rows.py has their commands).
#
#   scripts/gpu/check.sh [--package TARBALL] [--results DIRECTORY] [--missing] [--minutes N] [PART | ROW]...
#
# PART       correct, speed, features, fusion, products, profiles, text, tools, ranks, division, or with several GPUs gpus and llama, each at most six minutes after the build, in any order; by default those for one GPU
# ROW        an id of docs/gpu-evidence.tsv
# --package  made by `scripts/package.sh --with-tests`; without it the sources are built here (build/gpu)
# --results  gets evidence.tsv, to which each call adds, and all logs (default: build/gpu-check)
# --missing  leaves out rows that already have a figure there
# --minutes  leaves out rows that could take longer than the rest of this time after the build
# PYTHON names an interpreter that has torch; DATA a folder with Fashion-MNIST; SCALING_RUN a run on 128 GPUs; TRAINER_COMMIT the commit where there is no git.
# Exit codes: 0 all passed, 64 usage, 69 no GPU here, 70 something failed or could not run, 75 rows are left.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

package="" results=build/gpu-check missing="" minutes="" words=()
while [ $# -gt 0 ]; do
  case $1 in
    --package) package=${2:?"--package needs a tarball"}; shift ;;
    --results) results=${2:?"--results needs a directory"}; shift ;;
    --missing) missing=1 ;;
    --minutes)
      minutes=${2:?"--minutes needs a number"}
      [[ $minutes =~ ^[0-9]+$ ]] || { echo "check: --minutes: expected a whole number, got '$minutes'" >&2; exit 64; }
      shift
      ;;
    -h | --help) sed -n '3,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "check: unknown argument '$1'; see --help" >&2; exit 64 ;;
    *) words+=("$1") ;;
  esac
  shift
done
[ ${#words[@]} -gt 0 ] || words=(correct speed features fusion products profiles text tools ranks division)

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
if [ -z "$gpu" ]; then
  echo "check: no GPU on this machine: nvidia-smi is missing or lists none; run it where there is one" >&2
  exit 69
fi
commit=${TRAINER_COMMIT:-$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)}
python=${PYTHON:-python3}
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
# NVIDIA's libraries, if they were installed as Python packages.
for folder in $("$python" -c 'import glob, sys
for path in sys.path: print(*glob.glob(path + "/nvidia/*/lib"))'); do
  LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
mkdir -p "$results"
results=$(realpath "$results")
nvidia-smi >"$results/nvidia-smi.txt"
if [ -n "$package" ]; then
  root=$results/package
  mkdir -p "$root"
  [ "$root/bin/trainer" -nt "$package" ] || tar -xzmf "$package" -C "$root" --strip-components=1
  bin=$root/bin
else
  bin=$PWD/build/gpu/bin
  if ! { cmake -S . -B build/gpu -DTRAINER_CUDA=on && cmake --build build/gpu --target trainer trainer_cuda test_cuda -j "$(nproc)"; } \
    >"$results/build.log" 2>&1; then
    tail -n 20 "$results/build.log" >&2
    echo "check: the build failed; all of it is in $results/build.log" >&2
    exit 70
  fi
fi
status=0
"$python" scripts/gpu/rows.py "$bin" "$results" "$gpu" "$commit" "$missing" "$minutes" "${words[@]}" || status=$?
echo "rows for docs/gpu-evidence.tsv: $results/evidence.tsv"
exit "$status"
