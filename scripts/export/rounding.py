# SPDX-License-Identifier: Apache-2.0
"""Compares exported networks in 8 bits with this program: qdq files in onnxruntime, qonnx files in onnx's reference evaluator."""
import json
import pathlib
import struct
import subprocess
import sys

import numpy
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from compare import Network, Refused, difference

CASES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "export"
# A number on the border of two levels may fall to either side, and the next products carry that on: one of 255 levels is 4e-3.
LIMIT = 1e-2


class Quant(OpRun):
    """As QONNX defines it: rounds x to the nearest scale * (integer - zero) of 2^bits levels."""
    op_domain = "qonnx.custom_op.general"

    def _run(self, x, scale, zero, bits, signed=None, narrow=None, rounding_mode=None):
        if rounding_mode != "ROUND":
            raise ValueError(f"rounding_mode {rounding_mode}")
        most = 2**(int(bits) - signed) - 1 - (1 if narrow and not signed else 0)
        least = -2**(int(bits) - 1) + (1 if narrow else 0) if signed else 0
        integer = numpy.clip(numpy.round(x / scale + zero), least, most)
        return (((integer - zero) * scale).astype(numpy.float32),)


def shrink_channels(weights, factors):
    """Scales the weights of every third output of each layer by the first factor, those of the next outputs by the second."""
    with open(weights, "r+b") as file:
        length, = struct.unpack("<Q", file.read(8))
        for about in json.loads(file.read(length)).values():
            if len(about["shape"]) < 2:
                continue
            begin, end = about["data_offsets"]
            file.seek(8 + length + begin)
            values = numpy.frombuffer(file.read(end - begin), "<f4").reshape(about["shape"]).copy()
            for first, factor in enumerate(factors):
                values[first::3] *= numpy.float32(factor)
            file.seek(8 + length + begin)
            file.write(values.tobytes())


class Int8Network(Network):
    """A network with random weights and all products in 8 bits. `factors` scale the weights of some outputs."""

    def __init__(self, bin_folder, recipe, overrides=(), seed=1, factors=()):
        super().__init__(bin_folder, recipe, overrides, seed)
        shrink_channels(self.weights, factors)
        wide, self.weights = self.weights, self.path("int8.safetensors")
        subprocess.run([self.trainer, "quantize", "--config", self.recipe, "--weights", wide, "--as-written", "--all", "--out", self.weights,
                        "--samples", "64", *self.overrides], check=True, capture_output=True, text=True)


def run(path, values, optimised):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"images": values})[0]


def compare_rounded(network, samples=5):
    """The largest differences of logits: onnxruntime's as written and optimised, and QONNX's."""
    path = network.export("--dialect", "qdq")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    _, values = network.inputs(model, samples)
    expected = network.logits(values)
    qonnx = ReferenceEvaluator(network.export("--dialect", "qonnx", name="qonnx.onnx"), new_ops=[Quant])
    return {"qdq": difference(run(path, values, False), expected), "qdq, optimised": difference(run(path, values, True), expected),
            "qonnx": difference(qonnx.run(None, {"images": values})[0], expected)}


def check_rounding(programs):
    """The number of failures, which are printed."""
    failures = 0
    for name in ("residual", "small_cnn", "names"):
        for seed, factors in ((1, ()), (2, (0, 1e-6))):
            try:
                found = compare_rounded(Int8Network(programs, CASES / f"{name}.yaml", seed=seed, factors=factors))
                if max(found.values()) > LIMIT:
                    raise AssertionError(f"logits differ by {found}")
            except Exception as problem:  # all are failures of this network
                failures += 1
                print(f"{name} in 8 bits: {type(problem).__name__}: {problem} {getattr(problem, 'stderr', '') or ''}", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(check_rounding(pathlib.Path(sys.argv[1])))
