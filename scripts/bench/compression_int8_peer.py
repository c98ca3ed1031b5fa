#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers of `trainer quantize`: onnxruntime and NNCF quantise an ONNX model of the shipped CNN, with 512 training images, and answer all test images in 8
bits. Prints the share of right answers of each.

  compression_int8_peer.py MODEL.onnx

Needs onnx, onnxruntime (1.31.1), nncf (3.4.0) and openvino (2026.4.1).
"""
import json
import sys
import tempfile
from pathlib import Path

import nncf
import numpy as np
import openvino
from onnxruntime import InferenceSession
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from compression_peer import images

SAMPLES, BATCH = 512, 100


class Samples(CalibrationDataReader):
    def __init__(self, name, x):
        self.batches = iter([{name: part} for part in np.split(x, len(x) // 64)])

    def get_next(self):
        return next(self.batches, None)


def share_of_right(answer, x, y):
    return float(np.mean(np.concatenate([answer(part).argmax(1) for part in np.split(x, len(x) // BATCH)]) == y))


def main():
    model = sys.argv[1]
    x, _ = images('train')
    chosen = np.random.default_rng(1).permutation(len(x))[:SAMPLES]
    calibration = x.numpy()[chosen]
    test, labels = (each.numpy() for each in images('t10k'))
    name = InferenceSession(model).get_inputs()[0].name
    found = {}
    with tempfile.TemporaryDirectory() as work:
        quantised = Path(work) / 'int8.onnx'
        quantize_static(model, quantised, Samples(name, calibration), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, reduce_range=True)
        session = InferenceSession(str(quantised))
        found['onnxruntime'] = share_of_right(lambda part: session.run(None, {name: part})[0], test, labels)
    network = nncf.quantize(openvino.Core().read_model(model), nncf.Dataset([part for part in np.split(calibration, SAMPLES // 64)]),
                            subset_size=SAMPLES // 64)
    compiled = openvino.Core().compile_model(network, 'CPU')
    found['nncf'] = share_of_right(lambda part: compiled([part])[0], test, labels)
    print(json.dumps(found))


if __name__ == '__main__':
    main()
