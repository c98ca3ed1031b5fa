#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks with one thread each against one rank with two threads, with the same global batch: prints the ratio.

  scripts/bench/ranks.py [mlp | cnn | resnet18]...
  scripts/bench/ranks.py --splits [shards | tensor | pipeline | interleaved]...    # a GPT of 6 blocks, divided among ranks: shards of the parameters against
                                                          # whole ones, shared operations and stages of 8 micro-batches against one rank
                                                          # with two threads

  scripts/bench/ranks.py --ddp PYTHON [--launcher PATH] [cnn | resnet18 | gpt]...  # and PyTorch's DistributedDataParallel over Gloo in the
                                                          # same way; each side's ratio, and ours to theirs

  scripts/bench/ranks.py --predicted [--slow BYTES_PER_SECOND] [mlp | cnn | resnet18 | gpt]...  # the step that `plan --ranks 2` predicts from a
                                                          # profile of one rank and `doctor --links`, beside the measured one; with slow_mpi.c
                                                          # MPI has that rate, and a latency of 1 ms

The two alternate, each turn a fresh process. A ratio above 1 means that the ranks are faster. Refuses to measure while other
processes use the machine.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from windows import MOST_FOREIGN_CPU, spread, timed, train_records, until_clean

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Recipe, and steps of one window: about a second.
NETWORKS = {"mlp": ("fashion_mnist_mlp", 300), "cnn": ("fashion_mnist_cnn", 30), "resnet18": ("resnet18_cifar10", 1)}
GPT = ("gpt_char_bible", 1)
SPLIT = "gpt"
WINDOWS = 6
LEAST_PAIRS = 5
PARTS = ("data_wait_ms", "forward_ms", "backward_ms", "communication_ms", "update_ms")
TWO = ["parallelism.data=2", "device.threads=1"]
ONE = {"1 rank x 2 threads": ["device.threads=2"]}
STAGES = ["parallelism.pipeline=2", "training.micro_batch_size=2", "device.threads=1"]
SPLITS = {"shards": {"2 ranks with parts of the parameters": [*TWO, "parallelism.shard_parameters=true"], "2 ranks with whole parameters": TWO},
          "tensor": {"2 ranks that share operations": ["parallelism.tensor=2", "device.threads=1"], **ONE},
          "pipeline": {"2 stages": STAGES, **ONE},
          "interleaved": {"2 ranks with 2 stages each": [*STAGES, "parallelism.schedule.name=interleaved"], **ONE}}

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
# PyTorch's network, and steps of one window.
DDP = {"cnn": ("lenet", 30), "resnet18": ("resnet18", 1), SPLIT: ("gpt_char", 1)}
arguments.add_argument("networks", nargs="*", choices=[*NETWORKS, SPLIT, []], help="default: all")
arguments.add_argument("--ddp", metavar="PYTHON", help="also measure PyTorch with this interpreter")
arguments.add_argument("--launcher", help="the mpirun or mpiexec that starts our ranks; default: the one in PATH")
arguments.add_argument("--predicted", action="store_true", help="compare predicted steps with measured ones")
arguments.add_argument("--slow", type=float, metavar="BYTES/S", help="with --predicted: slow MPI down to this rate, and 1 ms")
arguments.add_argument("--splits", nargs="*", choices=[*SPLITS, []], help="compare divisions of one network; default: all")
arguments.add_argument("--pairs", type=int, default=7, help=f"turns of each, at least {LEAST_PAIRS}")
arguments.add_argument("--steps", type=int, help="steps of one window; default: about a second's worth")
arguments.add_argument("--batch", type=int, help="samples of a step, of all ranks together; default: 128, of the GPT 16")
arguments.add_argument("--trainer", default=os.path.join(ROOT, "build/release/bin/trainer"))
arguments.add_argument("--set", action="append", default=[], help="an override for both (may be repeated)")
arguments.add_argument("--most-foreign", type=float, default=MOST_FOREIGN_CPU, metavar="CORES",
                       help="cores that the rest of the machine may use; more only to try this script")
options = arguments.parse_args()
options.batch = options.batch or (128 if options.splits is None else 16)
if options.launcher:
    options.set.append(f"parallelism.launcher={options.launcher}")
if options.pairs < LEAST_PAIRS:
    arguments.error(f"--pairs must be at least {LEAST_PAIRS}: a median of fewer says little")


def measure(network, words):
    """Milliseconds of a step in a fresh run, each part of it, and the cores that others used."""
    recipe, steps = {**NETWORKS, SPLIT: GPT}[network]
    steps = options.steps or steps
    with tempfile.TemporaryDirectory() as directory:
        # Images from memory: reading a data set is not part of what ranks cost.
        command = [options.trainer, "--config", f"{ROOT}/configs/{recipe}.yaml", "device.type=cpu", f"run.output_dir={directory}/run",
                   f"training.max_duration={(WINDOWS + 2) * steps}ba", f"logging.interval={steps}ba", "lr_scheduler=constant",
                   "validation.interval=0ep", "checkpoint.interval=0s", "data={format: synthetic}",
                   f"training.global_batch_size={options.batch}", *words, *options.set]
        _, foreign = timed(command, os.environ)
        records = train_records(f"{directory}/run")
    found = {part: statistics.median(record[part] for record in records) for part in PARTS if part in records[0]}
    found["step_ms"] = statistics.median(options.batch * 1e3 / record["samples_per_s"] for record in records)
    return found, foreign


def compare(network, sides):
    pairs = []
    for number in range(1, options.pairs + 1):
        pair = {name: until_clean(lambda: measure(network, words), options.most_foreign) for name, words in sides.items()}
        pairs.append(pair)
        print(f"  {network}, pair {number}: " + ", ".join(f"{name} {found['step_ms']:.2f} ms" for name, found in pair.items()), flush=True)
    ranks, others = sides
    ratios = [pair[others]["step_ms"] / pair[ranks]["step_ms"] for pair in pairs]
    print(f"{network}: {ranks} are {spread(ratios)} times as fast as {others}, {len(pairs)} pairs")
    for name in sides:
        parts = [part for part in PARTS if part in pairs[0][name]]
        print(f"  {name}: step {spread([pair[name]['step_ms'] for pair in pairs])} ms; "
              + ", ".join(f"{part[:-3]} {statistics.median(pair[name][part] for pair in pairs):.3f} ms" for part in parts))
    if "communication_ms" in pairs[0][ranks]:
        shares = [100 * pair[ranks]["communication_ms"] / pair[ranks]["step_ms"] for pair in pairs]
        print(f"  communication that is not hidden: {spread(shares)} % of a step")


def measure_ddp(network, ranks):
    """Milliseconds of a step of PyTorch, and the cores that others used."""
    peer, steps = DDP[network]
    script = [os.path.join(ROOT, "scripts/bench/peer_torch.py"), peer, "--data", "synthetic", "--threads", str(3 - ranks),
              "--batch", str(options.batch), "--steps", str(steps), "--windows", str(WINDOWS)]
    torchrun = [options.ddp, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else [options.ddp]
    text, foreign = timed([*torchrun, *script], {**os.environ, "OMP_NUM_THREADS": str(3 - ranks)})
    return {"step_ms": statistics.median(json.loads(text.splitlines()[-1])["ms_per_step"])}, foreign


def compare_with_ddp(network):
    """How much faster two ranks with a thread each are than one with two threads: ours, PyTorch's, and the ratio of both."""
    sides = {"ours, 2 ranks": lambda: measure(network, TWO), "ours, 1 rank": lambda: measure(network, ONE["1 rank x 2 threads"]),
             "DDP, 2 ranks": lambda: measure_ddp(network, 2), "PyTorch, 1 process": lambda: measure_ddp(network, 1)}
    ours, theirs, ratios, speeds = [], [], [], []
    for number in range(1, options.pairs + 1):
        turn = {name: until_clean(side, options.most_foreign)["step_ms"] for name, side in sides.items()}
        print(f"  {network}, turn {number}: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in turn.items()), flush=True)
        ours.append(turn["ours, 1 rank"] / turn["ours, 2 ranks"])
        theirs.append(turn["PyTorch, 1 process"] / turn["DDP, 2 ranks"])
        ratios.append(ours[-1] / theirs[-1])
        speeds.append(turn["DDP, 2 ranks"] / turn["ours, 2 ranks"])
    print(f"{network}: 2 ranks x 1 thread against 1 x 2: ours {spread(ours)}, DDP {spread(theirs)}; ours to DDP's {spread(ratios)}; "
          f"our ranks are {spread(speeds)} times as fast as DDP's, {len(ratios)} turns")


def slowed(directory):
    """The environment in which MPI is slow."""
    if not options.slow:
        return dict(os.environ)
    library = os.path.join(directory, "slow_mpi.so")
    subprocess.run(["mpicc", "-shared", "-fPIC", "-O2", "-o", library, f"{ROOT}/scripts/bench/slow_mpi.c"], check=True)
    return {**os.environ, "LD_PRELOAD": library, "SLOW_MPI_BYTES": str(options.slow), "SLOW_MPI_SECONDS": "1e-3"}


def predict(network, directory):
    """Milliseconds of a step on two ranks: operations from a profile of one rank with its share of the batch, links as measured."""
    recipe, _ = {**NETWORKS, SPLIT: GPT}[network]
    fixed = ["--config", f"{ROOT}/configs/{recipe}.yaml", "device.type=cpu", "lr_scheduler=constant", "data={format: synthetic}", *options.set]
    run, machine = f"{directory}/profiled", f"{directory}/machine.json"
    subprocess.run(["mpirun", "-n", "2", options.trainer, "doctor", "--links", machine], check=True, capture_output=True,
                   env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    subprocess.run([options.trainer, *fixed, "--profile", "10", "device.threads=1", f"run.output_dir={run}", "training.max_duration=40ba",
                    "logging.interval=1ba", "validation.interval=0ep", "checkpoint.interval=0s",
                    f"training.global_batch_size={options.batch // 2}"], check=True, capture_output=True)
    text = subprocess.run([options.trainer, "plan", *fixed, "--ranks", "2", "--machine", machine, "--measured", run, "--json",
                           f"training.global_batch_size={options.batch}"], check=True, capture_output=True, text=True).stdout
    return json.loads(text)[0]


def compare_with_prediction(network):
    with tempfile.TemporaryDirectory() as directory:
        os.environ.update(slowed(directory))
        ratios = []
        for number in range(1, options.pairs + 1):
            row = predict(network, directory)
            measured = until_clean(lambda: measure(network, TWO), options.most_foreign)
            ms = 1e3 * row["seconds"]
            ratios.append(ms / measured["step_ms"])
            print(f"  {network}, turn {number}: predicted {ms:.2f} ms (computing {1e3 * row['computing_seconds']:.2f}, waiting for communication "
                  f"{1e3 * row['exposed_seconds']:.2f}, slowest {1e3 * row['slowest_rank_seconds']:.2f}), measured "
                  + ", ".join(f"{part[:-3]} {measured[part]:.2f}" for part in ("step_ms", *PARTS) if part in measured), flush=True)
            shutil.rmtree(f"{directory}/profiled")
        print(f"{network}: predicted over measured {spread(ratios)}, {len(ratios)} turns")


def main():
    _, foreign = timed(["sleep", "1"], os.environ)
    if foreign > options.most_foreign:
        sys.exit(f"the rest of the machine uses {foreign:.2f} cores: measure when it is idle")
    if options.predicted:
        for network in options.networks or [*NETWORKS, SPLIT]:
            compare_with_prediction(network)
        return
    if options.splits is not None:
        for split in options.splits or SPLITS:
            compare(SPLIT, SPLITS[split])
        return
    if options.ddp:
        for network in options.networks or DDP:
            compare_with_ddp(network)
        return
    for network in options.networks or NETWORKS:
        compare(network, {"2 ranks x 1 thread": TWO, **ONE})


main()
