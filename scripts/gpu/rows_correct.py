# SPDX-License-Identifier: Apache-2.0
"""The rows of docs/gpu-evidence.tsv that say whether results are right."""

import json
import re
import shutil
import signal
import subprocess
import time

from evidence import Failed, ROOT, row, same_files
from trainings import SHIPPED, SYNTHETIC, distance, speed, steps, twice


@row("correct", 15)
def doctor(check):
    return check.run("doctor", [check.bin / "trainer", "doctor", "--device-json", check.results / "device.json"]).strip()[-300:]


@row("correct", 20)
def smoke(check):
    """Twenty steps, launched one by one and as a graph; the first loss beside the CPU's."""
    found = []
    for recipe, precision in (("fashion_mnist_mlp", "fp32"), ("fashion_mnist_cnn", "fp32"), ("resnet18_cifar10", "amp_fp16")):
        words = steps(20, 32, f"training.precision={precision}", "run.deterministic=true")
        runs = twice(check, f"smoke_{recipe}", ("runtime.cuda_graph=false",), ("runtime.cuda_graph=true",), recipe, *words)
        cpu = check.train(f"smoke_{recipe}_cpu", recipe, *words, "training.precision=fp32", "training.max_duration=1ba", device="cpu")
        found.append(f"{recipe} {precision}: equal bits, first loss off by {distance(runs[0].losses()[:1], cpu.losses()):.1e}")
    return "; ".join(found)


@row("correct", 160)
def tests(check):
    return check.cases("tests", "-d", "yes")


@row("text", 90)
def curves(check):
    worst = {}
    for recipe in SHIPPED:
        words = steps(20, 4, "training.precision=fp32")
        gpu, cpu = (check.train(f"curves_{recipe}_{device}", recipe, *words, device=device) for device in ("cuda", "cpu"))
        worst[recipe] = distance(gpu.losses(), cpu.losses())
    return "largest relative difference to the CPU: " + ", ".join(f"{name} {value:.1e}" for name, value in worst.items())


@row("correct", 25)
def determinism(check):
    twice(check, "determinism", (), (), "resnet18_cifar10", SYNTHETIC, "training.precision=amp_fp16", "training.max_duration=200ba",
          "validation.interval=0ep", "run.deterministic=true")
    return "identical weights after 200 steps"


@row("text", 60, "gpt2_parity", "gpt2_determinism")
def gpt2(check):
    """Twenty steps in f32 beside the CPU's first, and twice the same in bf16."""
    words = (*steps(20, 4, "run.deterministic=true"), "data={format: synthetic, val: null}")
    gpu = check.train("gpt2_gpu", "gpt2_tokens", *words, "training.precision=fp32")
    cpu = check.train("gpt2_cpu", "gpt2_tokens", *words, "training.precision=fp32", "training.max_duration=2ba", device="cpu")
    twice(check, "gpt2_twice", (), (), "gpt2_tokens", *words, "training.precision=amp_bf16")
    return {"gpt2_parity": f"first two losses off by {distance(gpu.losses()[:2], cpu.losses()):.1e}",
            "gpt2_determinism": "identical weights after 20 steps in bf16"}


@row("correct", 25)
def checkpoint_resume(check):
    words = steps(400, 32, "training.precision=amp_fp16", "run.deterministic=true", "checkpoint.interval=50ba")
    whole = check.train("resume_whole", "resnet18_cifar10", *words)
    directory = check.results / "runs/resume_killed"
    shutil.rmtree(directory, ignore_errors=True)
    command = [check.bin / "trainer", "--config", ROOT / "configs/resnet18_cifar10.yaml", "device.type=cuda",
               f"run.output_dir={directory}", *words]
    with open(check.results / "resume_killed.log", "w") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        while process.poll() is None and not list(directory.glob("checkpoints/step-*")) and time.monotonic() < check.deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed = check.resume("resume_killed", "resnet18_cifar10", *words)
    same_files(whole.weights(), killed.weights())
    return "killed after its first checkpoint and resumed: identical weights"


@row("correct", 15)
def eval_equal(check):
    words = (SYNTHETIC, "training.max_duration=1ep")
    run = check.train("eval", "fashion_mnist_cnn", *words)
    told = run.summary()["validation"]["last"]
    text = check.run("eval_again", [check.bin / "trainer", "eval", "--json", "--config", ROOT / "configs/fashion_mnist_cnn.yaml",
                                    "device.type=cuda", f"run.output_dir={run.directory}", *words])
    found = json.loads(text.strip().splitlines()[-1])
    if any(found[key] != value for key, value in told.items()):
        raise Failed(f"eval says {found}, training said {told}")
    return f"equal: {told}"


@row("correct", 15)
def bytes_to_device(check):
    words = steps(20, 32, "data.augment=[{normalize: {mean: [0.5], std: [0.5]}}]")
    usual = check.train("bytes", "fashion_mnist_cnn", *words)
    without = check.train("bytes_without", "fashion_mnist_cnn", *words, "--disable-pass", "read_pixels")
    return f"largest relative difference of 20 losses: {distance(usual.losses(), without.losses()):.1e}"


@row("correct", 20)
def low_weights(check):
    words = steps(20, 32, "training.precision=amp_fp16", "training.micro_batch_size=8", "run.deterministic=true")
    usual = check.train("low", "resnet18_cifar10", *words)
    without = check.train("low_without", "resnet18_cifar10", *words, "--disable-pass", "keep_low_weights")
    if usual.losses() != without.losses():
        raise Failed(f"losses differ by {distance(usual.losses(), without.losses()):.1e}")
    return f"20 losses equal; {speed(usual) / speed(without):.2f} times as fast as without"


@row("fusion", 20)
def prepared_weights(check):
    """Evaluation within training, where nothing is prepared, and by `trainer eval`, where it is."""
    apart = []
    for precision in "fp32", "amp_fp16":
        words = steps(10, 32, f"training.precision={precision}", "run.deterministic=true", "validation.interval=10ba")
        run = check.train(f"prepared_{precision}", "resnet18_cifar10", *words)
        text = check.run(f"prepared_{precision}_eval", [
            check.bin / "trainer", "eval", "--config", ROOT / "configs/resnet18_cifar10.yaml", "--json", "device.type=cuda",
            f"run.output_dir={run.directory}", *words])
        told = [json.loads(line)["loss"] for line in text.splitlines() if line.startswith("{")]
        apart.append(abs(told[-1] / run.summary()["validation"]["last"]["loss"] - 1))
    if any(apart):
        raise Failed(f"losses differ by {apart[0]:.1e} in fp32, {apart[1]:.1e} in amp_fp16")
    return "equal losses in fp32 and amp_fp16"


@row("fusion", 25)
def masks(check):
    """Masks change between steps that are in flight, and within replays of the step's graph."""
    words = steps(30, 32, "training.precision=fp32", "run.deterministic=true", "compression.prune.sparsity=0.8", "compression.prune.scope=global",
                  "compression.prune.end=20ba", "compression.prune.every=5ba")
    graph, _ = twice(check, "masks", ("runtime.cuda_graph=true",), ("runtime.cuda_graph=false",), "resnet18_cifar10", *words)
    cpu = check.train("masks_cpu", "resnet18_cifar10", *words, device="cpu")
    return f"equal bits with and without the graph; largest relative difference of 10 losses to the CPU: {distance(graph.losses()[:10], cpu.losses()[:10]):.1e}"


@row("fusion", 25)
def distillation(check):
    teacher = check.train("teacher", "fashion_mnist_cnn", *steps(20, 32))
    words = steps(20, 32, "training.precision=fp32", "loss={name: distillation, teacher: {recipe: %s, weights: %s}}" % (
        ROOT / "configs/fashion_mnist_cnn.yaml", teacher.directory))
    runs = [check.train(f"student_{device}", "fashion_mnist_mlp", *words, device=device) for device in ("cuda", "cpu")]
    return f"largest relative difference of 20 losses to the CPU: {distance(runs[0].losses(), runs[1].losses()):.1e}"


@row("fusion", 25)
def rounding(check):
    """Extremes are found and used in the same step, and ranges move within replays of the step's graph."""
    words = steps(20, 32, "training.precision=fp32", "run.deterministic=true", "compression.quantize.weight_bits=7", "compression.quantize.begin=5ba")
    graph, _ = twice(check, "rounding", ("runtime.cuda_graph=true",), ("runtime.cuda_graph=false",), "fashion_mnist_cnn", *words)
    cpu = check.train("rounding_cpu", "fashion_mnist_cnn", *words, device="cpu")
    return f"equal bits with and without the graph; largest relative difference of 10 losses to the CPU: {distance(graph.losses()[:10], cpu.losses()[:10]):.1e}"


@row("fusion", 60)
def tensorrt_two_of_four(check):
    """TensorRT's own program reads an exported network whose weights are masked 2:4."""
    run = check.train("two_of_four", "resnet18_cifar10", *steps(5, 32), "compression.prune.sparsity=0.5", "compression.prune.pattern=2:4",
                      "compression.prune.except=[conv1.*]")
    model = check.results / "two_of_four.onnx"
    check.run("two_of_four_export", [check.bin / "trainer", "export", run.directory, "--out", model])
    speeds = {}
    for sparsity in "disable", "enable":
        text = check.run(f"trtexec_{sparsity}", ["trtexec", f"--onnx={model}", "--fp16", f"--sparsity={sparsity}", "--shapes=input:32x3x32x32"])
        found = re.search(r"Throughput: ([0-9.]+) qps", text)
        if found is None:
            raise Failed(f"trtexec --sparsity={sparsity} names no throughput")
        speeds[sparsity] = float(found[1])
    return f"batches of 32 a second: {speeds['enable']:.0f} sparse, {speeds['disable']:.0f} dense"


@row("correct", 15)
def guard_told(check):
    """Steps that the guard skips by itself, and a run with these as skip_steps."""
    words = steps(100, 4, "guards.spike_window=16", "run.deterministic=true")
    run = check.train("guard_finds", "fashion_mnist_mlp", *words, "guards.spike=skip", "guards.spike_sigmas=2")
    skipped = [line["step"] for line in run.metrics("guard") if line["event"] == "skip"]
    if not skipped:
        raise Failed("the guard skipped no step")
    told = check.train("guard_told", "fashion_mnist_mlp", *words, f"guards.skip_steps={skipped}")
    same_files(run.weights(), told.weights())
    return f"identical weights, {len(skipped)} of 100 steps skipped"


@row("correct", 10)
def amp_trace(check):
    run = check.train("amp_trace", "mlp_amp", "training.max_duration=60ba", "logging.interval=1ba", "validation.interval=0ep")
    scales = [line["loss_scale"] for line in run.metrics() if "loss_scale" in line]
    if not scales:
        raise Failed("no loss_scale was logged")
    return f"scale {scales[0]:g} at first, {scales[-1]:g} after {len(scales)} steps, {len(set(scales))} values"


def register_cases():
    """Cases of test_cuda that a row of their own asks for."""
    for name, pattern in {
            "nan_relu": "a relu or gelu_tanh in the same kernel*",
            "moments_deterministic": "with run.deterministic normalisations*",
            "low_products": "products of f16 and bf16 and their gradients*",
            "low_products_timed": "so do those that a measurement chose*,convolutions of single pixels by cuBLASLt*",
            "attention_cudnn": "attention by cuDNN and its gradient*",
            "attention_repeats": "attention by cuDNN whose gradient repeats its bits*",
            "attention_timed": "attention by the fastest kernels*",
            "cudnn_answers": "a GPU's own description leads*",
            "out_of_memory": "more memory than the GPU has*"}.items():
        part = "features" if name == "cudnn_answers" else "fusion" if name.startswith(("attention", "moments")) else "correct"
        row(part, 8, name)(
            lambda check, name=name, pattern=pattern: check.cases(name, pattern))


register_cases()


OWN_KERNELS = ("guard_kernels", "attention_kernels", "joined_kernels", "last_block_kernels", "metric_kernels",
               "element_losses", "number_losses", "noise_kernels", "kept_softmax")


@row("correct", 8, *OWN_KERNELS)
def own_kernels(check):
    figure = check.cases("own_kernels", "our own kernels agree with the reference on a GPU*")
    return dict.fromkeys(OWN_KERNELS, figure)


@row("division", 150)
def tune_batch(check):
    """Each micro-batch by a process of its own; the peaks are of all processes on the device."""
    text = check.run("tune_batch", [check.bin / "trainer", "tune", "batch", "--config", ROOT / "configs/resnet18_cifar10.yaml", SYNTHETIC,
                                    "device.type=cuda", "training.precision=amp_fp16", "training.global_batch_size=64", "--seconds", "0.5", "--json"])
    told = json.loads(text[text.index("{\n"):])
    worst = max(abs(timing["peak_bytes"] / timing["planned_bytes"] - 1) for timing in told["timings"])
    return (f"{told['override']} of {len(told['timings'])} sizes; peak off the plan by at most {100 * worst:.1f} %, joules a sample: "
            + ", ".join(f"{timing.get('joules_per_sample', 0):.3g}" for timing in told["timings"]))
