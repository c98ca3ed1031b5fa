#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the commands of scripts/gpu/check.sh, depending on its own name. The program's command lines are checked by the
real one (REAL_TRAINER), which prints the recipe; results are made up. FAILS and HANGS name stand-ins that do so."""
import json
import os
import pathlib
import subprocess
import sys
import time

NAME = pathlib.Path(sys.argv[0]).name
WORDS = sys.argv[1:]


def option(name, default=None):
    """The value of a last `name=value`, or of `name value`."""
    values = [word[len(name) + 1:] for word in WORDS if word.startswith(name + "=")]
    values += [after for word, after in zip(WORDS, WORDS[1:]) if word == name]
    return values[-1] if values else default


def check_recipe():
    """The real program reads the recipe with all overrides; it does not need the device."""
    words, skip = [], False
    for word in WORDS:
        if skip or word in ("eval", "predict", "tune", "batch", "--json", "--all"):
            skip = False
        elif word in ("--split", "--disable-pass", "--seconds"):
            skip = True
        else:
            words.append(word)
    done = subprocess.run([os.environ["REAL_TRAINER"], *words, "--dump-config"], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, end="")
        sys.exit(done.returncode)


def train():
    directory = pathlib.Path(option("run.output_dir"))
    (directory / "checkpoints/step-00000050").mkdir(parents=True, exist_ok=True)
    duration = option("training.max_duration", "10ep")
    count = int(duration[:-2]) if duration.endswith("ba") else 400
    every = int(option("logging.interval", "1ba")[:-2])
    with open(directory / "metrics.jsonl", "w") as metrics:
        for step in range(every, count + 1, every) if count >= every else [count]:
            metrics.write(json.dumps({
                "split": "train", "step": step, "loss": 2 / step, "samples_per_s": 1000 + step, "data_wait_ms": 0.1, "host_ms": 0.04,
                "communication_ms": 0.5,
                "loss_scale": 65536, "device_power_w": 300}) + "\n")
        metrics.write(json.dumps({"split": "guard", "step": 7, "event": "skip"}) + "\n")
    (directory / "summary.json").write_text(json.dumps({
        "ranks": 128, "training": {"first_step_seconds": 1.5}, "validation": {"last": {"loss": 0.2, "top1": 0.93}},
        "memory": {"planned_bytes": 1000}, "device": {"memory_bytes": 990}}))
    (directory / "model.safetensors").write_text("weights")
    (directory / "algorithms.json").write_text("{}")
    if "--profile" in WORDS and option("parallelism.pipeline"):
        (directory / "trace.json").write_text(json.dumps({"traceEvents": pipeline_events(int(option("parallelism.pipeline")))}))
    elif "--profile" in WORDS:
        (directory / "trace.json").write_text('{"traceEvents": [{"ph": "X", "name": "conv2d model.layers[0]", "dur": 2000}]}')


def pipeline_events(ranks):
    """All forward parts and then all backward parts of 8 micro-batches, on each rank."""
    stages = 2 if option("parallelism.schedule.name") == "interleaved" else 1
    events, clock = [], 0
    for step in range(int(option("--profile"))):
        begin = clock
        for phase in ("forward", "backward"):
            for _ in range(8 * stages):
                for name, took in ("linear", 900), ("exchange_start", 100):
                    events += [{"ph": "X", "name": name, "cat": phase, "ts": clock, "dur": took, "pid": rank, "tid": 2} for rank in range(ranks)]
                    clock += took
        events += [{"ph": "X", "name": f"step {step}", "cat": "step", "ts": begin, "dur": clock - begin, "pid": rank, "tid": 0} for rank in range(ranks)]
    return events


def trainer():
    if "--links" in WORDS:
        return pathlib.Path(option("--links")).write_text('{"withinNode": {"bytesPerSecond": 4e11, "latencySeconds": 3e-6}}')
    if WORDS[0] == "doctor":
        pathlib.Path(option("--device-json")).write_text("{}")
        return print("device.type=cuda")
    if WORDS[0] == "export":
        return pathlib.Path(option("--out")).write_text("a model")
    check_recipe()
    if "--ranks" in WORDS:
        return print(json.dumps([{"ranks": int(count), "efficiency": 0.9, "samples_per_second": 2000, "data": int(count), "tensor": 1, "pipeline": 1,
                                  "shard_parameters": "false", "shard_optimizer": False, "fits": True} for count in option("--ranks").split(",")]))
    if WORDS[0] == "plan":
        return print('{"predicted": {"samples_per_second": 2000, "operations": {"conv2d": {"seconds": 0.002}}}}')
    if WORDS[0] == "tune":
        timing = {"micro_batch": 64, "planned_bytes": 1000, "peak_bytes": 990, "joules_per_sample": 0.5}
        return print("round 1 of 3: micro-batch 64\n" + json.dumps({"override": "training.micro_batch_size=64", "timings": [timing]}, indent=2))
    if WORDS[0] == "eval":
        return print('{"loss": 0.2, "top1": 0.93}')
    if WORDS[0] == "predict":
        return print('{"probabilities": [0.25, 0.75]}')
    if option("optimizer.lr") == "1e30":
        print("trainer: error: the loss became NaN at step 2; first non-finite value: the output of model.layers[0] 'linear'")
        sys.exit(70)
    train()


def profiled():
    """nsys and compute-sanitizer run a command and have options of their own."""
    command = WORDS[next(i for i, word in enumerate(WORDS) if word.endswith(("/trainer", "/test_cuda"))):]
    code = subprocess.run(command).returncode
    print("========= ERROR SUMMARY: 0 errors")
    print("    dram__throughput.avg.pct_of_peak_sustained_elapsed   %   71.5")
    print(" 50.0 1000 20 NvtxRange :conv2d layer1.conv1")
    print(" 10.0 2000 40 cudaStreamSynchronize")
    print(" 5.0 3000 60 void trainer::cuda::cast(float*)")
    sys.exit(code)


if NAME == os.environ.get("FAILS"):
    sys.exit(3)
if NAME == os.environ.get("HANGS"):
    time.sleep(60)
if NAME == "trainer":
    trainer()
elif NAME == "test_cuda":
    print("All tests passed (100 assertions in 17 test cases)")
elif NAME == "mpirun":
    sys.exit(subprocess.run(WORDS[2:]).returncode)
elif NAME in ("nsys", "compute-sanitizer", "ncu"):
    profiled()
elif NAME == "nvidia-smi":
    if "--list-gpus" in WORDS:
        sys.exit(print("\n".join(f"GPU {number}: NVIDIA Stand-in" for number in range(8))))
    print("NVIDIA Stand-in" if "name" in str(WORDS) else "990 MiB, 300.00 W, 50, 1500 MHz")
elif NAME == "trtexec":
    print("[I] Throughput: 1234.5 qps")
elif NAME == "sbatch":
    print("Submitted batch job 1")
elif NAME == "cmake":
    print("-- CUDA architectures: 90-real")
