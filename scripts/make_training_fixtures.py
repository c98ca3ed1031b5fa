#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures of optimisers and losses: what PyTorch computes, as scripts/make_fixtures.py does for the rest.

Needs numpy and torch (CPU).
"""

import torch
import torch.nn.functional as F

from fixture_file import apart, f32, write
from muon_reference import Muon, check_against_torch


def trace(out, name, make_optimizer, shapes, steps=5):
    """Weights after each step of an optimiser that is given random gradients."""
    weights = [f32(*shape).requires_grad_(True) for shape in shapes]
    gradients = [[f32(*shape) for shape in shapes] for _ in range(steps)]
    optimizer = make_optimizer(*weights)
    for i, w in enumerate(weights):
        out[f"{name}/w{i}"] = w.detach().clone()
    results = []
    for step in gradients:
        for w, g in zip(weights, step):
            w.grad = g.clone()
        optimizer.step()
        results.append([w.detach().clone() for w in weights])
    for i in range(len(shapes)):
        out[f"{name}/g{i}"] = torch.stack([step[i] for step in gradients])
        out[f"{name}/weights{i}"] = torch.stack([step[i] for step in results])


RMSPROP = {
    "rmsprop.0": {"lr": 0.01},
    "rmsprop.1": {"lr": 0.05, "alpha": 0.9, "eps": 1e-4, "momentum": 0.8, "weight_decay": 0.1},
    "rmsprop.2": {"lr": 0.01, "alpha": 0.8, "centered": True},
    "rmsprop.3": {"lr": 0.02, "momentum": 0.5, "centered": True, "weight_decay": 0.01},
}
# The recipe's groups in tests/ops/optimizer_traces_test.cpp: a rate and a decay of its own, a rate alone, the rest.
GROUPS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "weight_decay": 0.1}),
}


MUON = {
    "muon.0": {},
    "muon.1": {"lr": 0.02, "weight_decay": 0.0, "momentum": 0.5, "nesterov": False, "ns_steps": 3, "eps": 0.1,
               "adamw": {"lr_factor": 0.25, "betas": (0.5, 0.9), "eps": 1e-3}},
}
MUON_SHAPES = [(31, 33), (7, 3), (3, 7), (1, 9), (9, 1), (5,), (3, 2, 3, 3)]


def muon(out):
    """Every kind of matrix, a vector and a kernel; then a matrix and a vector in groups of their own."""
    check_against_torch()
    for name, options in MUON.items():
        trace(out, name, lambda *w, options=options: Muon(w, **options), MUON_SHAPES)

    def grouped(first, second, third, fourth):
        groups = [{"params": [first], "lr": 0.1, "weight_decay": 0.5}, {"params": [second], "lr": 0.0025},
                  {"params": [third, fourth]}]
        return Muon(groups, lr=0.01, weight_decay=0.1)

    trace(out, "groups.muon", grouped, [(4, 3), (5,), (2, 7), (3,)])


def optimizers():
    out = {}
    for name, options in RMSPROP.items():
        trace(out, name, lambda w, options=options: torch.optim.RMSprop([w], **options), [(37,)])
    for name, (kind, options) in GROUPS.items():
        lr = options["lr"]

        def grouped(first, second, third, kind=kind, options=options, lr=lr):
            groups = [{"params": [first], "lr": 10 * lr, "weight_decay": 0.5}, {"params": [second], "lr": lr / 4},
                      {"params": [third]}]
            return kind(groups, **options)

        trace(out, "groups." + name, grouped, [(4, 3), (5,), (2, 7)])
    with apart():
        muon(out)
    write("more_optimizers", out)


def losses():
    """cross_entropy with ignored positions, weights of classes and smoothing; (N, C), (N, T, C), (N, C, H, W)."""
    out, count = {}, 0
    for shape, classes in [((9, 5), 5), ((3, 7, 6), 6), ((2, 4, 3, 5), 4)]:
        labels_shape = (shape[0], *shape[2:]) if len(shape) == 4 else shape[:-1]
        for smoothing in [0.0, 0.2]:
            for weighs in [False, True]:
                for ignored in [2, -100]:
                    logits = f32(*shape).requires_grad_(True)
                    labels = torch.randint(classes, labels_shape)
                    if ignored < 0:
                        labels.view(-1)[::3] = ignored
                    weights = (torch.rand(classes) + 0.25).double() if weighs else None
                    by_class = logits.movedim(-1, 1) if len(shape) == 3 else logits
                    loss = F.cross_entropy(by_class, labels, weight=weights, ignore_index=ignored,
                                           label_smoothing=smoothing)
                    loss.backward()
                    name = f"counted.{count}"
                    out |= {f"{name}/logits": logits, f"{name}/labels": labels, f"{name}/loss": loss.reshape(1),
                            f"{name}/smoothing": torch.tensor([smoothing]), f"{name}/dlogits": logits.grad,
                            f"{name}/ignore_index": torch.tensor([ignored])}
                    if weighs:
                        out[f"{name}/class_weights"] = weights
                    count += 1
    write("counted_losses", out)


def focal_loss(logits, labels, gamma, weight, ignored):
    """Lin et al. 2017 of softmax: the mean of -(1 - p)^gamma log p, weighted and counted as F.cross_entropy's."""
    counted = labels != ignored
    log_p = F.log_softmax(logits, -1)[counted].gather(-1, labels[counted][:, None])[:, 0]
    w = torch.ones_like(log_p) if weight is None else weight[labels[counted]]
    return -(w * (1 - log_p.exp()) ** gamma * log_p).sum() / w.sum()


def focal_losses():
    """Of (N, C), (N, T, C) and (N, C, H, W); logits of some size, so that probabilities come near 0 and 1."""
    out, count = {}, 0
    for shape, classes in [((9, 5), 5), ((3, 7, 6), 6), ((2, 4, 3, 5), 4)]:
        labels_shape = (shape[0], *shape[2:]) if len(shape) == 4 else shape[:-1]
        for gamma in [0.0, 0.5, 2.0]:
            for weighs in [False, True]:
                logits = (4 * f32(*shape)).requires_grad_(True)
                labels = torch.randint(classes, labels_shape)
                if weighs:
                    labels.view(-1)[::3] = -100
                weights = (torch.rand(classes) + 0.25).double() if weighs else None
                of_class = logits.movedim(1, -1) if len(shape) == 4 else logits
                loss = focal_loss(of_class, labels, gamma, weights, -100)
                loss.backward()
                name = f"counted.{count}"
                out |= {f"{name}/logits": logits, f"{name}/labels": labels, f"{name}/loss": loss.reshape(1),
                        f"{name}/gamma": torch.tensor([gamma]), f"{name}/dlogits": logits.grad}
                if weighs:
                    out |= {f"{name}/class_weights": weights, f"{name}/ignore_index": torch.tensor([-100])}
                count += 1
    write("focal_losses", out)


def element_losses():
    """BCEWithLogitsLoss with and without pos_weight, MSELoss: the sum of a sample's mean times the sample's weight."""
    out = {}

    def case(name, shape, loss_of, targets, **more):
        x = (3 * f32(*shape)).float().double().requires_grad_(True)
        weights = torch.rand(shape[0]).float().double()
        y = (weights * loss_of(x, targets).flatten(1).mean(1)).sum()
        dy = f32(1)
        y.backward(dy[0])
        out.update({f"{name}/{key}": value for key, value in more.items()})
        out.update({f"{name}/x": x, f"{name}/targets": targets, f"{name}/weights": weights, f"{name}/y": y.reshape(1),
                    f"{name}/dy": dy, f"{name}/dx": x.grad})

    count = 0
    for shape in [(1, 1), (5, 31), (33, 7)]:
        for weighs in [False, True]:
            pos_weight = (torch.rand(shape[1]) + 0.5).float().double() if weighs else None
            targets = torch.randint(2, shape).double() if count % 2 else torch.rand(shape).float().double()
            entropy = torch.nn.BCEWithLogitsLoss(reduction="none", pos_weight=pos_weight)
            case(f"bce.{count}", shape, entropy, targets, **({"pos_weight": pos_weight} if weighs else {}))
            count += 1
    for count, shape in enumerate([(1, 1), (3, 5, 7), (2, 3, 5, 9)]):
        case(f"mse.{count}", shape, torch.nn.MSELoss(reduction="none"), f32(*shape))
    write("element_losses", out)


if __name__ == "__main__":
    torch.manual_seed(3)
    optimizers()
    losses()
    with apart():
        focal_losses()
    with apart():
        element_losses()
