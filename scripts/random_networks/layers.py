# SPDX-License-Identifier: Apache-2.0
"""The layers of recipes in plain PyTorch: each takes `p`, which gives its parameters by the ends of their names, the tensors that it
reads, and its keys in the recipe."""
import torch
import torch.nn.functional as F


def pair(value):
    return tuple(value) if isinstance(value, list) else (value, value)


def conv2d(p, x, o):
    out, groups = o["out_channels"], o.get("groups", 1)
    w = p("weight", out, x.shape[1] // groups, *pair(o["kernel_size"]))
    return F.conv2d(x, w, p("bias", out) if o.get("bias", True) else None, pair(o.get("stride", 1)), pair(o.get("padding", 0)),
                    pair(o.get("dilation", 1)), groups)


def conv_transpose2d(p, x, o):
    out, groups = o["out_channels"], o.get("groups", 1)
    w = p("weight", x.shape[1], out // groups, *pair(o["kernel_size"]))
    return F.conv_transpose2d(x, w, p("bias", out) if o.get("bias", True) else None, pair(o.get("stride", 1)),
                              pair(o.get("padding", 0)), pair(o.get("output_padding", 0)), groups, pair(o.get("dilation", 1)))


def linear(p, x, o):
    if "weight_of" in o:
        w = p.of(o["weight_of"], "weight")
    elif o.get("transposed"):
        w = p("weight", x.shape[-1], o["out_features"]).T
    else:
        w = p("weight", o["out_features"], x.shape[-1])
    return F.linear(x, w, p("bias", o["out_features"]) if o.get("bias", True) else None)


def batch_norm(p, x, o):
    channels = x.shape[1]
    mean, variance = p.running("running_mean", channels, 0), p.running("running_var", channels, 1)
    return F.batch_norm(x, mean, variance, p("weight", channels), p("bias", channels), not p.is_frozen, o.get("momentum", 0.1),
                        o.get("eps", 1e-5))


def channel_norm(groups_of):
    def run(p, x, o):
        channels, affine = x.shape[1], o.get("affine", groups_of is not None)
        w, b = (p("weight", channels), p("bias", channels)) if affine else (None, None)
        return F.group_norm(x, o["groups"] if groups_of else channels, w, b, o.get("eps", 1e-5))
    return run


def layer_norm(p, x, o):
    features, affine = x.shape[-1], o.get("elementwise_affine", True)
    w = p("weight", features) if affine else None
    return F.layer_norm(x, (features,), w, p("bias", features) if affine and o.get("bias", True) else None, o.get("eps", 1e-5))


def rms_norm(p, x, o):
    y = x * (x.square().mean(-1, keepdim=True) + o.get("eps", 1e-6)).rsqrt()
    return y * p("weight", x.shape[-1]) if o.get("elementwise_affine", True) else y


def heads_of(x, heads):
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def attention(p, q, o, k=None, v=None):
    heads, kv_heads = o["heads"], o.get("kv_heads", o["heads"])
    if k is None:
        size = q.shape[2] // (heads + 2 * kv_heads)
        q, k, v = q.split([heads * size, kv_heads * size, kv_heads * size], 2)
    q, k, v = heads_of(q, heads), heads_of(k, kv_heads), heads_of(v, kv_heads)
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * o.get("scale", q.shape[3] ** -0.5)
    if o.get("causal"):
        behind = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        scores = scores.masked_fill((behind < 0) | (behind >= o.get("sliding_window", k.shape[2])), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def rotary(p, x, o):
    heads = o["heads"]
    size = x.shape[2] // heads
    turned, features = o.get("rotated", heads), o.get("features", size)
    angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * o.get("theta", 10000) ** (
        -torch.arange(0, features, 2, dtype=torch.float64) / features)
    cos, sin = (f(angles)[:, None].to(x.dtype) for f in (torch.cos, torch.sin))
    rows = x.unflatten(2, (heads, size))
    part, rest = rows[:, :, :turned, :features], rows[:, :, :turned, features:]
    if o.get("style") == "interleaved":
        a, b = part[..., 0::2], part[..., 1::2]
        part = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    else:
        a, b = part.chunk(2, -1)
        part = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    return torch.cat([torch.cat([part, rest], -1), rows[:, :, turned:]], 2).flatten(2)


def positions(p, x, o):
    length, features = x.shape[1:]
    if o.get("kind") == "sinusoidal":
        angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (
            torch.arange(0, features, 2, dtype=torch.float64) / features)
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :features].to(x.dtype)
    if o.get("bare"):
        return x + p("", 1, o["max_positions"], features)[:, :length]
    return x + p("weight", o["max_positions"], features)[:length]


def squeeze_excite(p, x, o):
    channels, squeezed = x.shape[1], o["squeeze_channels"]
    s = F.conv2d(x.mean((2, 3), keepdim=True), p("fc1.weight", squeezed, channels, 1, 1), p("fc1.bias", squeezed))
    s = F.conv2d(FUNCTIONS[o.get("activation", "relu")](s, {}), p("fc2.weight", channels, squeezed, 1, 1), p("fc2.bias", channels))
    return x * FUNCTIONS[o.get("gate", "sigmoid")](s, {})


def scale(p, x, o):
    if not o.get("learned", True):
        return x * o.get("value", 1)
    return x * (p("", x.shape[-1], 1, 1).flatten() if o.get("bare") else p("weight", x.shape[-1]))


def upsample(p, x, o):
    how = {"align_corners": o.get("align_corners", False)} if o.get("mode") == "bilinear" else {}
    return F.interpolate(x, scale_factor=tuple(map(float, pair(o["scale"]))), mode=o.get("mode", "nearest"), **how)


def pool(function):
    return lambda p, x, o: function(x, pair(o["kernel_size"]), pair(o.get("stride", o["kernel_size"])), pair(o.get("padding", 0)))


def to_images(p, x, o, images):
    return x.transpose(1, 2).unflatten(2, images.shape[2:])


def pad(p, x, o):
    widths = [0, 0] * (x.dim() - 1 - o["axis"]) + [o.get("before", 0), o.get("after", 0)]
    return F.pad(x, widths)


def cut(p, x, o):
    return x.movedim(o["axis"], 0)[o.get("begin", 0):o.get("end")].movedim(0, o["axis"])


def matmul(p, a, o, b):
    return (a.transpose(1, 2) if o.get("transpose_a") else a) @ (b.transpose(1, 2) if o.get("transpose_b") else b)


def softmax_axis(x):
    return 1 if x.dim() == 4 else -1


FUNCTIONS = {
    "relu": lambda x, o: F.relu(x), "leaky_relu": lambda x, o: F.leaky_relu(x, o.get("negative_slope", 0.01)),
    "sigmoid": lambda x, o: x.sigmoid(), "tanh": lambda x, o: x.tanh(), "silu": lambda x, o: F.silu(x),
    "gelu": lambda x, o: F.gelu(x), "gelu_tanh": lambda x, o: F.gelu(x, approximate="tanh"),
    "elu": lambda x, o: F.elu(x, o.get("alpha", 1.0)), "softplus": lambda x, o: F.softplus(x, threshold=1e9),
    "mish": lambda x, o: F.mish(x), "relu6": lambda x, o: F.relu6(x),
    "hard_tanh": lambda x, o: F.hardtanh(x, o.get("min_value", -1.0), o.get("max_value", 1.0)),
    "hard_sigmoid": lambda x, o: F.hardsigmoid(x), "hard_swish": lambda x, o: F.hardswish(x),
}
LAYERS = {
    "conv2d": conv2d, "conv_transpose2d": conv_transpose2d, "linear": linear, "batch_norm": batch_norm,
    "group_norm": channel_norm("groups"), "instance_norm": channel_norm(None), "layer_norm": layer_norm, "rms_norm": rms_norm,
    "attention": attention, "rotary": rotary, "positions": positions, "squeeze_excite": squeeze_excite, "scale": scale,
    "upsample": upsample, "max_pool2d": pool(F.max_pool2d), "avg_pool2d": pool(F.avg_pool2d), "to_images": to_images, "pad": pad,
    "slice": cut, "matmul": matmul,
    "embedding": lambda p, x, o: F.embedding(x, p("weight", o["vocab_size"], o["features"])),
    "global_avg_pool2d": lambda p, x, o: x.mean((2, 3), keepdim=True),
    "adaptive_avg_pool2d": lambda p, x, o: F.adaptive_avg_pool2d(x, pair(o["output_size"])),
    "flatten": lambda p, x, o: x.flatten(1), "reshape": lambda p, x, o: x.reshape(x.shape[0], *o["shape"]),
    "transpose": lambda p, x, o: x.transpose(o.get("first", 1), o.get("second", 2)),
    "to_tokens": lambda p, x, o: x.flatten(2).transpose(1, 2),
    "class_token": lambda p, x, o: torch.cat([p("", 1, 1, x.shape[2]).expand(x.shape[0], -1, -1), x], 1),
    "mean_tokens": lambda p, x, o: x.mean(1), "add": lambda p, x, o, *more: sum(more, x),
    "mul": lambda p, x, o, *more: x * torch.stack(more).prod(0),
    "concat": lambda p, x, o, *more: torch.cat([x, *more], o.get("axis", 1)),
    "softmax": lambda p, x, o: x.softmax(softmax_axis(x)), "log_softmax": lambda p, x, o: x.log_softmax(softmax_axis(x)),
    **{name: lambda p, x, o, f=f: f(x, o) for name, f in FUNCTIONS.items()},
}


class Parameters:
    """Of one layer. Those that are not there yet are drawn: `values` and `statistics` then grow."""

    def __init__(self, layer, values, statistics, generator=None, is_frozen=False):
        self.layer, self.values, self.statistics, self.generator = layer, values, statistics, generator
        self.is_frozen = is_frozen

    def __call__(self, end, *shape):
        name = f"{self.layer}.{end}" if end else self.layer
        if name not in self.values:
            uniform = 2 * torch.rand(shape, generator=self.generator) - 1
            if len(shape) == 1 and end.endswith("weight"):
                drawn = 1 + 0.3 * uniform
            elif len(shape) == 1:
                drawn = 0.3 * uniform
            else:
                drawn = 1.5 * uniform / max(1, uniform[0].numel()) ** 0.5
            self.values[name] = drawn.double()  # which f32 holds exactly
        assert self.values[name].shape == shape, name
        return self.values[name]

    def of(self, layer, end):
        return self.values[f"{layer}.{end}"]

    def running(self, end, channels, value):
        return self.statistics.setdefault(f"{self.layer}.{end}", torch.full((channels,), float(value), dtype=torch.float64))


def run_layer(layer, outputs, values, statistics, generator=None, frozen=()):
    """Puts the layer's output beside those of earlier ones; they are in the order of layers, the input first."""
    (kind, keys), = layer.items()
    read = [outputs[name] for name in keys.get("inputs", [list(outputs)[-1]])]
    parameters = Parameters(keys["name"], values, statistics, generator, keys["name"] in frozen)
    outputs[keys["name"]] = LAYERS[kind](parameters, read[0], keys, *read[1:])


def layer_of(parameter):
    return parameter.partition(".")[0]


def run_network(layers, x, values, statistics, frozen):
    """`frozen`: layers that do not train, with unchanged statistics."""
    outputs = {"input": x}
    for layer in layers:
        run_layer(layer, outputs, values, statistics, frozen=frozen)
    return list(outputs.values())[-1]
