#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of a comparison on a GPU: trains one of our networks on synthetic data, prints one JSON line.

channels_last, autocast with a gradient scaler in fp16, cudnn.benchmark, fused SGD; of GPT-2 fused AdamW and
scaled_dot_product_attention. Modes: eager; compile (torch.compile's
default); autotune (max-autotune); graph (the whole step captured as one CUDA graph).
"""
import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("network", choices=["resnet18", "resnet50", "gpt2"])
arguments.add_argument("--batch", type=int, required=True)
arguments.add_argument("--mode", choices=["eager", "compile", "autotune", "graph"], default="eager")
arguments.add_argument("--precision", choices=["fp32", "tf32", "amp_fp16", "amp_bf16"], default="amp_fp16")
arguments.add_argument("--steps", type=int, default=100, help="steps of one window")
arguments.add_argument("--windows", type=int, default=5)
options = arguments.parse_args()

import torch  # noqa: E402  (so that --help needs none)

from peer_networks import NETWORKS  # noqa: E402

torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
torch.manual_seed(0)
make_model, shape, classes = NETWORKS[options.network]
model = make_model().cuda()
if len(shape) == 3:
    model = model.to(memory_format=torch.channels_last)
run_model = model
if options.mode in ("compile", "autotune"):
    run_model = torch.compile(model, mode="max-autotune-no-cudagraphs" if options.mode == "autotune" else "default")
if len(shape) == 1:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=True, capturable=True)
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
low = {"amp_fp16": torch.float16, "amp_bf16": torch.bfloat16}.get(options.precision)
scaler = torch.amp.GradScaler("cuda", enabled=low is torch.float16)
if len(shape) == 1:
    images, labels = torch.randint(classes, (2, options.batch, *shape), device="cuda")
else:
    images = torch.randn(options.batch, *shape, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(classes, (options.batch,), device="cuda")


def loss_of(logits):
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=low or torch.float16, enabled=low is not None):
        loss = loss_of(run_model(images))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


def captured(body):
    """The step as a CUDA graph; the scaler's decision waits for the host, so the scale is fixed in it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            body()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph.replay


def step_with_fixed_scale():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=low or torch.float16, enabled=low is not None):
        loss = loss_of(model(images))
    (loss * 1024).backward()
    optimizer.step()


run = captured(step_with_fixed_scale) if options.mode == "graph" else step
for _ in range(30):
    run()
torch.cuda.synchronize()
windows, host = [], []
for _ in range(options.windows):
    began = time.perf_counter()
    for _ in range(options.steps):
        run()
    host.append((time.perf_counter() - began) / options.steps * 1e3)
    torch.cuda.synchronize()
    windows.append((time.perf_counter() - began) / options.steps * 1e3)
print(json.dumps({"version": torch.__version__, "network": options.network, "mode": options.mode,
                  "precision": options.precision, "batch": options.batch, "ms_per_step": windows, "host_ms": host,
                  "reserved_bytes": torch.cuda.max_memory_reserved()}))
