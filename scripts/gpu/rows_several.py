# SPDX-License-Identifier: Apache-2.0
"""Rows of docs/gpu-evidence.tsv that need a machine with several GPUs. One with fewer gets a row that says so."""
import os
import pathlib
import subprocess
import sys

from evidence import Failed, ROOT, Run, row, same_files
from trainings import speed, steps

SHARDS = "parallelism.shard_parameters=true"
WINDOW = 1024  # tokens of a sample of GPT-2
TORCHTITAN = {8: (5762, 6667, 77.0), 128: (5605, 6514, 62.0)}  # tokens/s of a GPU, compiled, and GiB, as published for Llama 3 8B


def gpus(needed):
    """Numbers of GPUs from `needed` on, in powers of two, up to those of this machine."""
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True).stdout.split("\n")
    here = sum(line.startswith("GPU ") for line in listed)
    if here < needed:
        raise Failed(f"needs {needed} GPUs, this machine has {here}")
    return [count for count in (2, 4, 8) if needed <= count <= here]


def gpt2(count, *words):
    return ("gpt2_tokens", *steps(12, 16 * count, "training.precision=amp_bf16", "training.micro_batch_size=8"), *words)


@row("gpus", 60)
def shard_optimizer_gpu(check):
    gpus(2)
    words = ("resnet18_cifar10", *steps(20, 64, "run.deterministic=true"), "parallelism.data=2")
    runs = [check.train(f"shard_optimizer_gpu_{way}", *words, f"parallelism.shard_optimizer={way}") for way in ("false", "true")]
    same_files(runs[0].weights(), runs[1].weights())
    return f"equal weights on 2 GPUs, {speed(runs[1]) / speed(runs[0]):.2f} times as fast"


@row("gpus", 100)
def shards_speed(check):
    told = []
    for count in gpus(2):
        whole, cut = (check.train(f"shards_speed_{count}_{len(more)}", *gpt2(count, f"parallelism.data={count}", *more)) for more in ([], [SHARDS]))
        told.append(f"{count} GPUs: {speed(cut) * WINDOW:,.0f} tokens/s, {speed(cut) / speed(whole):.3f} of data parallel's")
    return "; ".join(told)


@row("gpus", 80)
def tensor_speed(check):
    told, alone = [], speed(check.train("tensor_speed_1", *gpt2(1)))
    for count in (2, 4, 6):  # 8 does not divide the 12 heads
        if count > max(gpus(2)):
            break
        rate = speed(check.train(f"tensor_speed_{count}", *gpt2(1, f"parallelism.tensor={count}")))
        # What is repeated or exchanged and not hidden keeps the ranks from being so many times as fast.
        told.append(f"{count} GPUs: {rate * WINDOW:,.0f} tokens/s, {rate / alone:.2f} times one GPU's: at most {100 * (1 - rate / alone / count):.1f} % "
                    "of a step is exposed")
    return "; ".join(told)


@row("gpus", 120)
def pipeline_idle(check):
    gpus(4)
    return "; ".join(check.run(f"pipeline_idle_{schedule}", [
        sys.executable, ROOT / "scripts/bench/pipeline_idle.py", "--schedule", schedule, "--stages", "4", "--device", "cuda", "--trainer",
        check.bin / "trainer", "--most-foreign", "64", "--most-difference", "30"]).strip().splitlines()[-1] for schedule in ("1f1b", "gpipe", "interleaved"))


def llama(run, count):
    """Tokens/s of a GPU and its memory beside the plan, and both beside torchtitan's."""
    eager, compiled, gibibytes = TORCHTITAN[count]
    rate = speed(run) * 8192 / count
    memory = run.summary()
    taken, planned = memory["device"]["memory_bytes"], memory["memory"]["planned_bytes"]
    return (f"{rate:,.0f} tokens/s a GPU (torchtitan {eager:,}, compiled {compiled:,}), peak {taken / 2**30:.1f} GiB of {planned / 2**30:.1f} planned "
            f"(torchtitan {gibibytes})")


@row("llama", 330)
def shards_llama(check):
    gpus(8)
    return llama(check.train("shards_llama", "llama_8b_tokens", *steps(8, 16, "training.micro_batch_size=2"), "parallelism.data=8"), 8)


@row("llama", 10)
def shards_scaling(check):
    """128 GPUs are several machines: a run that has been there is read."""
    directory = os.environ.get("SCALING_RUN")
    if not directory:
        raise Failed("needs a run of configs/llama_8b_tokens.yaml on 128 GPUs (scripts/slurm/train_nccl.sbatch, data={format: synthetic}, "
                     "training.global_batch_size=256): name its directory in SCALING_RUN")
    run = Run(pathlib.Path(directory).resolve())
    check.run("shards_scaling", ["cat", run.directory / "summary.json"])
    if run.summary()["ranks"] != 128:
        raise Failed(f"{directory} is a run on {run.summary()['ranks']} GPUs")
    return llama(run, 128)
