# SPDX-License-Identifier: Apache-2.0
"""Compiles exported networks with hls4ml's emulation (g++, fixed point) and compares their logits with those of this program: of f32 within
a limit, of few bits exactly.

    scripts/setup.sh --bench
    build/hls4ml/bin/python scripts/export/hls4ml_logits.py [--bin build/release/bin]
"""
import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import hls4ml
import numpy
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean
from qonnx.transformation.gemm_to_matmul import GemmToMatMul
from qonnx.util.cleanup import cleanup_model

from compare import Network, difference

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 1e-3  # relative to the largest logit if that is above 1
FEW_BITS = ROOT / "tests/export/few_bits.yaml"
FINE = "fixed<48,16,RND>"  # for biases, which stay f32
PRECISION = "ap_fixed<32,16,AP_RND>"  # rounds; the default cuts each of a thousand products off
NETWORKS = {"MLP": ROOT / "configs/fashion_mnist_mlp.yaml", "small CNN": ROOT / "tests/export/small_cnn.yaml"}


def trained_in_few_bits(bin_folder, recipe):
    """A network that trained with rounded numbers, and was then quantised."""
    folder = tempfile.TemporaryDirectory()
    run, weights = f"{folder.name}/run", f"{folder.name}/few_bits.safetensors"
    for command in (["--config", str(recipe), f"run.output_dir={run}"], ["quantize", run, "--all", "--out", weights]):
        subprocess.run([str(bin_folder / "trainer"), *command], check=True, capture_output=True, text=True)
    network = Network(bin_folder, recipe, weights=weights)
    network.kept = folder
    return network


def compiled_difference(network, samples, precision=PRECISION, options=()):
    model = ModelWrapper(network.export("--for", "hls4ml", *options))
    generator = numpy.random.default_rng(1)
    shape = model.get_tensor_shape("images")
    images = [generator.normal(0, 1, shape).astype(numpy.float32) for _ in range(samples)]
    expected = numpy.stack([network.logits(image) for image in images])
    model = cleanup_model(model)
    has_images = any(node.op_type == "Conv" for node in model.graph.node)
    if has_images:
        model = cleanup_model(model.transform(ConvertToChannelsLastAndClean(make_input_channels_last=True)))
        images = [image.transpose(0, 2, 3, 1) for image in images]
    model = cleanup_model(model.transform(GemmToMatMul()))
    config = hls4ml.utils.config.config_from_onnx_model(model, granularity="name", backend="Vitis",
                                                        default_precision=precision)
    emulated = hls4ml.converters.convert_from_onnx_model(model, output_dir=network.path("hls"), io_type="io_parallel",
                                                         backend="Vitis", hls_config=config)
    emulated.compile()
    found = emulated.predict(numpy.concatenate([numpy.ascontiguousarray(image) for image in images]))
    return difference(found, expected.ravel())


def with_deep_stack():
    """Starts the program again: the emulation keeps whole layers on its stack, which is set at the start."""
    if resource.getrlimit(resource.RLIMIT_STACK)[0] == resource.RLIM_INFINITY:
        return
    resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.execv(sys.executable, [sys.executable, *sys.argv])


def main():
    with_deep_stack()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    given = parser.parse_args()
    failures = 0
    for name, recipe in NETWORKS.items():
        away = compiled_difference(Network(given.bin, recipe), 8)
        failures += away > LIMIT
        print(f"{name}: logits differ by {away:.1e}", flush=True)
    away = compiled_difference(trained_in_few_bits(given.bin, FEW_BITS), 256, FINE, ["--dialect", "qonnx"])
    failures += away > 0
    print(f"few bits: logits differ by {away:.1e}", flush=True)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
