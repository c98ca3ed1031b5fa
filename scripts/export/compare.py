# SPDX-License-Identifier: Apache-2.0
"""Exports a network, checks the file, and compares onnxruntime's logits with those of this program."""
import json
import pathlib
import struct
import subprocess
import tempfile

import numpy
import onnx
import onnxruntime

from weights import write_weights

OPSETS = 17, 23
BATCHES = 1, 7
LIMIT = 1e-4  # of a logit, relative to the largest one if that is above 1


class Refused(Exception):
    """The program does not export this network."""


class Network:
    """A recipe with random weights in a folder of its own."""

    def __init__(self, bin_folder, recipe, overrides=(), seed=1, weights=None):
        self.folder = tempfile.TemporaryDirectory()
        self.trainer, self.logits_program = str(bin_folder / "trainer"), str(bin_folder / "export_logits")
        self.recipe, self.overrides, self.seed = str(recipe), list(overrides), seed
        self.weights = weights or self.path("weights.safetensors")
        if weights is None:
            write_weights(self.weights, self.trainer, self.recipe, self.overrides, seed)

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def export(self, *options, name="network.onnx"):
        out = self.path(name)
        command = [self.trainer, "export", "--config", self.recipe, "--weights", self.weights, "--as-written", "--out", out,
                   *options, *self.overrides]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise Refused(f"exit {ran.returncode}: {ran.stderr.strip()}")
        return out

    def inputs(self, model, samples):
        """Random input for a loaded model: its name and values."""
        given = model.graph.input[0]
        sizes = [dim.dim_value or samples for dim in given.type.tensor_type.shape.dim]
        generator = numpy.random.default_rng(self.seed)
        if given.type.tensor_type.elem_type != onnx.TensorProto.INT64:
            return given.name, generator.normal(0, 1, sizes).astype(numpy.float32)
        tables = [i.dims[0] for i in model.graph.initializer for n in model.graph.node if n.op_type == "Gather" and n.input[0] == i.name]
        return given.name, generator.integers(0, min(tables), sizes)

    def logits(self, values, *disabled):
        """Of this program, for one batch. `disabled` names passes to leave out."""
        values.astype(numpy.float32).tofile(self.path("input"))
        command = [self.logits_program, self.recipe, self.weights, str(len(values)), self.path("input"), self.path("output"),
                   *(f"-{name}" for name in disabled), *self.overrides]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return numpy.fromfile(self.path("output"), numpy.float32)


def run(path, name, values):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: values})[0]


def difference(found, expected):
    return float(numpy.abs(found.ravel() - expected).max() / max(1, numpy.abs(expected).max()))


def names_in(weights):
    """Of the tensors in a safetensors file."""
    with open(weights, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        return {name for name in json.loads(file.read(length)) if name != "__metadata__"}


def check_file(path, weights):
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    initializers = [tensor.name for tensor in model.graph.initializer]
    lacking = names_in(weights) - set(initializers)
    assert not lacking, f"the file lacks {sorted(lacking)}"
    assert len(initializers) == len(set(initializers)), "an initialiser is there twice"
    return model


def compare(network, opsets=OPSETS, batches=BATCHES):
    """The largest difference over all opsets and batches. Raises AssertionError beyond the limit."""
    worst, expected = 0, {}
    for opset in opsets:
        path = network.export("--opset", str(opset))
        model = check_file(path, network.weights)
        assert model.opset_import[0].version == opset and model.ir_version == {17: 8, 23: 11}[opset]
        for samples in batches:
            name, values = network.inputs(model, samples)
            if samples not in expected:
                expected[samples] = network.logits(values)
            found = run(path, name, values)
            assert found.size == expected[samples].size, f"{found.shape} of {expected[samples].size} logits"
            assert numpy.isfinite(expected[samples]).all(), "logits of this program are not finite"
            worst = max(worst, difference(found, expected[samples]))
            assert worst <= LIMIT, f"opset {opset}, batch {samples}: logits differ by {worst:.2g}"
    return worst
