#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/*.safetensors: what PyTorch computes for operations, optimisers, transforms and short
trainings.

Needs numpy, torch (CPU), torchvision, transformers and PIL. The files are small and kept with the sources, so that the tests need
none of them.
"""

import math
import struct
from collections import OrderedDict

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from fixture_file import FIXTURES, apart, f32, write

# Operations ----------------------------------------------------------------------------------------------------


def record(out, name, forward, **inputs):
    """Inputs, y, a gradient dy that arrives, and the gradient of each input that has one."""
    leaves = {k: v.clone().requires_grad_(True) for k, v in inputs.items()}
    y = forward(**leaves)
    dy = f32(*y.shape)
    y.backward(dy)
    for key, leaf in leaves.items():
        out[f"{name}/{key}"] = leaf
        out[f"{name}/d{key}"] = leaf.grad
    out[f"{name}/y"] = y
    out[f"{name}/dy"] = dy


def pair(value):
    return (value, value) if isinstance(value, int) else value


def geometry(kernel, stride=1, padding=0, dilation=1, groups=1):
    flat = [*pair(kernel), *pair(stride), *pair(padding), *pair(dilation), groups]
    return torch.tensor(flat, dtype=torch.float32)


CONVOLUTIONS = [
    ((2, 3, 6, 5), 4, 3, {}),
    ((1, 17, 5, 5), 6, 3, {"padding": 1}),
    ((3, 2, 9, 8), 5, (3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    ((2, 3, 9, 9), 4, 3, {"padding": 2, "dilation": 2}),
    ((2, 6, 5, 5), 9, 3, {"padding": 1, "groups": 3}),
    ((1, 8, 6, 6), 8, 3, {"stride": 2, "padding": 1, "groups": 8}),
    ((2, 16, 6, 6), 16, 3, {"padding": 1}),
    ((2, 5, 4, 4), 33, 1, {}),
]
WINDOWS = [((2, 3, 6, 5), 2, 2, 0), ((1, 17, 7, 7), 3, 2, 1), ((2, 2, 6, 8), (3, 2), (1, 3), (1, 0))]
ACTIVATIONS = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu6": F.relu6,
    "hard_tanh": F.hardtanh,
    "hard_sigmoid": F.hardsigmoid,
    "hard_swish": F.hardswish,
}
LATER_ACTIVATIONS = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu": F.elu,
    "softplus": lambda x: F.softplus(x, threshold=1000),
    "mish": F.mish,
}


TRANSPOSED = [
    ((2, 3, 4, 5), 4, 3, {}),
    ((1, 17, 3, 3), 5, 2, {"stride": 2}),
    ((2, 4, 3, 4), 3, (3, 2), {"stride": (3, 2), "padding": (1, 0), "output_padding": (2, 1)}),
    ((1, 6, 4, 3), 4, 3, {"padding": 1, "dilation": 2, "groups": 2}),
    ((1, 16, 3, 3), 16, 3, {"stride": 2, "padding": 1, "output_padding": 1}),
]
SCALES = [((2, 3, 4, 5), (2, 2)), ((1, 17, 3, 1), (3, 2))]
WINDOW_COUNTS = [((2, 3, 7, 5), (3, 2)), ((1, 17, 4, 3), (5, 7)), ((1, 2, 8, 6), (4, 3))]


def more_operations(out):
    for i, (shape, channels, kernel, options) in enumerate(TRANSPOSED):
        w = f32(shape[1], channels // options.get("groups", 1), *pair(kernel))
        out[f"conv_transpose2d.{i}/geometry"] = geometry(kernel, **{k: v for k, v in options.items() if k != "output_padding"})
        record(out, f"conv_transpose2d.{i}", lambda x, w, o=options: F.conv_transpose2d(x, w, **o), x=f32(*shape), w=w)
    for i, (shape, scale) in enumerate(SCALES):
        for name, options in {"nearest": {"mode": "nearest"}, "bilinear": {"mode": "bilinear", "align_corners": False},
                              "bilinear_aligned": {"mode": "bilinear", "align_corners": True}}.items():
            record(out, f"{name}.{i}", lambda x, o=options, s=scale: F.interpolate(x, scale_factor=s, **o), x=f32(*shape))
    for i, (shape, size) in enumerate(WINDOW_COUNTS):
        record(out, f"average.{i}", lambda x, s=size: F.adaptive_avg_pool2d(x, s), x=f32(*shape))
    for i, (n, c, h, w) in enumerate([(2, 3, 4, 5), (1, 17, 3, 3)]):
        record(out, f"scale_channels.{i}", lambda x, s: x * s, x=f32(n, c, h, w), s=f32(n, c, 1, 1))
        record(out, f"add_channels.{i}", lambda x, b: x + b.reshape(1, -1, 1, 1), x=f32(n, c, h, w), b=f32(c))
    with apart():
        x = torch.cat([torch.linspace(-12, 12, 97).float().double(), 3 * f32(95)])
        for name, function in LATER_ACTIVATIONS.items():
            record(out, name, lambda x, f=function: f(x), x=x)


def operations():
    out = {}
    for i, (shape, channels, kernel, options) in enumerate(CONVOLUTIONS):
        w = f32(channels, shape[1] // options.get("groups", 1), *pair(kernel))
        out[f"conv2d.{i}/geometry"] = geometry(kernel, **options)
        record(out, f"conv2d.{i}", lambda x, w, b, o=options: F.conv2d(x, w, b, **o), x=f32(*shape), w=w, b=f32(channels))
    for i, (n, k, o) in enumerate([(1, 31, 33), (5, 17, 3)]):
        record(out, f"linear.{i}", lambda x, w, b: F.linear(x, w, b),
               x=f32(n, k), w=f32(o, k), b=f32(o))
    for kind, pool in {"max_pool2d": F.max_pool2d, "avg_pool2d": F.avg_pool2d}.items():
        for i, (shape, kernel, stride, padding) in enumerate(WINDOWS):
            out[f"{kind}.{i}/geometry"] = geometry(kernel, stride, padding)
            record(out, f"{kind}.{i}", lambda x, p=pool, a=(kernel, stride, padding): p(x, *a), x=f32(*shape))
    x = torch.cat([torch.linspace(-12, 12, 97).float().double(), 3 * f32(95)])
    for name, function in ACTIVATIONS.items():
        record(out, name, lambda x, f=function: f(x), x=x)
    for i, smoothing in enumerate([0.0, 0.1]):
        logits = (3 * f32(7, 11)).float().double().requires_grad_(True)
        labels = torch.randint(0, 11, (7,))
        loss = F.cross_entropy(logits, labels, label_smoothing=smoothing)
        loss.backward()
        out[f"cross_entropy.{i}/smoothing"] = torch.tensor([smoothing])
        out[f"cross_entropy.{i}/x"] = logits
        out[f"cross_entropy.{i}/labels"] = labels.double()
        out[f"cross_entropy.{i}/y"] = loss.reshape(1)
        out[f"cross_entropy.{i}/dx"] = logits.grad
    more_operations(out)
    write("operations", out)


def given_statistics():
    """Batch normalisation as evaluation and frozen layers have it."""
    out = {}
    for i, shape in enumerate([(2, 3, 4, 5), (3, 17, 5, 3), (1, 33, 1, 1)]):
        mean, variance = f32(shape[1]), (0.5 + torch.rand(shape[1])).double()
        out[f"batch_norm_given.{i}/mean"], out[f"batch_norm_given.{i}/variance"] = mean, variance
        record(out, f"batch_norm_given.{i}",
               lambda x, gamma, beta, m=mean, v=variance: F.batch_norm(x, m, v, gamma, beta, training=False, eps=1e-3),
               x=f32(*shape), gamma=f32(shape[1]), beta=f32(shape[1]))
    write("given_statistics", out)


def angles(features, first, tokens, theta=10000.0):
    """In double, which transformers' own module does not compute in: for each token those of features / 2 pairs."""
    frequencies = theta ** (-torch.arange(0, features, 2, dtype=torch.float64) / features)
    return torch.arange(first, first + tokens, dtype=torch.float64)[:, None] * frequencies


def sequences():
    """Rotary position embedding as Llama's (halves) and GPT-J's (neighbours), heads side by side."""
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as turn_neighbours
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as turn_halves

    out = {}
    cases = {"half": [(2, 5, 2, 8, 0), (1, 3, 3, 16, 8188)], "interleaved": [(2, 5, 2, 8, 0), (1, 3, 3, 16, 8188)]}
    for style, shapes in cases.items():
        for number, (samples, tokens, heads, size, first) in enumerate(shapes):
            angle = angles(size, first, tokens)

            def turn(x):
                apart = x.reshape(samples, tokens, heads, size)
                if style == "half":
                    both = torch.cat((angle, angle), -1)
                    apart = apart.transpose(1, 2)
                    turned = turn_halves(apart, apart, both.cos()[None], both.sin()[None])[0].transpose(1, 2)
                else:
                    turned = turn_neighbours(apart, angle.sin()[None], angle.cos()[None])
                return turned.reshape(x.shape)

            name = f"rotary_{style}.{number}"
            record(out, name, turn, x=f32(samples, tokens, heads * size))
            out[f"{name}/geometry"] = torch.tensor([heads, size, first], dtype=torch.float32)
    write("sequences", out)


def targets():
    """Cross entropy against two labels with shares (as class probabilities), and against maps of labels."""
    torch.manual_seed(2)
    out = {}
    for i, smoothing in enumerate([0.0, 0.1]):
        shares = torch.rand(7).double().float().double()
        labels, others = torch.randint(0, 11, (7,)), torch.randint(0, 11, (7,))
        target = shares[:, None] * F.one_hot(labels, 11) + (1 - shares[:, None]) * F.one_hot(others, 11)
        targets_case(out, f"mixed.{i}", f32(7, 11), target, smoothing)
        out[f"mixed.{i}/labels"] = labels.double()
        out[f"mixed.{i}/others"] = others.double()
        out[f"mixed.{i}/shares"] = shares
        maps = torch.randint(0, 5, (3, 6, 7))
        targets_case(out, f"pixels.{i}", f32(3, 5, 6, 7), maps, smoothing)
        out[f"pixels.{i}/labels"] = maps.double()
    write("targets", out)


def targets_case(out, name, logits, target, smoothing):
    logits = (3 * logits).float().double().requires_grad_(True)
    loss = F.cross_entropy(logits, target, label_smoothing=smoothing)
    loss.backward()
    out[f"{name}/smoothing"] = torch.tensor([smoothing])
    out[f"{name}/x"], out[f"{name}/dx"], out[f"{name}/y"] = logits, logits.grad, loss.reshape(1)


# Heads of queries, of keys and values, features of a head, queries, keys; the rest goes to the mask.
ATTENTIONS = [
    ((2, 3, 3, 5, 7, 7), {}),
    ((2, 2, 2, 8, 33, 33), {"causal": True}),
    ((1, 6, 2, 4, 19, 19), {"causal": True, "window": 5}),
    ((2, 4, 1, 16, 3, 40), {"causal": True, "scale": 0.5}),
]


def attention():
    """PyTorch's scaled dot-product attention; the queries are the last positions of the keys."""
    torch.manual_seed(4)
    out = {}
    for i, ((samples, heads, kv_heads, size, queries, keys), options) in enumerate(ATTENTIONS):
        causal, window = options.get("causal", False), options.get("window", 0)
        position, key = torch.arange(keys - queries, keys)[:, None], torch.arange(keys)
        mask = torch.ones(queries, keys, dtype=torch.bool)
        if causal:
            mask &= (key <= position) & (key > position - (window or keys + 1))

        def apply(q, k, v, heads=heads, kv_heads=kv_heads, mask=mask, scale=options.get("scale")):
            parts = [x.unflatten(2, (n, -1)).transpose(1, 2) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads))]
            k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in parts[1:])
            y = F.scaled_dot_product_attention(parts[0], k, v, attn_mask=mask, scale=scale)
            return y.transpose(1, 2).flatten(2)

        name = f"attention.{i}"
        out[f"{name}/rule"] = torch.tensor([heads, kv_heads, causal, window, options.get("scale", 0)])
        out[f"{name}/first"] = torch.tensor([float(keys - queries)])
        record(out, name, apply, q=f32(samples, queries, heads * size), k=f32(samples, keys, kv_heads * size),
               v=f32(samples, keys, kv_heads * size))
    write("attention", out)


# Transforms of pictures --------------------------------------------------------------------------------------


def transforms():
    """What torchvision makes of a picture of bytes (the median: what PIL makes of it)."""
    from PIL import Image, ImageFilter
    from torchvision.transforms import InterpolationMode, RandAugment, autoaugment
    from torchvision.transforms import functional as TF

    torch.manual_seed(3)
    rows, columns = torch.arange(9.0)[:, None], torch.arange(11.0)
    smooth = torch.stack([20 * rows + 5 * columns, 200 - 15 * columns + 0 * rows, 40 + 3 * rows * columns / 2])
    image = (smooth + 25 * torch.randn(3, 9, 11)).clamp(5, 230).to(torch.uint8)
    image[:, 2, 3:7] = image[:1, 2, 3:7]  # greys, which have no hue
    wide = (128 + 30 * torch.randn(1, 24, 30)).clamp(0, 255).to(torch.uint8)  # enough pixels to be equalised
    out = {"image": image, "grey": image[:1], "wide": wide, "wide.equalized": TF.equalize(wide)}

    def keep(name, picture):
        out[name] = picture.float()

    for i, factor in enumerate([0.0, 0.375, 1.0, 1.75]):
        for kind in ["brightness", "contrast", "saturation", "sharpness"]:
            keep(f"{kind}.{i}", getattr(TF, f"adjust_{kind}")(image, factor))
        keep(f"grey_contrast.{i}", TF.adjust_contrast(image[:1], factor))
        out[f"factor.{i}"] = torch.tensor([factor])
    for i, shift in enumerate([-0.5, -0.125, 0.0, 0.03125, 0.3125]):
        # Its conversion of bytes, not the one within this release's adjust_hue, which darkens whatever the shift.
        turned = TF.adjust_hue(TF.convert_image_dtype(image, torch.float32), shift)
        keep(f"hue.{i}", TF.convert_image_dtype(turned, torch.uint8))
        out[f"shift.{i}"] = torch.tensor([shift])
    for i, angle in enumerate([-33.0, 8.0, 90.0]):
        keep(f"rotation.{i}", TF.rotate(image, angle, InterpolationMode.BILINEAR))
        out[f"angle.{i}"] = torch.tensor([angle])
    for i, sigma in enumerate([0.375, 1.0, 2.5]):
        radius = min(math.ceil(3 * sigma), 8)
        keep(f"gaussian.{i}", TF.gaussian_blur(image, 2 * radius + 1, sigma))
        out[f"sigma.{i}"] = torch.tensor([sigma])
    for side in [3, 5]:
        planes = [Image.fromarray(plane.numpy()).filter(ImageFilter.MedianFilter(side)) for plane in image]
        keep(f"median.{side}", torch.stack([torch.from_numpy(np.array(plane)) for plane in planes]))
    for name, (magnitudes, signed) in RandAugment()._augmentation_space(31, image.shape[1:]).items():
        for level in [9, 28] if magnitudes.ndim > 0 else [9]:
            magnitude = float(magnitudes[level]) if magnitudes.ndim > 0 else 0.0
            out[f"{name}.{level}"] = torch.tensor([magnitude])
            for sign, signed_magnitude in {"+": magnitude, "-": -magnitude}.items():
                if sign == "+" or signed:
                    keep(f"{name}.{level}{sign}", autoaugment._apply_op(
                        image, name, signed_magnitude, InterpolationMode.NEAREST, None))
    write("transforms", out)


def augmentations():
    """What torchvision's TrivialAugmentWide and AutoAugment make of a picture of bytes, and their tables."""
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy, InterpolationMode, TrivialAugmentWide, autoaugment
    from torchvision.transforms import functional as TF

    generator = torch.Generator().manual_seed(5)
    image = (torch.arange(99.0).reshape(9, 11) * torch.tensor([2.0, -2.0, 1.0])[:, None, None]) % 211
    image = (image + 30 * torch.rand(3, 9, 11, generator=generator)).to(torch.uint8)
    out = {"image": image, "Invert": TF.invert(image)}
    space = TrivialAugmentWide()._augmentation_space(31)
    for name, (magnitudes, signed) in space.items():
        out[f"wide.{name}"] = magnitudes.float().reshape(-1)
        for level in [11, 30] if magnitudes.ndim > 0 else [0]:
            for sign in [1, -1] if signed else [1]:
                magnitude = sign * float(magnitudes.reshape(-1)[level])
                out[f"wide.{name}.{level}{'+' if sign > 0 else '-'}"] = autoaugment._apply_op(
                    image, name, magnitude, InterpolationMode.NEAREST, None)
    names = [*space, "Invert"]
    for policy in AutoAugmentPolicy:
        augment = AutoAugment(policy)
        for name, (magnitudes, _) in augment._augmentation_space(10, (9, 11)).items():
            out[f"auto.{name}"] = magnitudes.float().reshape(-1)
        # Of each pair's operations: which, how likely and how strong, -1 without a strength.
        rows = [[[names.index(op), p, -1 if level is None else level] for op, p, level in pair] for pair in augment.policies]
        out[f"policy.{policy.value}"] = torch.tensor(rows)
        for i in [3, 14, 18, 22]:
            augment.get_params = lambda _, i=i: (i, torch.zeros(2), torch.tensor([0, 1]))
            out[f"policy.{policy.value}.{i}"] = augment(image)
    write("augmentations", out)


# Optimisers ----------------------------------------------------------------------------------------------------



class Lars(torch.optim.Optimizer):
    """LARS after You, Gitman and Ginsburg (2017), since PyTorch has none: SGD of gradients scaled by layer."""

    def __init__(self, parameters, lr, momentum=0.9, weight_decay=0.0, trust=1e-3, eps=1e-8, nesterov=False):
        super().__init__(parameters, {"weight_decay": weight_decay, "trust": trust, "eps": eps})
        self.sgd = torch.optim.SGD(self.param_groups[0]["params"], lr=lr, momentum=momentum, nesterov=nesterov)

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                decay, norm = group["weight_decay"], p.detach().norm()
                ratio = group["trust"] * norm / (p.grad.norm() + decay * norm + group["eps"])
                p.grad = ratio * (p.grad + decay * p.detach())
        self.sgd.step()


class Lion(torch.optim.Optimizer):
    """Lion after Chen et al. (2023), since PyTorch has none."""

    def __init__(self, parameters, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * mean.lerp(p.grad, 1 - first).sign())
                mean.lerp_(p.grad, 1 - second)


OPTIMIZERS = {
    "sgd.0": (torch.optim.SGD, {"lr": 0.1}),
    "sgd.1": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
    "sgd.2": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.01, "nesterov": True}),
    "adamw.0": (torch.optim.AdamW, {"lr": 0.01}),
    "adam.0": (torch.optim.Adam, {"lr": 0.01}),
    "adam.1": (torch.optim.Adam, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.2}),
    "lars.0": (Lars, {"lr": 0.5, "momentum": 0.9, "weight_decay": 1e-2, "trust": 0.02}),
    "lars.1": (Lars, {"lr": 0.5, "momentum": 0.8, "trust": 0.05, "nesterov": True}),
    "adamw.1": (torch.optim.AdamW, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.2}),
}
LATER_OPTIMIZERS = {
    "lion.0": (Lion, {"lr": 1e-2}),
    "lion.1": (Lion, {"lr": 0.05, "betas": (0.5, 0.8), "weight_decay": 0.1}),
}


def optimizer_traces(out, table):
    for name, (kind, options) in table.items():
        w = f32(37).requires_grad_(True)
        out[f"{name}/w"] = w.detach().clone()
        optimizer = kind([w], **options)
        gradients, weights = [f32(37) for _ in range(5)], []
        for g in gradients:
            w.grad = g.clone()
            optimizer.step()
            weights.append(w.detach().clone())
        out[f"{name}/gradients"] = torch.stack(gradients)
        out[f"{name}/weights"] = torch.stack(weights)


def optimizers():
    out = {}
    optimizer_traces(out, OPTIMIZERS)
    for i, limit in enumerate([0.5, 100.0]):
        parts = [f32(13).requires_grad_(True), f32(4, 5).requires_grad_(True)]
        for j, part in enumerate(parts):
            part.grad = f32(*part.shape)
            out[f"clip.{i}/g{j}"] = part.grad.clone()
        out[f"clip.{i}/max_norm"] = torch.tensor([limit])
        out[f"clip.{i}/norm"] = torch.nn.utils.clip_grad_norm_(parts, limit).reshape(1)
        for j, part in enumerate(parts):
            out[f"clip.{i}/clipped{j}"] = part.grad
    parts = f32(31).requires_grad_(True)
    parts.grad = f32(31)
    out["clip_value/g"], out["clip_value/limit"] = parts.grad.clone(), torch.tensor([0.7])
    torch.nn.utils.clip_grad_value_([parts], 0.7)
    out["clip_value/clipped"] = parts.grad
    with apart():
        optimizer_traces(out, LATER_OPTIMIZERS)
    write("optimizers", out)


def schedules():
    """Rates of 40 updates with a base of 0.5."""
    out, total = {}, 40
    lr = torch.optim.lr_scheduler
    kinds = {
        "linear": lambda o: lr.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=total),
        "polynomial": lambda o: lr.PolynomialLR(o, total_iters=total, power=1.5),
        "cosine": lambda o: lr.CosineAnnealingLR(o, T_max=total, eta_min=0.5 * 0.05),
        "one_cycle.0": lambda o: lr.OneCycleLR(o, max_lr=0.5, total_steps=total, cycle_momentum=False),
        "one_cycle.1": lambda o: lr.OneCycleLR(o, max_lr=0.5, total_steps=total, cycle_momentum=False, pct_start=0.45,
                                               div_factor=10, final_div_factor=100),
        "exponential": lambda o: lr.ExponentialLR(o, gamma=0.9),
        "cosine_restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, T_0=5, T_mult=2, eta_min=0.5 * 0.05),
    }
    for name, kind in kinds.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        schedule, rates = kind(optimizer), []
        for _ in range(total):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step() if len(rates) < total else None
        out[name] = torch.tensor(rates, dtype=torch.float64)
    write("schedules", out)


# Loss curves: weights and batches come from the same counters as core/engine/initialize.cpp's ---------------------

SEED, STEPS, BATCHES, EVALUATED_AFTER = 1, 20, 4, 1


def random_key(seed, name):
    value = 0xCBF29CE484222325
    for byte in struct.pack("<Q", seed) + name.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def philox(key, blocks):
    """Philox4x32-10 of the counters (block, 0, 0, 0): four words per block."""
    mask = np.uint64(0xFFFFFFFF)
    c = [blocks & mask, blocks >> np.uint64(32), np.zeros_like(blocks), np.zeros_like(blocks)]
    key0, key1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    for _ in range(10):
        product0, product1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(product1 >> np.uint64(32)) ^ c[1] ^ key0, product1 & mask,
             (product0 >> np.uint64(32)) ^ c[3] ^ key1, product0 & mask]
        key0, key1 = (key0 + np.uint64(0x9E3779B9)) & mask, (key1 + np.uint64(0xBB67AE85)) & mask
    return np.stack(c, axis=1).reshape(-1)


def draws(name, count):
    """Whole blocks of four numbers in [0, 1), at least `count`."""
    words = philox(random_key(SEED, name), np.arange((count + 3) // 4, dtype=np.uint64))
    return (words >> np.uint64(8)).astype(np.float64) * 2.0**-24


def tensor(values, shape):
    return torch.from_numpy(values[:math.prod(shape)].astype(np.float32).reshape(shape))


def uniform(name, shape, low, high):
    return tensor(low + (high - low) * draws(name, math.prod(shape)), shape)


def normal(name, shape, deviation):
    """Box and Muller's transform of pairs of draws."""
    u = draws(name, math.prod(shape))
    radius, angle = np.sqrt(-2 * np.log(1 - u[0::2])), 2 * math.pi * u[1::2]
    return tensor(deviation * np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1), shape)


def mlp():
    return nn.Sequential(OrderedDict(
        flat=nn.Flatten(), fc1=nn.Linear(784, 1000), relu1=nn.ReLU(), fc2=nn.Linear(1000, 100), relu2=nn.ReLU(),
        fc3=nn.Linear(100, 10)))


def cnn():
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(1, 32, 3), relu1=nn.ReLU(), conv2=nn.Conv2d(32, 64, 3), relu2=nn.ReLU(), pool=nn.MaxPool2d(2),
        flat=nn.Flatten(), fc1=nn.Linear(9216, 128), relu3=nn.ReLU(), fc2=nn.Linear(128, 10)))


def resnet18():
    """With the stem for pictures of 32x32."""
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model


def mobilenet_v2():
    return torchvision.models.mobilenet_v2(dropout=0)


def double_conv(before, channels):
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(before, channels, 3, padding=1, bias=False), bn1=nn.BatchNorm2d(channels), relu1=nn.ReLU(),
        conv2=nn.Conv2d(channels, channels, 3, padding=1, bias=False), bn2=nn.BatchNorm2d(channels), relu2=nn.ReLU()))


class UNet(nn.Module):
    """configs/models/unet_small.yaml"""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3 = double_conv(3, 16), double_conv(16, 32), double_conv(32, 64)
        self.bottom = double_conv(64, 128)
        self.up3, self.merge3 = nn.ConvTranspose2d(128, 64, 2, stride=2), double_conv(128, 64)
        self.up2, self.merge2 = nn.ConvTranspose2d(64, 32, 2, stride=2), double_conv(64, 32)
        self.up1, self.merge1 = nn.ConvTranspose2d(32, 16, 2, stride=2), double_conv(32, 16)
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        fine = self.down1(x)
        middle = self.down2(F.max_pool2d(fine, 2))
        coarse = self.down3(F.max_pool2d(middle, 2))
        y = self.bottom(F.max_pool2d(coarse, 2))
        y = self.merge3(torch.cat([self.up3(y), coarse], 1))
        y = self.merge2(torch.cat([self.up2(y), middle], 1))
        return self.head(self.merge1(torch.cat([self.up1(y), fine], 1)))


# Model, shape of a batch of images, shape of its labels, classes, learning rate. Deep networks amplify rounding with
# each step; a small rate, and for MobileNetV2 many samples to normalise over, keep PyTorch's own differences small enough
# to be a bound worth having.
CURVES = {
    "mlp": (mlp, (32, 1, 28, 28), (32,), 10, 0.01),
    "cnn": (cnn, (32, 1, 28, 28), (32,), 10, 0.01),
    "resnet18": (resnet18, (8, 3, 32, 32), (8,), 10, 0.001),
    "mobilenet_v2": (mobilenet_v2, (32, 3, 64, 64), (32,), 1000, 0.01),
    "unet": (UNet, (8, 3, 32, 32), (8, 32, 32), 4, 0.01),
}


def autoencoder():
    """configs/models/conv_autoencoder.yaml"""
    def up(before, channels, **more):
        return nn.ConvTranspose2d(before, channels, 3, stride=2, padding=1, **more)

    return nn.Sequential(OrderedDict(
        encode1=nn.Conv2d(1, 16, 3, stride=2, padding=1), relu1=nn.ReLU(),
        encode2=nn.Conv2d(16, 32, 3, stride=2, padding=1), relu2=nn.ReLU(),
        encode3=nn.Conv2d(32, 8, 3, stride=2, padding=1),
        decode1=up(8, 32), relu3=nn.ReLU(), decode2=up(32, 16, output_padding=1), relu4=nn.ReLU(),
        decode3=up(16, 1, output_padding=1), sigmoid=nn.Sigmoid()))


# Losses of elements: the numbers are drawn as labels are, and a class is there where its number is odd.
POS_WEIGHT = torch.tensor([0.5, 1, 2, 1, 1, 3, 1, 0.25, 1, 1])
ELEMENT_CURVES = {
    "multi_label": (cnn, (32, 1, 28, 28), (32, 10), 2, 0.05,
                    lambda y, x, labels: F.binary_cross_entropy_with_logits(y, labels.float(), pos_weight=POS_WEIGHT)),
    "autoencoder": (autoencoder, (32, 1, 28, 28), (32,), 10, 0.3, lambda y, x, labels: F.mse_loss(y, x)),
}


@torch.no_grad()
def first_weights(model):
    """PyTorch's rule by default; convolutions before a batch normalisation, which have no bias: Kaiming's for relu,
    fan-out; MobileNetV2's classifier: 0.01."""
    for name, layer in model.named_modules():
        if not isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            continue
        w, b = layer.weight, layer.bias
        if b is None:
            w.copy_(normal(f"{name}.weight", w.shape, math.sqrt(2 / w[:, 0].numel())))
        elif name == "classifier.1":
            w.copy_(normal(f"{name}.weight", w.shape, 0.01))
            b.zero_()
        else:
            bound = 1 / math.sqrt(w[0].numel())
            w.copy_(uniform(f"{name}.weight", w.shape, -bound, bound))
            b.copy_(uniform(f"{name}.bias", b.shape, -bound, bound))


def of_labels(logits, images, labels):
    return F.cross_entropy(logits, labels)


def curve(make, image_shape, label_shape, classes, lr, loss_of, threads, channels_last):
    """The loss of each step, and after EVALUATED_AFTER the logits of two samples in evaluation."""
    torch.set_num_threads(threads)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = make()
    first_weights(model)
    model = model.to(memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    root3, batches, losses = math.sqrt(3), [], []
    for i in range(BATCHES):  # few batches, so that the loss falls within the steps
        images = uniform(f"images.{i}", image_shape, -root3, root3).contiguous(memory_format=layout)
        batches.append((images, uniform(f"labels.{i}", label_shape, 0, classes).floor().long()))
    for step in range(STEPS):
        images, labels = batches[step % BATCHES]
        loss = loss_of(model(images), images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step + 1 == EVALUATED_AFTER:
            with torch.no_grad():
                logits = model.eval()(batches[BATCHES - 1][0])[:2].contiguous()
            model.train()
    return np.array(losses), logits


def curves(file, trainings):
    out = {}
    for name, training in trainings.items():
        base, logits = curve(*training, 1, False)
        runs = [curve(*training, threads, last) for threads, last in [(2, False), (1, True), (2, True)]]
        others = [losses for losses, _ in runs]
        out[f"{name}/parameters"] = torch.tensor([sum(p.numel() for p in training[0]().parameters())])
        out[f"{name}/losses"] = torch.from_numpy(base)
        out[f"{name}/logits"] = logits
        own = max((other - logits).norm() / logits.norm() for _, other in runs)
        out[f"{name}/logits_spread"] = own.reshape(1)
        print(name, "logits differ by", own.item())
        out[f"{name}/spread"] = torch.from_numpy(np.max([abs(other - base) for other in others], axis=0))
        print(name, base[0], base[-1], "spread", out[f"{name}/spread"].max().item())
    write(file, out)


# Loss scaling and mixed precision ------------------------------------------------------------------------------


def unscale_on_cpu(gradients, found_inf, inverse):
    """torch._amp_foreach_non_finite_check_and_unscale_, of which this PyTorch has a CUDA kernel only."""
    for gradient in gradients:
        if not torch.isfinite(gradient).all():
            found_inf.fill_(1)
        gradient.mul_(inverse)


def update_scale_on_cpu(scale, growth_tracker, found_inf, growth, backoff, interval):
    """torch._amp_update_scale_, likewise."""
    if found_inf:
        scale.mul_(backoff)
        growth_tracker.fill_(0)
        return
    if int(growth_tracker) + 1 == interval:
        if torch.isfinite(scale * growth):
            scale.mul_(growth)
        growth_tracker.fill_(0)
    else:
        growth_tracker.add_(1)


class CpuReplicator(torch.amp.grad_scaler._MultiDeviceReplicator):
    def __init__(self, master_tensor):  # without the demand for CUDA
        self.master = master_tensor
        self._per_device_tensors = {}


def grad_scaler():
    """PyTorch's GradScaler on the CPU: its two kernels replaced, its demands for CUDA left out."""
    torch.cuda.amp.grad_scaler.amp_definitely_not_available = lambda: False
    torch.amp.grad_scaler._MultiDeviceReplicator = CpuReplicator
    torch._amp_foreach_non_finite_check_and_unscale_ = unscale_on_cpu
    torch._amp_update_scale_ = update_scale_on_cpu
    scaler = torch.cuda.amp.GradScaler()
    scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
    return scaler


# Optimiser, limits, and how often a gradient is not finite.
SCALER_TRACES = {
    "sgd": ({"kind": torch.optim.SGD, "lr": 0.01, "momentum": 0.9}, {}),
    "adam": ({"kind": torch.optim.Adam, "lr": 0.01}, {}),
    "clip_norm": ({"kind": torch.optim.SGD, "lr": 0.01}, {"norm": 0.5}),
    "clip_value": ({"kind": torch.optim.SGD, "lr": 0.01}, {"value": 0.7}),
}
PLANTED = {3: math.inf, 4: math.nan, 9: -math.inf, 2500: math.inf}  # by step
TRACE_STEPS, TRACE_BATCHES = 2600, 5


def scaler_trace(out, name, optimizer, limits):
    """Gradients repeat; each step's are multiplied by the scale as a scaled loss's would be."""
    options = dict(optimizer)
    w = uniform("w", (7,), -1, 1).requires_grad_(True)
    optimizer, scaler, scales = options.pop("kind")([w], **options), grad_scaler(), []
    for step in range(TRACE_STEPS):
        w.grad = uniform(f"gradient.{step % TRACE_BATCHES}", (7,), -1, 1) * scaler._scale
        if step in PLANTED:
            w.grad[step % 7] = PLANTED[step]
        if limits:
            scaler.unscale_(optimizer)
        if "norm" in limits:
            torch.nn.utils.clip_grad_norm_([w], limits["norm"])
        if "value" in limits:
            torch.nn.utils.clip_grad_value_([w], limits["value"])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    out[f"{name}/scales"] = torch.tensor(scales)
    out[f"{name}/w"] = w


def half(x):
    return x.half().float()


class HalfLinear(torch.autograd.Function):
    """torch.nn.functional.linear as a GPU runs it under autocast: fp16 in and out, sums in fp32. This PyTorch has no
    fp16 products on the CPU."""

    @staticmethod
    def forward(ctx, x, w, b):
        x, w = half(x), half(w)
        ctx.save_for_backward(x, w)
        return half(x @ w.t() + half(b))

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = half(dy)
        return half(dy @ w), half(dy.t() @ x), half(dy.sum(0))


def mlp_amp(out):
    """configs/mlp_amp.yaml; one batch has pixels too large for fp16."""
    torch.set_num_threads(1)
    model = nn.Sequential(OrderedDict(fc1=nn.Linear(10, 1000), fc2=nn.Linear(1000, 100), fc3=nn.Linear(100, 10)))
    first_weights(model)
    optimizer, scaler, losses, scales = torch.optim.SGD(model.parameters(), lr=0.01), grad_scaler(), [], []
    for step in range(STEPS):
        x = uniform(f"images.{step % BATCHES}", (32, 10), -math.sqrt(3), math.sqrt(3))
        labels = uniform(f"labels.{step % BATCHES}", (32,), 0, 10).floor().long()
        if step == 5:
            x = x * 1e5
        for layer in model:
            x = HalfLinear.apply(x, layer.weight, layer.bias)
            x = x if layer is model.fc3 else torch.relu(x)
        loss = F.cross_entropy(x, labels)
        optimizer.zero_grad()
        (loss * scaler._scale).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    out["mlp_amp/losses"], out["mlp_amp/scales"] = torch.tensor(losses), torch.tensor(scales)
    print("mlp_amp", losses, scales)


def scaler():
    out = {}
    for name, (optimizer, limits) in SCALER_TRACES.items():
        scaler_trace(out, name, optimizer, limits)
    mlp_amp(out)
    write("scaler", out)


if __name__ == "__main__":
    FIXTURES.mkdir(exist_ok=True)
    torch.manual_seed(1)
    operations()
    optimizers()
    schedules()
    curves("curves", {name: (*training, of_labels) for name, training in CURVES.items()})
    curves("element_curves", ELEMENT_CURVES)
    targets()
    transforms()
    augmentations()
    scaler()
    given_statistics()
    attention()
    torch.manual_seed(3)
    sequences()
