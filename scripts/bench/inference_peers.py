# SPDX-License-Identifier: Apache-2.0
"""Programs that scripts/bench/inference.py compares with. As a program it answers once, for zeros:

    inference_peers.py PEER MODEL.onnx INPUT SIZE...
"""
# Each function imports its own library, so that a measured process loads no other.
# pylint: disable=import-outside-toplevel
import sys

import numpy

THREADS = 2


def onnxruntime_of(path):
    """A function that computes a batch."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    return lambda name, values: session.run(None, {name: values})


def openvino_of(path):
    import openvino
    options = {'INFERENCE_NUM_THREADS': THREADS, 'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_PRECISION_HINT': 'f32'}
    request = openvino.Core().compile_model(path, 'CPU', options).create_infer_request()
    return lambda name, values: request.infer({name: values}, share_inputs=True)


PEERS = {'onnxruntime': onnxruntime_of, 'OpenVINO': openvino_of}

if __name__ == '__main__':
    _, peer, model, input_name, *sizes = sys.argv
    PEERS[peer](model)(input_name, numpy.zeros(list(map(int, sizes)), numpy.float32))
