# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side: losses, optimisers with their groups, schedules, and the steps of a recipe."""
import fnmatch
import math

import torch
import torch.nn.functional as F

from layers import layer_of, run_network
from muon_reference import Muon
from optimizers import Lars, Lion

DECAYS = {"adamw": 0.01, "muon": 0.1}
SPARED = {"lars": ["bias", "norm"]}
TABLES = "embedding", "positions", "class_token"


def loss_of(keys, outputs, targets):
    if keys["name"] == "mse":
        return F.mse_loss(outputs, targets)
    if keys["name"] == "binary_cross_entropy":
        weights = torch.tensor(keys["pos_weight"], dtype=outputs.dtype) if "pos_weight" in keys else None
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), pos_weight=weights)
    logits, labels = outputs.flatten(0, -2), targets.flatten()
    weights = torch.tensor(keys.get("class_weights", [1.0] * logits.shape[1]), dtype=logits.dtype)
    counted = labels != keys.get("ignore_index", -1)
    each = F.cross_entropy(logits, labels, weights, reduction="none", label_smoothing=keys.get("label_smoothing", 0))
    if keys["name"] == "focal":
        own = logits.log_softmax(1).gather(1, labels[:, None])[:, 0].exp()
        each = (1 - own) ** keys["gamma"] * each
    weight = weights[labels][counted].sum()
    return each[counted].sum() / (weight if weight > 0 else 1)


def last_matrices(layers):
    """Weights of the linear layers with outputs that lead to no other layer with weights."""
    layers = [(kind, keys) for layer in layers for kind, keys in layer.items()]
    found, feeds_layer = [], set()
    for i in reversed(range(len(layers))):
        kind, keys = layers[i]
        read = keys.get("inputs", [layers[i - 1][1]["name"]] if i else [])
        has_weights = kind in ("linear", "conv2d", "conv_transpose2d", "squeeze_excite")
        if kind == "linear" and keys["name"] not in feeds_layer:
            found.append(keys.get("weight_of", keys["name"]) + ".weight")
        if has_weights or keys["name"] in feeds_layer:
            feeds_layer.update(read)
    return found


def tables(layers):
    return [keys["name"] + ".weight" for layer in layers for kind, keys in layer.items() if kind in TABLES]


def settings_of(keys, name, shape):
    """Factor of the rate, weight decay, and whether LARS adapts."""
    spares = keys.get("no_decay", SPARED.get(keys["name"], []))
    spared = "bias" in spares if name.endswith(".bias") else len(shape) == 1 and "norm" in spares
    decay = 0 if spared else keys.get("weight_decay", DECAYS.get(keys["name"], 0))
    for group in keys["groups"]:
        if fnmatch.fnmatchcase(name, group["pattern"]):
            return group.get("lr_factor", 1), group.get("weight_decay", decay), not spared
    return 1, decay, not spared


class PeerOptimizer:
    def __init__(self, keys, layers, parameters):
        self.keys, self.factors, groups = keys, {}, []
        for name, p in parameters.items():
            factor, decay, adapts = settings_of(keys, name, p.shape)
            self.factors[p] = factor
            groups.append({"params": [p], "weight_decay": decay, **({"adapts": adapts} if keys["name"] == "lars" else {})})
        self.optimizer = self.make(groups, [parameters[name] for name in last_matrices(layers) + tables(layers)
                                            if name in parameters])

    def make(self, groups, others):
        keys, lr = self.keys, self.keys["lr"]
        betas = keys.get("beta1", 0.9), keys.get("beta2", 0.99 if keys["name"] == "lion" else 0.999)
        optional = {key: keys[key] for key in ("alpha", "eps", "momentum", "centered", "nesterov", "ns_steps") if key in keys}
        make = {
            "sgd": lambda: torch.optim.SGD(groups, lr=lr, **optional),
            "adam": lambda: torch.optim.Adam(groups, lr=lr, betas=betas, eps=keys["eps"]),
            "adamw": lambda: torch.optim.AdamW(groups, lr=lr, betas=betas, eps=keys["eps"]),
            "rmsprop": lambda: torch.optim.RMSprop(groups, lr=lr, **optional),
            "lars": lambda: Lars(groups, lr=lr, trust=keys["trust_coefficient"], **optional),
            "lion": lambda: Lion(groups, lr=lr, betas=betas),
            "muon": lambda: Muon(groups, lr=lr, others=others, **optional, adamw={
                "betas": (keys.get("adamw_beta1", 0.9), keys.get("adamw_beta2", 0.999)), "eps": keys["adamw_eps"]}),
        }
        return make[keys["name"]]()

    def step(self, lr):
        inner = getattr(self.optimizer, "adamw", None) or getattr(self.optimizer, "sgd", None)
        for optimizer in filter(None, (self.optimizer, inner)):
            of_adamw = self.keys.get("adamw_lr_factor", 1) if optimizer is inner else 1
            for group in optimizer.param_groups:
                group["lr"] = lr * self.factors[group["params"][0]] * of_adamw
        self.optimizer.step()


def factor_of(keys, update, steps):
    """Of the learning rate of an update, counted from 0."""
    batches = lambda key, default: int(keys.get(key, default).removesuffix("ba"))  # noqa: E731
    warmup, least, name = batches("warmup", "0ba"), keys.get("min_factor", 0), keys["name"]
    if update < warmup:
        return (update + 1) / warmup
    part, since = (update - warmup) / (steps - warmup), update - warmup
    wave = lambda high, low, at: low + (high - low) / 2 * (1 + math.cos(math.pi * at))  # noqa: E731
    if name == "multi_step":
        return keys["gamma"] ** sum(update >= int(at.removesuffix("ba")) for at in keys["milestones"])
    if name == "exponential":
        return keys["gamma"] ** (since // batches("period", ""))
    if name == "inverse_sqrt":
        return (max(warmup, 1) / (update + 1)) ** 0.5
    if name == "cosine_restarts":
        length = batches("period", "")
        while since >= length:
            since, length = since - length, length * keys["growth"]
        return wave(1, least, since / length)
    if name == "one_cycle":
        top, first = keys["rise"] * steps - 1, 1 / 25
        return wave(1, first, 1 - update / top) if update <= top else wave(1, first / 1e4, (update - top) / (steps - 1 - top))
    return {"constant": 1, "cosine": wave(1, least, part), "linear": 1 - part, "polynomial": (1 - part) ** keys.get("power", 2),
            "trapezoid": min(1, (1 - part) / keys.get("decay", 0.2))}[name]


def train(recipe, start, statistics, batches, dtype):
    """Losses of all steps, and the weights and statistics that they end with. A batch is inputs and targets, each cut into
    micro-batches, which normalise and move statistics one after the other."""
    frozen = recipe["model"]["freeze"]
    values = {name: value.to(dtype).clone().requires_grad_(name not in frozen) for name, value in start.items()}
    trained, frozen_layers = {name: p for name, p in values.items() if name not in frozen}, set(map(layer_of, frozen))
    running = {name: value.to(dtype).clone() for name, value in statistics.items()}
    layers, optimizer, losses = recipe["model"]["layers"], recipe["optimizer"], []
    peer = PeerOptimizer(optimizer, layers, trained)
    for step, (inputs, targets) in enumerate(batches):
        outputs = [run_network(layers, x if x.dtype == torch.int64 else x.to(dtype), values, running, frozen_layers)
                   for x in inputs]
        loss = loss_of(recipe["loss"], torch.cat(outputs), targets.to(dtype) if targets.is_floating_point() else targets)
        for p in trained.values():
            p.grad = None
        loss.backward()
        losses.append(loss.item())
        if "clip_value" in optimizer:
            torch.nn.utils.clip_grad_value_(trained.values(), optimizer["clip_value"])
        if "clip_norm" in optimizer:
            torch.nn.utils.clip_grad_norm_(trained.values(), optimizer["clip_norm"])
        peer.step(optimizer["lr"] * factor_of(recipe["lr_scheduler"], step, len(batches)))
    return losses, {**{name: value.detach() for name, value in values.items()}, **running}
