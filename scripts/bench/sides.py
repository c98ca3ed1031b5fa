# SPDX-License-Identifier: Apache-2.0
"""The two sides of a comparison: our program and PyTorch, each training one of the same networks in a fresh process.

Both do the same arithmetic: no augmentation, no decay, one learning rate; SGD with momentum, transformers AdamW. PyTorch runs tuned: an OpenMP build of OpenBLAS (a
pthreads one fights with PyTorch's own threads) and a malloc that keeps freed pages.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

from windows import train_records

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TRAINER = os.path.join(ROOT, "build/release/bin/trainer")
WINDOWS = 6
PARTS = ("data_wait_ms", "forward_ms", "backward_ms", "update_ms")
# Recipe, batch size, steps of one window (about a second), further arguments of our side.
NORMALISED = ['data.val=""', "data.augment=[{normalize: {mean: [0.286], std: [0.353]}}]"]
SYNTHETIC = ["data={format: synthetic}"]
ADAMW = "optimizer={name: adamw, lr: 1.0e-4, weight_decay: 0}"
NETWORKS = {
    "mlp": ("fashion_mnist_mlp", 128, 300, NORMALISED),
    "lenet": ("fashion_mnist_cnn", 128, 30, [*NORMALISED, "model.layers[5].dropout.p=0", "model.layers[9].dropout.p=0"]),
    "resnet18": ("resnet18_cifar10", 128, 1, SYNTHETIC),
    "resnet50": ("resnet50_imagenet", 16, 1, SYNTHETIC),
    "mobilenet_v2": ("mobilenet_v2_imagenet", 16, 1, SYNTHETIC),
    "gpt_char": ("gpt_char_bible", 16, 1, ["data.val_fraction=0", ADAMW]),
    "vit_tiny": ("vit_tiny_imagenet", 128, 1, [*SYNTHETIC, ADAMW]),
}
# The interpreters that setup.sh --bench provides.
PYTHONS = {"debian": "/usr/bin/python3", "newest": os.path.join(ROOT, "build/bench/bin/python")}
# Settings that make either side compute as on a processor without newer instructions. Our loops that do not follow
# oneDNN still use them.
INSTRUCTIONS = {"AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                         "OPENBLAS_CORETYPE": "Haswell"}}


def openmp_openblas():
    """The folder of an OpenMP build of OpenBLAS, unpacked, not installed."""
    cache = os.path.join(tempfile.gettempdir(), "openblas-openmp")
    pattern = cache + "/usr/lib/*/openblas-openmp/libblas.so.3"
    if not glob.glob(pattern):
        os.makedirs(cache, exist_ok=True)
        subprocess.run("apt-get download libopenblas0-openmp && dpkg -x libopenblas0-openmp_*.deb .", shell=True,
                       cwd=cache, check=True, stdout=subprocess.DEVNULL)
    return os.path.dirname(glob.glob(pattern)[0])


def our_turn(network, run, batch=0, steps=0, threads=2, precision="fp32", recipe=None, trainer=TRAINER, more=(),
             environment=None):
    """run(command, environment) starts it and returns its output and the cores that others used. Returns the figures, and
    those cores."""
    name, default_batch, default_steps, words = NETWORKS[network]
    batch, steps = batch or default_batch, steps or default_steps
    directory = tempfile.mkdtemp()
    command = [trainer, "--config", recipe or f"{ROOT}/configs/{name}.yaml", "device.type=cpu", f"run.output_dir={directory}/run",
               f"training.max_duration={(WINDOWS + 2) * steps}ba", f"logging.interval={steps}ba", f"device.threads={threads}",
               f"training.precision={'amp_bf16' if precision == 'bf16' else precision}",
               "optimizer={name: sgd, lr: 0.01, momentum: 0.9}", "lr_scheduler=constant", "loss=cross_entropy",
               f"training.global_batch_size={batch}", f"training.micro_batch_size={batch}", "validation.interval=0ep", *words, *more]
    try:
        _, foreign = run(command, {**os.environ, **(environment or {})})
        records = train_records(directory + "/run")
        with open(directory + "/run/summary.json") as file:
            summary = json.load(file)
    finally:
        shutil.rmtree(directory)
    return {"ms_per_step": [batch / record["samples_per_s"] * 1e3 for record in records],
            "losses": [record["loss"] for record in records],
            "first_step_s": summary["training"]["first_step_seconds"], "peak_rss_mib": summary["memory"]["peak_bytes"] / 2**20,
            **{part: sorted(record[part] for record in records)[len(records) // 2] for part in PARTS}}, foreign


class Peer:
    """PyTorch as one interpreter has it."""

    def __init__(self, name, environment=None):
        self.name = name
        self.python = PYTHONS.get(name, name)
        if not os.path.exists(self.python):
            sys.exit(f"there is no {self.python}: scripts/setup.sh --bench installs both peers")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
        self.environment.update(LD_LIBRARY_PATH=openmp_openblas(), MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 36),
                                MALLOC_TOP_PAD_=str(1 << 28), **(environment or {}))

    def ways(self, network):
        """The ways in which it may run: layouts of activations, eager or compiled (which 1.13 cannot)."""
        layouts = ["nchw"] if network in ("mlp", "gpt_char", "vit_tiny") else ["nchw", "nhwc"]
        return [(layout, *how) for how in ([()] if self.name == "debian" else [(), ("--compile",)]) for layout in layouts]

    def turn(self, network, way, run, batch=0, steps=0, threads=2, precision="fp32", windows=WINDOWS, synthetic=False):
        _, default_batch, default_steps, words = NETWORKS[network]
        layout, *how = way
        command = [self.python, HERE + "/peer_torch.py", network, "--layout", layout, "--steps", str(steps or default_steps),
                   "--windows", str(windows), "--threads", str(threads), "--batch", str(batch or default_batch),
                   "--precision", precision, *how]
        if synthetic or SYNTHETIC[0] in words:
            command += ["--data", "synthetic"]
        output, foreign = run(command, self.environment)
        return json.loads(output), foreign
