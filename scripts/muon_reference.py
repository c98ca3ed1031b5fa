# SPDX-License-Identifier: Apache-2.0
"""Muon in the precision of its parameters. torch.optim.Muon, with which it is compared, iterates in bf16 and takes matrices
only."""

import torch

COEFFICIENTS = 3.4445, -4.7750, 2.0315


def orthogonalised(u, steps=5, eps=1e-7):
    a, b, c = COEFFICIENTS
    x = u / (u.norm() + eps)
    if u.shape[0] > u.shape[1]:
        x = x.T
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if u.shape[0] > u.shape[1] else x


class Muon(torch.optim.Optimizer):
    """Matrices that are not in `others` move by Muon, all else by AdamW. A group's keys are those of both."""

    def __init__(self, parameters, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, eps=1e-7, ns_steps=5, others=(),
                 adamw=None):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})
        self.momentum, self.nesterov, self.eps, self.ns_steps = momentum, nesterov, eps, ns_steps
        adamw = dict(adamw or {})
        factor = adamw.pop("lr_factor", 1)
        spared = {id(p) for p in others}
        self.matrices, groups = [], []
        for group in self.param_groups:
            matrix = [p.dim() == 2 and id(p) not in spared for p in group["params"]]
            self.matrices += [(p, group) for p, is_matrix in zip(group["params"], matrix) if is_matrix]
            groups.append({"params": [p for p, is_matrix in zip(group["params"], matrix) if not is_matrix],
                           "lr": factor * group["lr"], "weight_decay": group["weight_decay"]})
        groups = [group for group in groups if group["params"]]
        self.adamw = torch.optim.AdamW(groups, **adamw) if groups else None

    @torch.no_grad()
    def step(self):
        for p, group in self.matrices:
            mean = self.state[p].setdefault("momentum", torch.zeros_like(p))
            mean.lerp_(p.grad, 1 - self.momentum)
            u = p.grad.lerp(mean, self.momentum) if self.nesterov else mean
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.sub_(group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5 * orthogonalised(u, self.ns_steps, self.eps))
        if self.adamw:
            self.adamw.step()


def check_against_torch(shapes=((31, 33), (7, 3), (1, 9)), steps=5):
    """PyTorch's own steps, which round to bf16, are as long and lead the same way."""
    for shape in shapes:
        for options in {}, {"momentum": 0.5, "nesterov": False, "weight_decay": 0.5, "lr": 0.1}:
            ours = torch.randn(shape).requires_grad_()
            theirs = ours.detach().clone().requires_grad_()
            optimizers = Muon([ours], **options), torch.optim.Muon([theirs], **options)
            start = ours.detach().clone()
            for _ in range(steps):
                ours.grad = torch.randn(shape)
                theirs.grad = ours.grad.clone()
                for optimizer in optimizers:
                    optimizer.step()
            away = (ours - theirs).norm() / (ours - start).norm()
            assert away < 0.02, f"{shape} {options}: {away} away from torch.optim.Muon"
