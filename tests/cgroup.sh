#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program within control groups of the kernel: it plans with their limits, and is never killed for its memory.
#   tests/cgroup.sh TRAINER
# Exit code 77, with the reason, if no group can be made here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TRAINER=$(realpath "$1")
work=$(mktemp -d)
groups=()
unset "${!SLURM_@}"

fail() {
  echo "cgroup: $1" >&2
  cat "$work/err" >&2
  exit 1
}

leave_out() {
  echo "cgroup: left out: $1" >&2
  exit 77
}

# A group cannot be removed until the kernel has forgotten its last process.
remove_groups() {
  local group
  for group in ${groups[@]+"${groups[@]}"}; do
    for _ in $(seq 100); do
      if [ ! -d "$group" ] || rmdir "$group" 2>/dev/null; then break; fi
      sleep 0.05
    done
  done
  groups=()
}
trap 'remove_groups; rm -rf "$work"' EXIT

# The directory of this process's group; a container may see it as the mount point.
own_group() { # MOUNT-POINT CONTROLLER; "" is version 2
  local path
  path=$(sed -nE "s/^[0-9]+:([^:]*,)?$2(,[^:]*)?:(.*)$/\3/p" /proc/self/cgroup | head -n 1)
  if [ -n "$path" ] && [ -d "$1$path" ]; then echo "${1}${path%/}"; else echo "$1"; fi
}

# Makes a group below this process's, of version 1 or 2, with limits.
make_groups() { # BYTES PERCENT-OF-A-CORE
  local memory cpu
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    memory=$(own_group /sys/fs/cgroup "")/trainer-test-$$
    mkdir "$memory" 2>/dev/null || return 1
    groups=("$memory")
    { [ -f "$memory/memory.max" ] && [ -f "$memory/cpu.max" ]; } || return 1
    echo "$1" >"$memory/memory.max"
    echo "$(($2 * 1000)) 100000" >"$memory/cpu.max"
    return
  fi
  { [ -d /sys/fs/cgroup/memory ] && [ -d /sys/fs/cgroup/cpu ]; } || return 1
  memory=$(own_group /sys/fs/cgroup/memory memory)/trainer-test-$$
  cpu=$(own_group /sys/fs/cgroup/cpu cpu)/trainer-test-$$
  mkdir "$memory" 2>/dev/null || return 1
  groups=("$memory")
  mkdir "$cpu" 2>/dev/null || return 1
  groups+=("$cpu")
  echo "$1" >"$memory/memory.limit_in_bytes"
  echo 100000 >"$cpu/cpu.cfs_period_us"
  echo $(($2 * 1000)) >"$cpu/cpu.cfs_quota_us"
}

# Runs the program within limits, and checks how it ends.
expect() { # CODE MIB PERCENT-OF-A-CORE ARGUMENT...
  local wanted=$1 bytes=$(($2 << 20)) percent=$3 code=0
  shift 3
  if [ "$scopes" = yes ]; then
    systemd-run --scope --quiet -p "MemoryMax=$bytes" -p "CPUQuota=$percent%" "$TRAINER" "$@" >"$work/out" 2>"$work/err" || code=$?
  else
    make_groups "$bytes" "$percent" || fail "no second group can be made"
    (
      for group in "${groups[@]}"; do echo "$BASHPID" >"$group/cgroup.procs"; done
      exec "$TRAINER" "$@"
    ) >"$work/out" 2>"$work/err" || code=$?
    remove_groups
  fi
  [ "$code" = "$wanted" ] || fail "$* within $bytes bytes ends with $code, not $wanted"
}

shows() { grep -qE "$1" "$work/out" "$work/err" || fail "no \"$1\""; }

scopes=no
if ! make_groups $((1 << 30)) 100; then
  systemd-run --scope --quiet true 2>/dev/null || leave_out "neither is /sys/fs/cgroup writable, nor does systemd-run work"
  scopes=yes
fi
remove_groups

readonly cnn=(--config "$here/../configs/fashion_mnist_cnn.yaml" data.format=synthetic training.max_duration=4ba
  data.synthetic.train_samples=4096 data.synthetic.val_samples=512 device.type=cpu training.micro_batch_size=auto)

expect 0 512 100 "${cnn[@]}" "run.output_dir=$work/fits"
shows '^host: 512 MiB of memory \(cgroup\), 1 thread'
# The plan fills the memory.
expect 0 140 100 "${cnn[@]}" "run.output_dir=$work/tight" training.global_batch_size=1024
shows 'training.micro_batch_size=auto chose (8|16|32|64|128|256):'
expect 71 60 100 "${cnn[@]}" "run.output_dir=$work/none"
shows 'the run needs [0-9.]+ MiB, the device has 60.0 MiB \(cgroup\)'
[ ! -e "$work/none" ] || fail "a run that does not fit has a directory"
# A recipe cannot lift the limit.
expect 71 60 100 "${cnn[@]}" "run.output_dir=$work/none" device.memory=1GiB
shows 'the device has 60.0 MiB \(cgroup\)'

expect 0 512 50 doctor
shows '^  threads +1 may be used \((cpu.max|cpu.cfs_quota_us|cores|affinity)\)'
shows '^  memory +512 MiB \(cgroup\)'

expect 0 512 100 plan "${cnn[@]}" parallelism.data=2
shows '^  peak .* of 256 MiB \([0-9.]+ %; cgroup, shared by 2 processes\)'
