# SPDX-License-Identifier: Apache-2.0
"""Files that options change: bytes as input, probabilities, fixed batches, lengths, and the operators of each opset."""
import pathlib

import numpy
import onnx

from compare import Network, check_file, difference, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "export"


def expect(holds, text):
    if not holds:
        raise AssertionError(text)


def softmax(logits, axis):
    powers = numpy.exp(logits - logits.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def types_in(path):
    return {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}


def bytes_are_scaled(programs):
    """The recipe's mean and deviation are applied to bytes."""
    keys = ["data.eval_transform=[{normalize: {mean: [0.5, 0.4, 0.3], std: [0.2, 0.25, 0.5]}}]"]
    network = Network(programs, CASES / "images.yaml", keys)
    path = network.export("--input", "bytes")
    check_file(path, network.weights)
    values = numpy.random.default_rng(3).integers(0, 256, (2, 3, 13, 10))
    mean, deviation = (numpy.array(numbers).reshape(3, 1, 1) for numbers in ([0.5, 0.4, 0.3], [0.2, 0.25, 0.5]))
    expected = network.logits((values / 255 - mean) / deviation)
    away = difference(run(path, "images", values.astype(numpy.uint8)), expected)
    expect(away <= 1e-4, f"--input bytes: logits differ by {away:.2g}")


def probabilities_are_a_softmax(programs):
    network = Network(programs, CASES / "sequences.yaml")
    path = network.export("--output", "probabilities", "--batch", "2")
    model = check_file(path, network.weights)
    expect(model.graph.output[0].name == "probabilities", "--output probabilities names its output otherwise")
    expect(model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2, "--batch 2 is not in the file")
    name, values = network.inputs(model, 2)
    logits = network.logits(values).reshape(2, 9, 19)
    away = difference(run(path, name, values), softmax(logits, 2).ravel())
    expect(away <= 1e-5, f"--output probabilities: they differ by {away:.2g}")


def length_is_fixed(programs):
    longer = Network(programs, CASES / "sequences.yaml", ["model.input=[13]"])
    network = Network(programs, CASES / "sequences.yaml", weights=longer.weights)
    path = network.export("--length", "13")
    name, values = longer.inputs(check_file(path, network.weights), 3)
    expect(values.shape == (3, 13), f"--length 13 gives an input of {values.shape}")
    away = difference(run(path, name, values), longer.logits(values))
    expect(away <= 1e-4, f"--length: logits differ by {away:.2g}")


def opset_23_has_one_node_each(programs):
    network = Network(programs, CASES / "sequences.yaml")
    new = {"Attention", "RotaryEmbedding", "RMSNormalization", "Gelu"}
    expect(new <= types_in(network.export("--opset", "23")), f"opset 23 lacks some of {sorted(new)}")
    expect(not new & types_in(network.export()), f"opset 17 has some of {sorted(new)}")


def hls4ml_gets_what_it_reads(programs):
    network = Network(programs, ROOT / "configs/fashion_mnist_mlp.yaml")
    path = network.export("--for", "hls4ml")
    model = check_file(path, network.weights)
    expect(types_in(path) == {"Reshape", "Transpose", "MatMul", "Add", "Relu"}, f"hls4ml gets {sorted(types_in(path))}")
    name, values = network.inputs(model, 1)
    away = difference(run(path, name, values), network.logits(values))
    expect(away <= 1e-4, f"--for hls4ml: logits differ by {away:.2g}")


def check_options(programs):
    """The number of failures, which are printed."""
    failures = 0
    for check in (bytes_are_scaled, probabilities_are_a_softmax, length_is_fixed, opset_23_has_one_node_each,
                  hls4ml_gets_what_it_reads):
        try:
            check(programs)
        except Exception as problem:  # all are failures of this check
            failures += 1
            print(f"{check.__name__}: {type(problem).__name__}: {problem} {getattr(problem, 'stderr', '') or ''}", flush=True)
    return failures
