#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds packaging/Containerfile without a daemon, a registry or a kernel's containers, and tries the image: its user, a short
# run, and ranks on pods (scripts/try_pods.sh). Usage: [sudo] scripts/try_container.sh. Needs buildah, mmdebstrap and root.
# The base is Debian 13 from the mirror that apt uses here. Everything is kept in build/container; delete it to begin anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "$(id -u)" -ne 0 ]; then
  echo "try_container: needs root: sudo scripts/try_container.sh" >&2
  exit 69
fi
for tool in buildah mmdebstrap; do
  command -v "$tool" >/dev/null || {
    echo "try_container: $tool not found; install it: apt-get install buildah mmdebstrap" >&2
    exit 69
  }
done
folder=$PWD/build/container
mkdir -p "$folder"
printf '[storage]\ndriver = "overlay"\nrunroot = "%s/run"\ngraphroot = "%s/images"\n' "$folder" "$folder" >"$folder/storage.conf"
export CONTAINERS_STORAGE_CONF=$folder/storage.conf BUILDAH_ISOLATION=chroot

if ! buildah inspect --type image localhost/debian:13 >/dev/null 2>&1; then
  mmdebstrap --mode=root --variant=minbase --include=ca-certificates trixie "$folder/debian-13.tar"
  base=$(buildah from scratch)
  buildah add "$base" "$folder/debian-13.tar" /
  # It trusts authorities like this system, which may use a proxy.
  buildah add "$base" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
  buildah config --cmd bash --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$base"
  buildah commit --rm "$base" localhost/debian:13
  rm "$folder/debian-13.tar"
fi

buildah bud --layers --pull-never --build-arg DEBIAN=localhost/debian:13 --file packaging/Containerfile \
  --tag localhost/trainer .

container=$(buildah from --pull-never localhost/trainer)
trap 'buildah rm "$container" >/dev/null' EXIT
# shellcheck disable=SC2016 # expanded in the container
buildah run "$container" -- sh -euc '
  [ "$(id -u):$(id -g)" = 1000:1000 ] && [ -w . ] && [ -w "$HOME" ]
  trainer --version
  ! ldd "$(command -v trainer)" | grep "not found"
  /usr/sbin/sshd -V
  cat >recipe.yaml <<TEXT
version: 1
model: {input: [1, 8, 8], layers: [{conv2d: {out_channels: 4, kernel_size: 3}}, relu, flatten, {linear: 10}]}
data: {format: synthetic, synthetic: {train_samples: 64, val_samples: 32}}
training: {max_duration: 1ep, global_batch_size: 16}
TEXT
  trainer --config recipe.yaml run.output_dir=one
  trainer --config recipe.yaml run.output_dir=two parallelism.data=2
  rm -r recipe.yaml one two'
scripts/try_pods.sh "$(buildah mount "$container")"
echo "try_container: localhost/trainer, $(buildah images --format '{{.Size}}' localhost/trainer)"
