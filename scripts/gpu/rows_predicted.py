# SPDX-License-Identifier: Apache-2.0
"""Rows of docs/gpu-evidence.tsv: what `trainer plan` predicts beside what was measured, and what a first visit profiles."""
import json

from evidence import Failed, ROOT, row
from trainings import LARGE, SYNTHETIC, ratio_of, speed, steps

GPT2 = ("gpt2_tokens", SYNTHETIC, "training.precision=amp_bf16", "training.micro_batch_size=16", "training.global_batch_size=16",
        "validation.interval=0ep")
KERNELS = "measure_moments|apply_affine|apply_slopes"


def seconds_by_operation(trace):
    """Of one step, from the program's own trace: the label of an event begins with its operation."""
    found = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event.get("ph") == "X":
            kind = event["name"].split()[0]
            found[kind] = found.get(kind, 0) + event["dur"] / 1e6
    return found


def beside_plan(check, name, recipe, *words):
    """The prediction for a step and its six longest kinds of operation, with a trace of ten steps."""
    devices = {"A100": "a100", "H100": "h100", "H200": "h200", "B200": "b200"}
    model = next((device for known, device in devices.items() if known in check.gpu), "h200")
    plan = json.loads(check.run(f"{name}_plan", [check.bin / "trainer", "plan", "--json", "--config", ROOT / f"configs/{recipe}.yaml",
                                                 "device.type=cuda", f"device.model={model}", *words]))["predicted"]
    run = check.train(name, recipe, *words, "training.max_duration=20ba", "--profile", "10")
    measured = seconds_by_operation(run.directory / "trace.json")
    told = [f"{speed(run):.0f} samples/s, {plan['samples_per_second']:.0f} predicted by the rates of {model}"]
    for kind, seconds in sorted(measured.items(), key=lambda item: -item[1])[:6]:
        if kind in plan["operations"]:
            told.append(f"{kind} {1e2 * seconds:.2f} / {1e3 * plan['operations'][kind]['seconds']:.2f} ms")
    return ", ".join(told)


@row("profiles", 50)
def predicted_times(check):
    return "; ".join(f"{name}: {beside_plan(check, name, *words)}" for name, words in (("resnet50", LARGE), ("gpt2", GPT2)))


@row("profiles", 70)
def predicted_passes(check):
    without = {"all": (), "no gram": ("gram_batch_norm",), "no moments": ("gram_batch_norm", "fuse_moments")}
    return "; ".join(f"{name}: " + beside_plan(check, name.replace(" ", "_"), *LARGE, *(word for one in passes for word in ("--disable-pass", one)))
                     for name, passes in without.items())


@row("profiles", 50)
def predicted_autotune(check):
    return beside_plan(check, "autotuned", *LARGE, "runtime.autotune=true")


@row("profiles", 50)
def vocabulary_speed(check):
    """Also shows whether rows of 50,257 logits, which begin at multiples of 128 bytes, cost more than those of 50,304."""
    padded = check.results / "gpt2_50304.yaml"
    padded.write_text((ROOT / "configs/models/gpt2.yaml").read_text().replace("50257", "50304"))
    return ratio_of(check, "vocabulary", (), (f"model.network={padded}",), *GPT2, "training.max_duration=20ba", "logging.interval=5ba")


@row("profiles", 20)
def epilogue_log(check):
    """cuBLASLt's own record of the products that test_cuda asks for."""
    log = check.results / "cublaslt.log"
    text = check.run("epilogues", ["env", "CUBLASLT_LOG_LEVEL=2", f"CUBLASLT_LOG_FILE={log}", check.bin / "test_cuda",
                                   "a relu with its mask in the kernel of a product*,gelu_tanh in the kernel of a product*"])
    if "All tests passed" not in text:
        raise Failed("the cases of epilogues did not pass")
    return f"{len(log.read_text().splitlines()) if log.exists() else 0} lines in cublaslt.log"


@row("profiles", 40)
def streaming_kernels(check):
    """The share of the memory's peak rate that three kernels reach, by Nsight Compute."""
    text = check.run("streaming", [
        "ncu", "--kernel-name", f"regex:{KERNELS}", "--launch-skip", "60", "--launch-count", "9", "--metrics",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed", check.bin / "trainer", "--config", ROOT / "configs/resnet50_imagenet.yaml",
        "device.type=cuda", f"run.output_dir={check.results}/runs/streaming", *LARGE[1:], "runtime.cuda_graph=false",
        "training.max_duration=2ba", "--disable-pass", "fuse_moments", "--disable-pass", "gram_batch_norm"])
    shares = [float(line.split()[-1]) for line in text.splitlines() if "dram__throughput" in line]
    if not shares:
        raise Failed("ncu shows none of the kernels")
    return "per cent of the memory's rate, in the order of the launches: " + ", ".join(f"{share:.0f}" for share in shares)


@row("profiles", 50)
def memcheck_first(check):
    """The kernels that are most easily wrong, before memcheck of all."""
    text = check.run("memcheck_first", [
        "compute-sanitizer", "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "1", "--kernel-regex", "kns=trainer",
        check.bin / "test_cuda", "our own kernels agree with the reference on a GPU*,normalisations within products*"])
    return next(line for line in text.splitlines() if "ERROR SUMMARY" in line)
