# SPDX-License-Identifier: Apache-2.0
"""Rows of docs/gpu-evidence.tsv: what `trainer plan --ranks` predicts for several GPUs, beside what they measure."""
import json

from evidence import ROOT, row
from rows_several import gpt2, gpus
from trainings import SYNTHETIC, speed

MACHINES = {"A100": "dgx_a100", "H100": "dgx_h100", "H200": "dgx_h200", "B200": "dgx_b200"}


def machine_of(check):
    return next((machine for known, machine in MACHINES.items() if known in check.gpu), "dgx_h200")


def plan(check, name, recipe, *words):
    """Rows of the prediction."""
    return json.loads(check.run(name, [check.bin / "trainer", "plan", "--config", ROOT / f"configs/{recipe}.yaml", "--json", "--machine",
                                       machine_of(check), *words]))


@row("splits", 20)
def links(check):
    """Within a node; a machine of several nodes runs the same command under its launcher."""
    count, found = max(gpus(2)), check.results / "links.json"
    check.run("links", ["mpirun", "-n", str(count), check.bin / "trainer", "doctor", "--links", found])
    measured = json.loads(found.read_text())["withinNode"]
    described = json.loads((ROOT / f"configs/machines/{machine_of(check)}.json").read_text())["withinNode"]
    return (f"{count} GPUs: {measured['bytesPerSecond'] / 1e9:.0f} GB/s and {1e6 * measured['latencySeconds']:.1f} us, where {machine_of(check)} has "
            f"{described['bytesPerSecond'] / 1e9:.0f} GB/s and {1e6 * described['latencySeconds']:.1f} us")


@row("scaling", 340)
def scaling_foretold(check):
    told = []
    resnet50 = (SYNTHETIC, "training.precision=amp_fp16")
    for name, recipe, batch, words in (("resnet50", "resnet50_imagenet", 256, resnet50), ("gpt2", "gpt2_tokens", 16, (SYNTHETIC, "training.precision=amp_bf16"))):
        counts = [1, *gpus(2)]
        fixed = (*words, f"training.micro_batch_size={batch}", "validation.interval=0ep", "logging.interval=1ba", "lr_scheduler=constant",
                 "training.max_duration=20ba")
        runs = {count: check.train(f"scaling_{name}_{count}", recipe, *fixed, f"training.global_batch_size={batch * count}",
                                   f"parallelism.data={count}", *(("--profile", "5") if count == 1 else ())) for count in counts}
        rows = plan(check, f"scaling_{name}_plan", recipe, "--ranks", ",".join(map(str, counts[1:])), "--weak", "--measured", runs[1].directory, *fixed,
                    f"training.global_batch_size={batch}")
        told += [f"{name} on {each['ranks']} GPUs: {100 * each['efficiency']:.1f} % predicted, "
                 f"{100 * speed(runs[each['ranks']]) / each['ranks'] / speed(runs[1]):.1f} % measured" for each in rows]
    return "; ".join(told)


@row("splits", 340)
def splits_foretold(check):
    count = max(gpus(2))
    rows = [each for each in plan(check, "splits_plan", "gpt2_tokens", "--ranks", str(count), "--splits", *gpt2(count)[1:]) if each.get("fits")][:3]
    told = []
    for number, each in enumerate(rows):
        run = check.train(f"splits_{number}", *gpt2(count), *(f"parallelism.{key}={each[key]}" for key in ("data", "tensor", "pipeline", "shard_parameters")),
                          f"parallelism.shard_optimizer={str(each['shard_optimizer']).lower()}")
        told.append(f"data {each['data']}, tensor {each['tensor']}, pipeline {each['pipeline']}, sharded {each['shard_parameters']}: "
                    f"{each['samples_per_second']:.0f} samples/s predicted, {speed(run):.0f} measured")
    return "; ".join(told)
