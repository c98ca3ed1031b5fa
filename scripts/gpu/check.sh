#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a machine with an NVIDIA GPU can show, in one command: tests, compute-sanitizer, training, speed
# beside PyTorch. What it finds are rows of docs/gpu-evidence.tsv.
#
#   scripts/gpu/check.sh [--package TARBALL] [--results DIRECTORY] [--only ID,...]
#
# --package  made by `scripts/package.sh --with-tests`; without it the sources are built here (build/gpu)
# --results  gets evidence.tsv and all logs (default: build/gpu-check)
# --only     some of: tests memcheck racecheck doctor accuracy determinism resnet50 resnet18 start
# PYTHON names an interpreter that has torch; DATA a folder with Fashion-MNIST; TRAINER_COMMIT the commit where there is no git.
# Exit codes: 0 all passed, 69 no GPU here, 70 something failed or could not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

package="" results=build/gpu-check only=tests,memcheck,racecheck,doctor,accuracy,determinism,resnet50,resnet18,start
while [ $# -gt 0 ]; do
  case $1 in
    --package) package=${2:?}; shift ;;
    --results) results=${2:?}; shift ;;
    --only) only=${2:?}; shift ;;
    -h | --help) sed -n '3,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "check: unknown argument '$1'; see --help" >&2; exit 64 ;;
  esac
  shift
done

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
if [ -z "$gpu" ]; then
  echo "check: no GPU on this machine: nvidia-smi is missing or lists none; run it where there is one" >&2
  exit 69
fi
commit=${TRAINER_COMMIT:-$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)}
python=${PYTHON:-python3}
data=${DATA:-/usr/share/datasets/fashion-mnist}
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
mkdir -p "$results"
table=$results/evidence.tsv
head -n 2 docs/gpu-evidence.tsv >"$table"
failed=0

wanted() { [[ ,$only, == *,$1,* ]]; }

# record ID COMMAND FIGURE: what the row of that id in docs/gpu-evidence.tsv says from now on.
record() {
  local what
  what=$(cut -f 1,2 docs/gpu-evidence.tsv | sed -n "s/^$1\t//p")
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$what" "$(date -u +%F)" "$commit" "$gpu" "$2" "$3" >>"$table"
  printf '%-24s %s\n' "$1" "$3"
}

# log_of ID COMMAND...: runs it, its output in a log. A test that was skipped is no evidence.
log_of() {
  local log=$results/$1.log
  shift
  "$@" >"$log" 2>&1 && ! grep -q '^skipped:' "$log"
}

# passed_or_failed ID COMMAND...
passed_or_failed() {
  local id=$1 result=passed figures
  log_of "$@" || { result=failed; failed=1; }
  shift
  figures=$(grep -hE '^(All tests passed|test cases:|assertions:|========= ERROR SUMMARY|skipped:)' "$results/$id.log" |
    tr '\t\n' ' ;' | cut -c 1-300 || true)
  record "$id" "$*" "$result${figures:+: $figures}"
}

# The last value of a key in a run's summary: value FILE KEY...
value() {
  "$python" -c 'import json, sys
v = json.load(open(sys.argv[1]))
for key in sys.argv[2:]: v = v[key]
print(v)' "$@"
}

nvidia-smi >"$results/nvidia-smi.txt"
if [ -n "$package" ]; then
  root=$results/package
  mkdir -p "$root"
  tar -xzf "$package" -C "$root" --strip-components=1
  bin=$root/bin
else
  bin=build/gpu/bin
  if ! { cmake -S . -B build/gpu -DTRAINER_CUDA=on && cmake --build build/gpu --target trainer trainer_cuda test_cuda -j "$(nproc)"; } \
    >"$results/build.log" 2>&1; then
    tail -n 20 "$results/build.log" >&2
    echo "check: the build failed; all of it is in $results/build.log" >&2
    exit 70
  fi
fi

if wanted doctor; then passed_or_failed doctor "$bin/trainer" doctor --device-json "$results/device.json"; fi
if wanted tests; then passed_or_failed tests "$bin/test_cuda"; fi
# One test provokes an error of the runtime on purpose, and the program checks every call itself.
for tool in memcheck racecheck; do
  wanted $tool || continue
  if ! command -v compute-sanitizer >/dev/null; then
    record $tool "compute-sanitizer --tool $tool" "not run: compute-sanitizer is not on PATH"
    failed=1
    continue
  fi
  passed_or_failed $tool compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 1 "$bin/test_cuda"
done

train() { # NAME RECIPE OVERRIDES...
  local name=$1 recipe=$2
  shift 2
  rm -rf "${results:?}/runs/$name"
  "$bin/trainer" --config "$recipe" device.type=cuda run.output_dir="$results/runs/$name" "$@" >"$results/$name.log" 2>&1
}

if wanted accuracy; then
  for precision in fp32 tf32 amp_bf16 amp_fp16; do
    id=accuracy_$precision
    if train "$id" configs/fashion_mnist_cnn.yaml training.precision=$precision data.train="$data/train" data.val="$data/t10k"; then
      top1=$(value "$results/runs/$id/summary.json" validation last top1)
      record "$id" "trainer --config configs/fashion_mnist_cnn.yaml device.type=cuda training.precision=$precision" "top-1 $top1"
      "$python" -c "import sys; sys.exit($top1 < 0.92)" || failed=1
    else
      record "$id" "trainer --config configs/fashion_mnist_cnn.yaml" "failed: $(tail -n 1 "$results/$id.log")"
      failed=1
    fi
  done
  # Beside what nvidia-smi says now: the memory differs by the run's, which has ended.
  readings=$("$python" -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
found = {k: v for line in lines for k, v in line.items() if k.startswith("device_") and v is not None}
print(", ".join(f"{k} {v}" for k, v in sorted(found.items())) or "failed: no reading of the device")' \
    "$results/runs/accuracy_amp_fp16/metrics.jsonl" 2>&1 | tail -n 1) || true
  record monitor "trainer --config configs/fashion_mnist_cnn.yaml device.type=cuda" "$readings; nvidia-smi: $(nvidia-smi \
    --query-gpu=memory.used,power.draw,temperature.gpu,clocks.sm --format=csv,noheader | head -n 1 || true)"
  [[ $readings == device_* ]] || failed=1
fi

if wanted determinism; then
  ok=yes
  for run in 1 2; do
    train determinism_$run configs/resnet18_cifar10.yaml data.format=synthetic training.precision=amp_fp16 \
      training.max_duration=200ba validation.interval=0ep run.deterministic=true || ok=no
  done
  if [ $ok = yes ] && cmp -s "$results"/runs/determinism_{1,2}/model.safetensors; then
    record determinism "trainer --config configs/resnet18_cifar10.yaml run.deterministic=true, twice" "identical weights after 200 steps"
  else
    record determinism "trainer --config configs/resnet18_cifar10.yaml run.deterministic=true, twice" "failed: weights differ, or a run failed"
    failed=1
  fi
fi

for network in resnet50 resnet18; do
  wanted $network || continue
  if log_of $network "$python" scripts/gpu/compare.py $network --trainer "$bin/trainer" --json "$results/$network.json"; then
    while IFS=$'\t' read -r id figure; do
      record "$id" "scripts/gpu/compare.py $network" "$figure"
    done < <("$python" -c 'import json, sys
for id, figure in json.load(open(sys.argv[1])).items(): print(id, figure, sep="\t")' "$results/$network.json")
  else
    record ${network}_speed "scripts/gpu/compare.py $network" "failed: $(tail -n 1 "$results/$network.log")"
    failed=1
  fi
done

if wanted start; then
  # The second start finds the choices that the first one has kept.
  for run in cold warm; do
    train start_$run configs/resnet50_imagenet.yaml data.format=synthetic training.precision=amp_fp16 \
      training.global_batch_size=256 training.micro_batch_size=256 training.max_duration=1ba validation.interval=0ep || true
    record start_$run "trainer --config configs/resnet50_imagenet.yaml, one step" \
      "$(value "$results/runs/start_$run/summary.json" training first_step_seconds 2>/dev/null || echo failed) s to the end of the first step"
  done
fi

echo
column -t -s $'\t' <(cut -f 1,7 "$table" | tail -n +3)
echo "rows for docs/gpu-evidence.tsv: $table"
[ "$failed" = 0 ] || exit 70
