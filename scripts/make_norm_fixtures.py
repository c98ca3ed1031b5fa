#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/norms.safetensors: what PyTorch computes for products of activations, softmax and
normalisations of rows and of groups of channels.

Needs what make_fixtures.py needs.
"""

import torch
import torch.nn.functional as F

from make_fixtures import FIXTURES, f32, record, write

PRODUCTS = [((31, 33), (33, 5)), ((2, 7, 17), (2, 17, 9))]
ROWS = [(3, 31), (1, 7), (2, 5, 33)]
PICTURES = [(2, 12, 3, 5), (3, 24, 1, 1), (1, 48, 4, 4)]
GROUPS = [4, 3, 16]


def products(out):
    for i, (a, b) in enumerate(PRODUCTS):
        record(out, f"matmul.{i}", lambda a, b: a @ b, a=f32(*a), b=f32(*b))
        record(out, f"matmul_transposed.{i}", lambda a, b: a.mT @ b.mT, a=f32(*a).mT, b=f32(*b).mT)


def rows(out):
    for i, shape in enumerate(ROWS):
        width = shape[-1]
        given = {"x": f32(*shape), "gamma": f32(width), "beta": f32(width)}
        record(out, f"layer_norm.{i}", lambda x, gamma, beta, k=width: F.layer_norm(x, (k,), gamma, beta, 1e-3), **given)
        del given["beta"]
        record(out, f"rms_norm.{i}", lambda x, gamma, k=width: F.rms_norm(x, (k,), gamma, 1e-3), **given)


def softmaxes(out):
    for i, shape in enumerate(ROWS + PICTURES):
        dim = 1 if len(shape) == 4 else -1
        record(out, f"softmax.{i}", lambda x, d=dim: F.softmax(x, d), x=(3 * f32(*shape)).float().double())
        record(out, f"log_softmax.{i}", lambda x, d=dim: F.log_softmax(x, d), x=(3 * f32(*shape)).float().double())


def pictures(out):
    for i, (shape, groups) in enumerate(zip(PICTURES, GROUPS)):
        out[f"group_norm.{i}/groups"] = torch.tensor([groups])
        record(out, f"group_norm.{i}", lambda x, gamma, beta, g=groups: F.group_norm(x, g, gamma, beta, 1e-3),
               x=f32(*shape), gamma=f32(shape[1]), beta=f32(shape[1]))
        if shape[2] * shape[3] > 1:
            record(out, f"instance_norm.{i // 2}", lambda x, gamma, beta: F.instance_norm(x, None, None, gamma, beta, eps=1e-3),
                   x=f32(*shape), gamma=f32(shape[1]), beta=f32(shape[1]))


if __name__ == "__main__":
    FIXTURES.mkdir(exist_ok=True)
    torch.manual_seed(3)
    out = {}
    products(out)
    rows(out)
    softmaxes(out)
    pictures(out)
    write("norms", out)
