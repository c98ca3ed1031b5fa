#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rows of docs/gpu-evidence.tsv, by part. Run by scripts/gpu/check.sh; `rows.py --list` prints id, part and seconds."""

import json
import os
import shlex
import shutil
import sys

import evidence
import rows_correct  # noqa: F401  it adds its own rows
import rows_predicted  # noqa: F401  so do these
import rows_products  # noqa: F401
import rows_scaling  # noqa: F401
import rows_several  # noqa: F401
from evidence import Failed, ROOT, row, same_files
from trainings import LARGE, SYNTHETIC, distance, ratio_of, speed, steps


# speed


def register_comparisons():
    for network, part, seconds, ids, words in (
            ("resnet50", "speed", 200, ("resnet50_speed", "resnet50_roofline", "resnet50_memory"), ("--steps", "50")),
            ("resnet18", "speed", 110, ("resnet18_speed", "resnet18_host"), ()),
            ("gpt2", "text", 200, ("gpt2_speed", "gpt2_memory"), ("--precision", "amp_bf16", "--steps", "20"))):
        def compare(check, network=network, words=words):
            figures = check.results / f"{network}.json"
            check.run(network, [sys.executable, ROOT / "scripts/gpu/compare.py", network, "--trainer", check.bin / "trainer",
                                "--json", figures, *words])
            return json.loads(figures.read_text())
        row(part, seconds, *ids)(compare)


register_comparisons()


@row("speed", 45, "start_cold", "start_warm")
def start(check):
    check.forget()
    runs = {name: check.train(name, *LARGE, "training.max_duration=1ba") for name in ("start_cold", "start_warm")}
    return {name: f"{run.summary()['training']['first_step_seconds']} s to the end of the first step" for name, run in runs.items()}


@row("features", 25)
def determinism_cost(check):
    return ratio_of(check, "determinism_cost", ("run.deterministic=true",), ("run.deterministic=false",), "resnet18_cifar10", SYNTHETIC,
                    "training.precision=amp_fp16", "training.max_duration=300ba", "validation.interval=0ep", "logging.interval=100ba")


# features

def accuracy_of(precision):
    name = f"accuracy_{precision}"

    def accuracy(check):
        run = check.train(name, "fashion_mnist_cnn", f"training.precision={precision}", f"data.train={check.data}/train",
                          f"data.val={check.data}/t10k")
        top1 = run.summary()["validation"]["last"]["top1"]
        if top1 < 0.92:
            raise Failed(f"top-1 {top1}, expected 0.92")
        return f"top-1 {top1}"
    row("features", 25, name)(accuracy)


for choice in ("fp32", "tf32", "amp_bf16", "amp_fp16"):
    accuracy_of(choice)


@row("features", 10, "monitor", "throttled_time")
def monitor(check):
    """The program's log compared with nvidia-smi at that time."""
    run = check.train("monitor", "resnet18_cifar10", SYNTHETIC, "training.precision=amp_fp16", "training.max_duration=300ba",
                      "validation.interval=0ep", "logging.interval=50ba")
    told = {key: value for line in run.metrics() for key, value in line.items() if key.startswith("device_") and value is not None}
    if not told:
        raise Failed("no reading of the device")
    beside = check.run("nvidia_smi", ["nvidia-smi", "--query-gpu=memory.used,power.draw,temperature.gpu,clocks.sm",
                                      "--format=csv,noheader"])
    throttled = [line["device_throttled_s"] for line in run.metrics() if "device_throttled_s" in line]
    return {"monitor": ", ".join(f"{key} {value}" for key, value in sorted(told.items())) + "; nvidia-smi: " + beside.strip(),
            "throttled_time": f"{sum(throttled):.3g} s in {len(throttled)} lines" if throttled else "NVML does not tell it"}


@row("features", 20)
def autotune(check):
    check.forget()
    words = steps(20, 32, "training.precision=amp_fp16", "runtime.autotune=true")
    first = check.train("autotune", "resnet18_cifar10", *words)
    kept = json.loads((first.directory / "algorithms.json").read_text())
    return f"{len(json.dumps(kept))} bytes of choices kept; first step {first.summary()['training']['first_step_seconds']} s"


@row("features", 15)
def data_cache(check):
    words = ("fashion_mnist_cnn", f"data.train={check.data}/train", f"data.val={check.data}/t10k", "training.max_duration=1ep",
             "logging.interval=100ba", "run.deterministic=true")
    runs = [check.train(f"cache_{where}", *words, f"data.cache={where}") for where in ("device", "none")]
    same_files(runs[0].weights(), runs[1].weights())
    return f"equal bits; {speed(runs[0]) / speed(runs[1]):.2f} times as fast"


@row("features", 15)
def device_cache(check):
    run = check.train("copies", *LARGE, "training.max_duration=60ba", "logging.interval=20ba")
    last = run.metrics()[-1]
    return f"data wait {last['data_wait_ms']} ms a step, host {last.get('host_ms', 'not measured')} ms, {speed(run):.0f} images/s"


@row("features", 40)
def checkpoint_cost(check):
    return ratio_of(check, "saving", ("checkpoint.interval=20ba",), ("checkpoint.interval=1ep",), *LARGE, "training.max_duration=60ba",
                    "logging.interval=20ba")


@row("features", 25)
def guard_graph(check):
    return ratio_of(check, "guard", ("guards.spike=skip",), ("guards.spike=none",), "resnet18_cifar10", SYNTHETIC,
                    "training.precision=amp_fp16", "training.max_duration=300ba", "validation.interval=0ep", "logging.interval=100ba")


@row("features", 15)
def non_finite_named(check):
    check.train("non_finite", "fashion_mnist_mlp", SYNTHETIC, "training.max_duration=200ba", "optimizer.lr=1e30", code=70)
    text = (check.results / "non_finite.log").read_text()
    if "first non-finite value: " not in text:
        raise Failed("the message names no value")
    return text.partition("first non-finite value: ")[2].split("\n")[0]


@row("features", 10)
def predict_gpu(check):
    words = (SYNTHETIC, "training.max_duration=20ba")
    run = check.train("predict", "fashion_mnist_cnn", *words)
    told = []
    for device in ("cuda", "cpu"):
        text = check.run(f"predict_{device}", [
            check.bin / "trainer", "predict", "--config", ROOT / "configs/fashion_mnist_cnn.yaml", "--all", f"device.type={device}",
            f"run.output_dir={run.directory}", *words, "--split", "val"])
        told.append([json.loads(line) for line in text.splitlines() if line.startswith("{")])
    off = max(abs(a - b) for first, second in zip(*told, strict=True)
              for a, b in zip(first["probabilities"], second["probabilities"], strict=True))
    return f"{len(told[0])} samples, probabilities off by at most {off:.1e} from the CPU's"


@row("features", 20)
def finetune_frozen(check):
    words = steps(20, 8, "training.precision=fp32", "model.freeze=['bn1.*', 'layer1.*']", "model.initial_weights=null", "model.replace=[]")
    gpu, cpu = (check.train(f"frozen_{device}", "image_folder_finetune", *words, device=device) for device in ("cuda", "cpu"))
    return f"largest relative difference of 20 losses to the CPU's: {distance(gpu.losses(), cpu.losses()):.1e}"


@row("features", 30)
def torch_facts(check):
    folder = os.environ.get("FACTS", "")
    if not folder:
        raise Failed("FACTS names no folder with facts.sh")
    return check.run("facts", ["bash", f"{folder}/facts.sh"]).strip().splitlines()[-1]


@row("features", 10)
def slurm_gpu(check):
    if shutil.which("sbatch") is None:
        raise Failed("sbatch is not on PATH; run on a cluster's GPU node")
    return check.run("slurm", ["sbatch", "--wait", "--gpus=1", ROOT / "scripts/slurm/train.sbatch", "--config",
                               ROOT / "configs/fashion_mnist_cnn.yaml", "device.type=cuda", SYNTHETIC]).strip()


@row("features", 10)
def native_architecture(check):
    text = check.run("configure", ["cmake", "-S", ROOT, "-B", check.results / "configure", "-DTRAINER_CUDA=on", "-DTRAINER_TESTS=OFF"])
    return next(line for line in text.splitlines() if "CUDA architectures:" in line)


# fusion

@row("fusion", 8)
def moments(check):
    return check.cases("moments", "normalisations whose convolutions measure*")


@row("fusion", 8)
def moments_timed(check):
    return check.cases("moments_timed", "moments are right whatever timing chose*")


@row("fusion", 60)
def moments_speed(check):
    return ratio_of(check, "moments", (), ("--disable-pass", "fuse_moments"), *LARGE, "runtime.autotune=true", "training.max_duration=60ba",
                    "logging.interval=20ba")


@row("fusion", 60)
def padded_stem_speed(check):
    return ratio_of(check, "padded", (), ("--disable-pass", "pad_channels"), *LARGE, "runtime.autotune=true", "training.max_duration=60ba",
                    "logging.interval=20ba")


# tools

# One test provokes an error of the runtime on purpose, and the program checks every call itself.
def register_sanitizers():
    for tool in ("memcheck", "racecheck"):
        def sanitize(check, tool=tool):
            text = check.run(tool, ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "1",
                                    "--kernel-regex", "kns=trainer", check.bin / "test_cuda"])
            return next(line for line in text.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line)
        row("tools", 130, tool)(sanitize)


register_sanitizers()


def profile(check, name, *words):
    report = check.results / name
    check.run(name, ["nsys", "profile", "--force-overwrite", "true", "--stats=true", "-o", report, check.bin / "trainer", "--config",
                     ROOT / "configs/resnet18_cifar10.yaml", "device.type=cuda", f"run.output_dir={report}_run", *words])
    return (check.results / (name + ".log")).read_text()


@row("tools", 20)
def nvtx(check):
    text = profile(check, "nvtx", *steps(10, 32, "runtime.cuda_graph=false"))
    ranges = [line for line in text.splitlines() if "conv2d" in line]
    if not ranges:
        raise Failed("nsys shows no range of a layer")
    return f"{len(ranges)} ranges of convolutions, as '{ranges[0].split()[-1]}'"


@row("tools", 30)
def sync(check):
    counts = []
    for count in (20, 120):  # costs added by a step
        text = profile(check, "sync", *steps(count, 32, "training.precision=amp_fp16", "logging.interval=1000ba"))
        counts.append(sum(int(line.split()[2].replace(",", "")) for line in text.splitlines() if "Synchronize" in line))
    return f"{(counts[1] - counts[0]) / 100:.2f} synchronisations a step"


@row("tools", 45, "bandwidth", "dw_conversion")
def kernels(check):
    text = check.run("kernels", ["nsys", "profile", "--force-overwrite", "true", "--stats=true", "-o", check.results / "kernels",
                                 check.bin / "trainer", "--config", ROOT / "configs/resnet50_imagenet.yaml", "device.type=cuda",
                                 f"run.output_dir={check.results}/runs/kernels", *LARGE[1:], "training.max_duration=10ba"])
    own = [line.split() for line in text.splitlines() if "trainer::" in line]
    return {"bandwidth": f"{len(own)} own kernels are in kernels.log with their times",
            "dw_conversion": "; ".join(" ".join(words[:3]) for words in own if "cast" in " ".join(words)) or "failed: no cast was seen"}


# ranks

# One GPU for several ranks: NCCL 2.30 allows it on request, earlier releases if both seem to be on different hosts.
ON_ONE_GPU = ("for rank in $(seq 0 $(({0} - 1))); do env RANK=$rank LOCAL_RANK=$rank NCCL_HOSTID=$rank WORLD_SIZE={0} LOCAL_WORLD_SIZE={0} MASTER_ADDR=127.0.0.1 "
              "MASTER_PORT=29411 NCCL_MULTI_RANK_GPU_ENABLE=1 {1} & pids=\"$pids $!\"; done; for pid in $pids; do wait $pid || exit $?; done")


def on_one_gpu(check, name, ranks, recipe, *words):
    directory = check.results / "runs" / name
    shutil.rmtree(directory, ignore_errors=True)
    command = [check.bin / "trainer", "--config", ROOT / f"configs/{recipe}.yaml", "device.type=cuda", f"run.output_dir={directory}", *words]
    check.run(name, ["sh", "-c", ON_ONE_GPU.format(ranks, shlex.join(map(str, command)))])
    return evidence.Run(directory)


@row("division", 150)
def model_equal(check):
    """A GPT divided among ranks on one GPU, against one process with the same micro-batches."""
    words = ("gpt_char_bible", *steps(12, 8, "run.deterministic=true"), "training.micro_batch_size=2")
    shards, tensor, pipeline = "parallelism.shard_parameters=true", "parallelism.tensor=2", "parallelism.pipeline=2"
    told, exact = [], None
    for precision in "fp32", "amp_bf16":
        same = (*words, f"training.precision={precision}")
        alone = check.train(f"model_{precision}", *same)
        exact = exact or alone
        # In bf16 no more than the precision itself changes.
        allowed = max(1e-5, distance(exact.losses(), alone.losses()))
        for way, ranks, keys in (("shards 2", 2, [shards]), ("tensor 2", 2, [tensor]), ("tensor 2 x shards 2", 4, [tensor, shards]),
                                 ("pipeline 2", 2, [pipeline]), ("pipeline 2, interleaved", 2, [pipeline, "parallelism.schedule.name=interleaved"]),
                                 ("pipeline 2 x tensor 2", 4, [pipeline, tensor])):
            run = on_one_gpu(check, f"model_{precision}_{way.replace(' ', '_').replace(',', '')}", ranks, *same, *keys)
            apart = distance(run.losses(), alone.losses())
            if apart > allowed:
                raise Failed(f"{way} in {precision}: losses differ by {apart:.1e} from one process, allowed are {allowed:.1e}")
            told.append(f"{way} in {precision} {apart:.1e}")
    return "losses beside one process: " + ", ".join(told)


@row("ranks", 270, "nccl_two_ranks", "nccl_graph", "nccl_shards", "nccl_parts", "nccl_split")
def nccl(check):
    words = ("resnet18_cifar10", *steps(20, 64, "run.deterministic=true"), "training.micro_batch_size=32")
    alone, runs = check.train("nccl_alone", *words), {}
    parts, single = "parallelism.shard_parameters=true", "runtime.cuda_graph=false"
    pairs, four = "parallelism.shard_parameters=2", "training.micro_batch_size=16"
    for way, ranks, *keys in (("graph", 2, "runtime.cuda_graph=true"), ("single", 2, single), ("shards", 2, "parallelism.shard_optimizer=true"),
                              ("parts", 2, parts), ("parts_single", 2, parts, single),
                              ("four", 4, four), ("pairs", 4, pairs, four), ("pairs_single", 4, pairs, four, single)):
        runs[way] = on_one_gpu(check, f"nccl_{way}", ranks, *words, *keys)
    same_files(runs["graph"].weights(), runs["single"].weights())
    same_files(runs["graph"].weights(), runs["shards"].weights())
    same_files(runs["parts"].weights(), runs["parts_single"].weights())
    same_files(runs["pairs"].weights(), runs["pairs_single"].weights())
    cut, split = (distance(runs[whole].losses(), runs[part].losses()) for whole, part in (("graph", "parts"), ("four", "pairs")))
    for ranks, found in ("two ranks", cut), ("four ranks in pairs", split):
        if found > 1e-5:
            raise Failed(f"losses of {ranks} with parts of the parameters differ by {found:.1e} from as many with whole ones")
    apart = distance(runs["graph"].losses(), alone.losses())
    if apart > 1e-5:
        raise Failed(f"losses of two ranks differ by {apart:.1e} from one process with two micro-batches")
    return {"nccl_two_ranks": f"losses within {apart:.1e} of one process with two micro-batches; one after the other's work on one GPU: "
                              f"{speed(runs['graph']) / speed(alone):.2f} times as fast",
            "nccl_graph": "equal bits with the step captured as a graph and launched kernel by kernel",
            "nccl_shards": "equal bits with the optimiser's moments shared out",
            "nccl_parts": f"losses within {cut:.1e} of whole parameters; equal bits captured and launched kernel by kernel; one after the other's "
                          f"work on one GPU: {speed(runs['parts']) / speed(runs['graph']):.2f} times as fast",
            "nccl_split": f"losses within {split:.1e} of four ranks with whole parameters; equal bits captured and launched kernel by kernel"}


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        evidence.print_rows()
        sys.exit(0)
    sys.exit(evidence.main(*sys.argv[1:]))
