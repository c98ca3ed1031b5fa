# SPDX-License-Identifier: Apache-2.0
"""The networks of a comparison in PyTorch's own words."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 100), nn.ReLU(),
                         nn.Linear(100, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def norm_after(conv):
    return nn.Sequential(conv, nn.BatchNorm2d(conv.out_channels))


class Residual(nn.Module):
    """relu(branch(x) + x), x projected if the shape changes."""

    def __init__(self, branch, channels_in, channels_out, stride):
        super().__init__()
        self.branch = branch
        same = stride == 1 and channels_in == channels_out
        self.skip = nn.Identity() if same else norm_after(nn.Conv2d(channels_in, channels_out, 1, stride, bias=False))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.branch(x) + self.skip(x))


def basic_block(channels_in, width, stride):
    branch = nn.Sequential(norm_after(nn.Conv2d(channels_in, width, 3, stride, 1, bias=False)), nn.ReLU(inplace=True),
                           norm_after(nn.Conv2d(width, width, 3, 1, 1, bias=False)))
    return Residual(branch, channels_in, width, stride), width


def bottleneck(channels_in, width, stride):
    branch = nn.Sequential(norm_after(nn.Conv2d(channels_in, width, 1, bias=False)), nn.ReLU(inplace=True),
                           norm_after(nn.Conv2d(width, width, 3, stride, 1, bias=False)), nn.ReLU(inplace=True),
                           norm_after(nn.Conv2d(width, 4 * width, 1, bias=False)))
    return Residual(branch, channels_in, 4 * width, stride), 4 * width


def resnet(block, depths, stem, classes):
    layers, channels = list(stem), 64
    for stage, depth in enumerate(depths):
        for i in range(depth):
            made, channels = block(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1)
            layers.append(made)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet18_32():
    stem = [norm_after(nn.Conv2d(3, 64, 3, 1, 1, bias=False)), nn.ReLU(inplace=True)]
    return resnet(basic_block, [2, 2, 2, 2], stem, 10)


def resnet50():
    stem = [norm_after(nn.Conv2d(3, 64, 7, 2, 3, bias=False)), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return resnet(bottleneck, [3, 4, 6, 3], stem, 1000)


def relu6_after(channels_in, channels_out, kernel, stride=1, groups=1):
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(norm_after(conv), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Widens, filters each channel, narrows; the input is added if the shape stays."""

    def __init__(self, channels_in, channels_out, stride, widen):
        super().__init__()
        width = channels_in * widen
        layers = [relu6_after(channels_in, width, 1)] if widen != 1 else []
        self.branch = nn.Sequential(*layers, relu6_after(width, width, 3, stride, width),
                                    norm_after(nn.Conv2d(width, channels_out, 1, bias=False)))
        self.same = stride == 1 and channels_in == channels_out

    def forward(self, x):
        return x + self.branch(x) if self.same else self.branch(x)


def mobilenet_v2():
    layers, channels = [relu6_after(3, 32, 3, 2)], 32
    for widen, channels_out, depth, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                               (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(depth):
            layers.append(InvertedResidual(channels, channels_out, stride if i == 0 else 1, widen))
            channels = channels_out
    return nn.Sequential(*layers, relu6_after(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(1280, 1000))


def attention(q, k, v, causal):
    """Of heads (N, heads, T, features), by one function if PyTorch has it."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
    return scores.softmax(-1) @ v


class Block(nn.Module):
    """A transformer's: norms before attention and before two linear layers."""

    def __init__(self, features, heads, causal, activation, eps):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(features, eps=eps), nn.LayerNorm(features, eps=eps)
        self.qkv, self.proj = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.mlp = nn.Sequential(nn.Linear(features, 4 * features), activation, nn.Linear(4 * features, features))

    def forward(self, x):
        qkv = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(attention(*qkv, self.causal).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """GPT-2's, the head being the table of tokens."""

    def __init__(self, vocabulary, tokens, features, heads, depth):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, features), nn.Embedding(tokens, features)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, 0, 0.02)
        self.blocks = nn.Sequential(*(Block(features, heads, True, nn.GELU("tanh"), 1e-5) for _ in range(depth)))
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = self.tokens(x) + self.places.weight[:x.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)


class Vit(nn.Module):
    def __init__(self, size, features, heads, depth, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, features, size, size)
        self.token = nn.Parameter(torch.zeros(1, 1, features))
        self.places = nn.Parameter(0.02 * torch.randn(1, (224 // size)**2 + 1, features))
        self.blocks = nn.Sequential(*(Block(features, heads, False, nn.GELU(), 1e-6) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(features, eps=1e-6), nn.Linear(features, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x)[:, 0]))


# name: maker, shape of a sample, classes; for tokens the shape has one dimension
NETWORKS = {
    "mlp": (mlp, (1, 28, 28), 10),
    "lenet": (lenet, (1, 28, 28), 10),
    "resnet18": (resnet18_32, (3, 32, 32), 10),
    "resnet50": (resnet50, (3, 224, 224), 1000),
    "mobilenet_v2": (mobilenet_v2, (3, 224, 224), 1000),
    "gpt_char": (lambda: Gpt(256, 256, 384, 6, 6), (256,), 256),
    "gpt2": (lambda: Gpt(50257, 1024, 768, 12, 12), (1024,), 50257),
    "vit_tiny": (lambda: Vit(16, 192, 3, 12, 1000), (3, 224, 224), 1000),
}
