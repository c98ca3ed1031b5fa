#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains with ranks on pods, as the MPI Operator would start them, without Kubernetes: a launcher and two workers are
# processes with a network, processes and files of their own, over the files of an image. Ranks and pods are killed and
# drained; the run must end with bitwise identical weights. Usage: [sudo] scripts/try_pods.sh IMAGE'S-ROOT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# -ne 1 ] || [ ! -x "$1/usr/sbin/sshd" ]; then
  echo "usage: [sudo] scripts/try_pods.sh ROOT, the files of an image of packaging/Containerfile" >&2
  exit 64
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "try_pods: namespaces need root: sudo scripts/try_pods.sh $1" >&2
  exit 69
fi
image=$(realpath "$1")
work=$(mktemp -d)
readonly image work domain=train.default.svc prefix=trainer-pods
readonly pods=(launcher worker-0 worker-1)
export image work

fail() {
  echo "try_pods: $1" >&2
  tail -n 20 "$work/log" >&2
  exit 1
}

# The pod's processes, as this system sees them; the first is the one that the kubelet signals.
first_process() { # POD
  local process
  for process in $(ip netns pids "$prefix-$1"); do
    [ "$(awk '/^NSpid:/ { print $NF }' "/proc/$process/status")" != 1 ] || echo "$process"
  done
}
kill_pod() { # POD
  local first
  first=$(first_process "$1")
  [ -z "$first" ] || kill -KILL "$first"
}
clean_up() {
  local pod
  for pod in "${pods[@]}"; do kill_pod "$pod" || true; done
  wait
  for pod in "${pods[@]}" switch; do ip netns delete "$prefix-$pod" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT

connect_pods() {
  local number=0 pod
  ip netns add "$prefix-switch"
  ip -n "$prefix-switch" link add bridge type bridge
  ip -n "$prefix-switch" link set bridge up
  for pod in "${pods[@]}"; do
    number=$((number + 1))
    ip netns add "$prefix-$pod"
    ip link add "port$number" netns "$prefix-switch" type veth peer name eth0 netns "$prefix-$pod"
    ip -n "$prefix-switch" link set "port$number" master bridge up
    ip -n "$prefix-$pod" address add "10.77.0.$number/24" dev eth0
    ip -n "$prefix-$pod" link set eth0 up
    ip -n "$prefix-$pod" link set lo up
    mkdir -p "$work/$pod"/{above,beside,root}
    echo "10.77.0.$number train-$pod.$domain" >>"$work/hosts"
  done
}

# Runs a command as the first process of a pod, as the image's user. MOUNTS: folders below $work, each with its place.
pod() { # POD COMMAND...
  export pod=$1 domain
  shift
  # shellcheck disable=SC2016 # expanded in the pod
  exec ip netns exec "$prefix-$pod" unshare --mount --uts --ipc --pid --fork --kill-child=KILL bash -euc '
    root=$work/$pod/root
    hostname "train-$pod"
    mount -t overlay overlay -o "lowerdir=$image,upperdir=$work/$pod/above,workdir=$work/$pod/beside" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    for folder in "$root/dev/shm" "$root/tmp"; do mount -t tmpfs -o mode=1777 tmpfs "$folder"; done
    { echo "127.0.0.1 localhost"; cat "$work/hosts"; } >"$root/etc/hosts"
    for place in $MOUNTS; do
      mkdir -p "$root${place#*:}"
      mount --bind "$work/${place%%:*}" "$root${place#*:}"
    done
    cd "$root"
    exec chroot --userspec=1000:1000 --groups=1000 . env -i PATH="$(getconf PATH)" HOME=/var/lib/trainer \
      sh -c "cd /runs && exec \"\$@\"" sh "$@"' bash "$@"
}
start_worker() { # POD
  (MOUNTS="keys:/var/lib/trainer/.ssh recipe:/recipe runs:/runs" pod "$1" /usr/sbin/sshd -De -f /etc/ssh/sshd_trainer_config) \
    >>"$work/$1.log" 2>&1 &
}
start_launcher() { # RUN
  # The arguments of packaging/kubernetes/mpijob.yaml, with a core for each rank, and the operator's variables.
  (MOUNTS="keys:/var/lib/trainer/.ssh recipe:/recipe mpi:/etc/mpi" pod launcher env OMPI_MCA_orte_keep_fqdn_hostnames=true \
    OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10" \
    PRTE_MCA_prte_default_hostfile=/etc/mpi/hostfile "PRTE_MCA_plm_ssh_args=-o ConnectionAttempts=10" \
    OMPI_MCA_orte_set_default_slots=2 K_MPI_JOB_ROLE=launcher trainer --config /recipe/recipe.yaml \
    "run.output_dir=/runs/$1" run.grace_period=110s run.max_restarts=20 parallelism.data=4 \
    parallelism.hosts=/etc/mpi/hostfile device.type=cpu device.threads=1) >"$work/log" 2>&1 &
  launcher=$!
}
ends_with() { # CODE
  local code=0
  wait "$launcher" || code=$?
  [ "$code" -eq "$1" ] || fail "the launcher ended with $code, expected $1"
}
# Until the log has this text so many times.
await() { # TEXT TIMES
  for _ in $(seq 1200); do
    [ "$(grep -c -- "$1" "$work/log")" -lt "$2" ] || return 0
    kill -0 "$launcher" 2>/dev/null || fail "the launcher ended before \`$1\`"
    sleep 0.1
  done
  fail "two minutes without \`$1\`"
}

mkdir -p "$work"/{keys,recipe,runs,mpi}
ssh-keygen -q -t rsa -N '' -f "$work/keys/id_rsa"
cp "$work/keys/id_rsa.pub" "$work/keys/authorized_keys"
# As in a pod with fsGroup: root's, and the group may read. The folder of a secret is open for all.
chown -R root:1000 "$work/keys"
chmod 640 "$work"/keys/*
chmod 1777 "$work/keys"
chown 1000:1000 "$work/runs"
chmod 755 "$work"
printf '%s\n' "train-worker-0.$domain slots=2" "train-worker-1.$domain slots=2" >"$work/mpi/hostfile"
cat >"$work/recipe/recipe.yaml" <<'TEXT'
version: 1
model: {input: [3, 32, 32], layers: [{conv2d: {out_channels: 32, kernel_size: 3}}, relu, flatten, {linear: 10}]}
data: {format: synthetic, synthetic: {train_samples: 8192, val_samples: 64}}
training: {max_duration: 2000ba, global_batch_size: 128}
checkpoint: {interval: 20ba}
TEXT
connect_pods
start_worker worker-0
start_worker worker-1

echo "== undisturbed"
start_launcher undisturbed
ends_with 0

echo "== a rank is killed"
start_launcher disturbed
await '^step ' 1
sleep 2
pkill -KILL -o -f disturbed --ns "$(first_process worker-1)" --nslist pid
await '^resuming after' 1

echo "== a pod is lost, and comes back after 20 seconds"
sleep 2
kill_pod worker-1
await 'they start again' 2
sleep 20
start_worker worker-1
await '^resuming after' 2

echo "== a pod is drained"
sleep 2
first=$(first_process worker-1)
# The pod ends with its first process, and what was started in it.
(nsenter --target "$first" --mount --pid --root --wdns=/ sh -c 'stop_ranks && kill -TERM 1') 2>/dev/null || true
await '^saved after' 1
kill_pod worker-1
start_worker worker-1
await '^resuming after' 3

echo "== the launcher is drained"
sleep 2
kill -TERM "$(first_process launcher)"
ends_with 75
start_launcher disturbed
ends_with 0
cmp "$work/runs/undisturbed/model.safetensors" "$work/runs/disturbed/model.safetensors" || fail "other weights"
echo "try_pods: the weights are bitwise identical"
