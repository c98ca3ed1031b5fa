# SPDX-License-Identifier: Apache-2.0
"""Draws networks, losses, optimisers and schedules, as the recipe writes them.

No layer with a bias comes before a normalisation of each channel, and keys of attention have none: their gradients are zero except
for rounding, which Adam and Lion turn into steps of full length.
"""
import random

import torch

from layers import FUNCTIONS, layer_of, run_layer

SMOOTH = sorted(FUNCTIONS)


class Draw:
    """Layers so far, and their output for a batch of two samples, by which the next one is chosen."""

    def __init__(self, seed, x):
        self.random, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        self.layers, self.outputs, self.values, self.statistics = [], {"input": x}, {}, {}

    @property
    def last(self):
        return list(self.outputs)[-1]

    @property
    def shape(self):
        return tuple(self.outputs[self.last].shape)[1:]

    def add(self, kind, /, **keys):
        layer = {kind: {"name": f"l{len(self.layers)}", **keys}}
        self.layers.append(layer)
        run_layer(layer, self.outputs, self.values, self.statistics, self.generator)
        return self.last

    def maybe(self, chance=0.5):
        return self.random.random() < chance

    def one_of(self, choices):
        return self.random.choice(list(choices))

    def between(self, low, high):
        return self.random.randint(low, high)

    def real(self, low, high):
        return round(self.random.uniform(low, high), 4)

    def log_real(self, low, high):
        return float(f"{low * (high / low) ** self.random.random():.3g}")

    def function(self):
        kind = self.one_of(SMOOTH)
        keys = {"leaky_relu": {"negative_slope": self.real(0.01, 0.3)}, "elu": {"alpha": self.real(0.5, 1.5)},
                "hard_tanh": {"min_value": -self.real(0.5, 1.5), "max_value": self.real(0.5, 1.5)}}
        return self.add(kind, **keys.get(kind, {}))

    def freeze(self):
        """A recipe's list that freezes one layer, if another one trains; more often empty."""
        layers = sorted({layer_of(name) for name in self.values})
        if len(layers) < 2 or not self.maybe(0.2):
            return []
        frozen = self.one_of(layers)
        return [name for name in [*self.values, *self.statistics] if layer_of(name) == frozen]


def features(d, count):
    """Layers of (N, features) or (N, T, features)."""
    for _ in range(count):
        kind = d.one_of(["plain", "plain", "residual", "gate", "norm"])
        before = d.last
        if kind == "norm":
            d.add(d.one_of(["layer_norm", "rms_norm"]), **({"elementwise_affine": False} if d.maybe(0.2) else {}))
        elif kind == "plain":
            d.add("linear", out_features=d.between(4, 24), bias=d.maybe(0.8), transposed=d.maybe(0.2))
            d.function()
        elif kind == "gate":
            width = d.between(4, 16)
            left = d.add("linear", out_features=width, inputs=[before])
            right = d.add("linear", out_features=width, inputs=[before])
            gate = d.add(d.one_of(["sigmoid", "silu", "gelu"]), inputs=[left])
            d.add("mul", inputs=[gate, right])
        else:
            d.add("linear", out_features=d.between(4, 24))
            d.function()
            d.add("linear", out_features=d.outputs[before].shape[-1])
            branch = d.add("scale", value=0.5, bare=d.maybe()) if d.maybe() else d.last
            d.add("add", inputs=[before, branch])


def normalised(d):
    channels = d.shape[0]
    kind = d.one_of(["batch_norm", "batch_norm", "group_norm", "instance_norm"])
    more = {"batch_norm": {"momentum": d.real(0.05, 0.5)}, "instance_norm": {"affine": d.maybe()},
            "group_norm": {"groups": d.one_of(g for g in range(1, channels + 1) if channels % g == 0)}}
    d.add(kind, **more[kind])


def convolved(d, out=None, stride=1):
    """A convolution that keeps height and width unless it has a stride, perhaps with a normalisation."""
    into, norm = d.shape[0], d.maybe(0.6)
    out = out or d.between(3, 12)
    kernel, dilation = d.one_of([1, 3, 3, 3]), d.one_of([1, 1, 1, 2])
    groups = d.one_of(g for g in range(1, into + 1) if into % g == 0 and out % g == 0) if d.maybe(0.3) else 1
    d.add("conv2d", out_channels=out, kernel_size=kernel, padding=(kernel // 2) * dilation, dilation=dilation, stride=stride,
          groups=groups, bias=not norm)
    if norm:
        normalised(d)


def image_block(d):
    before, (channels, height, width) = d.last, d.shape
    kind = d.one_of(["conv", "conv", "conv", "residual", "pool", "pool", "excite", "up", "transposed", "concat", "softmax"])
    if kind == "pool" and min(height, width) >= 4:
        if d.maybe():
            d.add(d.one_of(["max_pool2d", "avg_pool2d"]), kernel_size=d.one_of([2, 3]), stride=2, padding=d.one_of([0, 1]))
        else:
            d.add("adaptive_avg_pool2d", output_size=[d.between(2, height), d.between(2, width)])
    elif kind == "up" and max(height, width) <= 8:
        mode = d.one_of(["nearest", "bilinear"])
        d.add("upsample", scale=2, mode=mode, **({"align_corners": d.maybe()} if mode == "bilinear" else {}))
    elif kind == "transposed" and max(height, width) <= 8:
        d.add("conv_transpose2d", out_channels=d.between(2, 8), kernel_size=3, stride=2, padding=1, output_padding=d.one_of([0, 1]))
        d.function()
    elif kind == "softmax":
        d.add(d.one_of(["softmax", "log_softmax"]))
    elif kind == "excite":
        d.add("squeeze_excite", squeeze_channels=d.between(1, 4), activation=d.one_of(SMOOTH), gate=d.one_of(["sigmoid", "hard_sigmoid"]))
    elif kind in ("residual", "concat"):
        convolved(d)
        d.function()
        convolved(d, channels)
        d.add("add" if kind == "residual" else "concat", inputs=[before, d.last])
        d.function()
    else:
        convolved(d, stride=d.one_of([1, 1, 2]) if min(height, width) >= 4 else 1)
        d.function()


def attended(d, causal, by_hand=False):
    """Attention of each kind of (N, T, E), added to its input."""
    before, width = d.last, d.shape[-1]
    d.add(d.one_of(["layer_norm", "rms_norm"]))
    read, size = d.last, d.one_of([2, 4])
    if by_hand:
        q, k, v = (d.add("linear", out_features=size, bias=False, inputs=[read]) for _ in range(3))
        scores = d.add("matmul", inputs=[q, k], transpose_b=True)
        d.add("matmul", inputs=[d.add("softmax", inputs=[scores]), v])
    else:
        kv_heads, groups = d.one_of([1, 2]), d.one_of([1, 2])
        heads = kv_heads * groups
        d.add("linear", out_features=(heads + 2 * kv_heads) * size, bias=False)
        if d.maybe(0.4):
            d.add("rotary", heads=heads + 2 * kv_heads, rotated=heads + kv_heads, style=d.one_of(["half", "interleaved"]),
                  features=d.one_of([2, size]), theta=d.one_of([100.0, 10000.0]))
        window = {"sliding_window": d.between(2, 4)} if causal and d.maybe(0.3) else {}
        d.add("attention", heads=heads, kv_heads=kv_heads, causal=causal, **window, **({"scale": 0.3} if d.maybe(0.2) else {}))
    branch = d.add("linear", out_features=width)
    d.add("add", inputs=[before, branch])


def sequence(d, causal, blocks):
    for _ in range(blocks):
        attended(d, causal, by_hand=not causal and d.maybe(0.3))
        if not causal and d.maybe(0.2):
            d.add("transpose")
            d.add("linear", out_features=d.shape[-1])
            d.function()
            d.add("transpose")
        width, before = d.shape[-1], d.last
        d.add("linear", out_features=2 * width)
        d.function()
        d.add("linear", out_features=width)
        d.add("add", inputs=[before, d.last])
    d.add(d.one_of(["layer_norm", "rms_norm"]))


def body_of_images(d):
    """Ends in (N, features)."""
    kind = d.one_of(["mlp", "cnn", "cnn", "tokens"])
    if kind == "cnn":
        for _ in range(d.between(1, 4)):
            image_block(d)
        if d.maybe(0.7):
            d.add(*["global_avg_pool2d"])
    if kind == "tokens":
        d.add("conv2d", out_channels=8, kernel_size=d.one_of([2, 3]), stride=2)
        d.add("to_tokens")
        if d.maybe():
            d.add("class_token")
        d.add("positions", max_positions=d.shape[0] + d.between(0, 3), kind=d.one_of(["learned", "sinusoidal"]))
        sequence(d, False, d.between(1, 2))
        if d.maybe():
            d.add("slice", axis=1, begin=0, end=1)
            d.add("reshape", shape=[d.shape[-1]])
        else:
            d.add("mean_tokens")
    else:
        d.add("flatten")
    features(d, d.between(0, 3))
    return kind


def network_of_images(d, classes):
    kind = body_of_images(d)
    d.add("linear", out_features=classes, bias=d.maybe(0.8))
    if d.maybe(0.2):
        d.add("scale", value=0.8)
    return kind


def network_of_inputs(d):
    """Ends in the shape of its input, as mse needs it."""
    shape = d.shape
    if d.maybe():
        body_of_images(d)
        d.add("linear", out_features=shape[0] * shape[1] * shape[2])
        d.add("reshape", shape=list(shape))
        return "autoencoder"
    for _ in range(d.between(1, 3)):
        convolved(d)
        d.function()
    d.add("conv2d", out_channels=shape[0], kernel_size=3, padding=1)
    if d.maybe():
        d.add("sigmoid")
    return "convolutions"


def network_of_tokens(d, vocabulary):
    width = d.one_of([6, 8, 12])
    table = d.add("embedding", vocab_size=vocabulary, features=width)
    if d.maybe(0.6):
        d.add("positions", max_positions=d.shape[0] + d.between(0, 3), kind=d.one_of(["learned", "sinusoidal"]), bare=False)
    sequence(d, True, d.between(1, 2))
    d.add("linear", out_features=vocabulary, **({"weight_of": table, "bias": False} if d.maybe(0.4) else {}))
    return "gpt"


def loss(d, name, classes, may_weigh=True):
    keys = {"name": name}
    if name == "cross_entropy" and d.maybe():
        keys["label_smoothing"] = d.real(0, 0.4)
    if name == "focal":
        keys["gamma"] = d.one_of([0.0, 0.5, 1.0, 2.0, 3.3])
    if name in ("cross_entropy", "focal"):
        if d.maybe(0.3):
            keys["ignore_index"] = d.between(0, classes - 1)
        if may_weigh and d.maybe(0.3):
            keys["class_weights"] = [d.real(0.1, 3) for _ in range(classes)]
    if name == "binary_cross_entropy" and d.maybe():
        keys["pos_weight"] = [d.real(0.1, 4) for _ in range(classes)]
    return keys


def optimizer(d, name, frozen):
    maybe = lambda key, value: {key: value} if d.maybe() else {}  # noqa: E731
    betas = {**maybe("beta1", d.real(0.3, 0.95)), **maybe("beta2", d.real(0.7, 0.999))}
    momentum = {"momentum": d.real(0.1, 0.95), "nesterov": d.maybe()} if d.maybe(0.7) else {}
    own = {
        "sgd": {"lr": d.log_real(0.01, 0.2), **momentum},
        "adam": {"lr": d.log_real(1e-3, 0.03), **betas, "eps": d.log_real(1e-6, 1e-2)},
        "adamw": {"lr": d.log_real(1e-3, 0.03), **betas, "eps": d.log_real(1e-6, 1e-2)},
        "lars": {"lr": d.log_real(0.1, 2), **momentum, "trust_coefficient": d.log_real(1e-3, 0.05)},
        "lion": {"lr": d.log_real(1e-4, 0.01), **betas},
        "rmsprop": {"lr": d.log_real(1e-3, 0.02), **maybe("alpha", d.real(0.5, 0.99)), "eps": d.log_real(1e-4, 1e-1),
                    **maybe("momentum", d.real(0.1, 0.9)), **maybe("centered", True)},
        "muon": {"lr": d.log_real(1e-3, 0.03), **maybe("momentum", d.real(0.3, 0.95)), "nesterov": d.maybe(),
                 "ns_steps": d.between(1, 6), **maybe("adamw_lr_factor", d.real(0.1, 1)), **maybe("adamw_beta1", d.real(0.3, 0.9)),
                 **maybe("adamw_beta2", d.real(0.7, 0.999)), "adamw_eps": d.log_real(1e-6, 1e-2)},
    }[name]
    keys = {"name": name, **own, **maybe("weight_decay", d.log_real(1e-4, 0.3)),
            **maybe("no_decay", d.one_of([[], ["bias"], ["norm"], ["bias", "norm"]]))}
    if d.maybe(0.4):
        keys["clip_norm"] = d.log_real(0.05, 5)
    if d.maybe(0.2):
        keys["clip_value"] = d.log_real(1e-3, 0.5)
    names = [name for name in d.values if name not in frozen]
    keys["groups"] = []
    for parameter in d.random.sample(names, min(len(names), d.one_of([0, 0, 1, 2]))):
        keys["groups"].append({"pattern": parameter, **maybe("lr_factor", d.real(0, 3)), **maybe("weight_decay", d.real(0, 0.5))})
    return keys


def schedule(d, steps):
    name = d.one_of(["constant", "multi_step", "cosine", "linear", "polynomial", "trapezoid", "inverse_sqrt", "exponential",
                     "cosine_restarts", "one_cycle"])
    keys = {"name": name}
    if name != "one_cycle" and d.maybe():
        keys["warmup"] = f"{d.between(1, steps // 2)}ba"
    own = {"multi_step": lambda: {"milestones": [f"{steps // 2}ba"], "gamma": d.real(0.1, 0.9)},
           "exponential": lambda: {"gamma": d.real(0.5, 0.99), "period": "2ba"},
           "cosine_restarts": lambda: {"period": "3ba", "growth": 2}, "trapezoid": lambda: {"decay": d.real(0.2, 1)},
           "polynomial": lambda: {"power": d.real(0.5, 3)}, "one_cycle": lambda: {"rise": d.real(0.2, 0.6)}}
    return {**keys, **own.get(name, dict)()}
