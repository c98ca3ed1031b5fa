#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries an archive of the program (scripts/package.sh) in a new tree of a Debian release, which has Python but no compiler
# and no MPI: two ranks train with the MPI that `pip install mpich` brings.
# Usage: [sudo] scripts/try_archive.sh 12|13 ARCHIVE. Needs mmdebstrap and root. Deletes the tree, build/archive-RELEASE.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

readonly usage=64 unavailable=69 mpich=mpich==5.0.2
declare -A names=([12]=bookworm [13]=trixie)
name=${names[${1:-}]:-}
if [ -z "$name" ] || [ $# -ne 2 ] || [ ! -f "$2" ]; then
  echo "usage: scripts/try_archive.sh 12|13 ARCHIVE" >&2
  exit "$usage"
fi
if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null; then
  echo "try_archive: needs root, and mmdebstrap: apt-get install mmdebstrap" >&2
  exit "$unavailable"
fi
tree=$here/build/archive-$1
rm -rf "$tree"
mkdir -p "$here/build"
trap 'rm -rf "$tree"' EXIT
mmdebstrap --mode=root --variant=minbase --include=ca-certificates,python3-venv "$name" "$tree"
# It resolves hosts, trusts authorities and finds packages of Python like this system.
for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
  [ ! -e "$file" ] || cp --dereference "$file" "$tree$file"
done
mkdir "$tree/srv/trainer"
tar -xzf "$2" -C "$tree/srv/trainer" --strip-components=1
cat >"$tree/srv/try.sh" <<TEXT
set -euo pipefail
! command -v gcc && ! command -v mpirun
python3 -m venv /srv/mpi
/srv/mpi/bin/pip install --quiet $mpich
PATH=/srv/mpi/bin:/srv/trainer/bin:\$PATH
cat >/srv/recipe.yaml <<'RECIPE'
version: 1
model: {input: [1, 8, 8], layers: [{conv2d: {out_channels: 4, kernel_size: 3}}, relu, flatten, {linear: 10}]}
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 64}}
training: {max_duration: 2ep, global_batch_size: 16}
optimizer: {name: sgd, lr: 0.01}
RECIPE
cd /srv
trainer --config recipe.yaml parallelism.data=2 run.output_dir=run
grep '(2 ranks x 8)' run/log.txt
mpiexec -n 2 trainer doctor | grep -A3 '^ranks'
mpiexec -n 2 trainer eval run
TEXT
variables=()
while IFS= read -r variable; do variables+=("$variable"); done < <(env | grep -E '^(PIP_[A-Z_]*|https?_proxy|no_proxy)=' || true)
PATH=$(getconf PATH):/usr/sbin:/sbin
export tree
# shellcheck disable=SC2016 # expanded in the inner shell
unshare --mount --pid --fork --kill-child bash -euc '
  mount -t proc proc "$tree/proc"
  mount --rbind /dev "$tree/dev"
  mount -t tmpfs tmpfs "$tree/dev/shm"
  mount --rbind /sys "$tree/sys"
  exec chroot "$tree" env -i HOME=/srv LANG=C.UTF-8 PATH="$PATH" "$@" bash /srv/try.sh' _ "${variables[@]}"
echo "try_archive: two ranks trained in Debian $1"
