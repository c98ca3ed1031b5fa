#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of tests/bench/attention.cpp: times scaled_dot_product_attention on the CPU, forward and backward.

Queries, keys and values are views of rows (N, T, heads * size), as linear layers give them.
"""
import argparse
import os
import time

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--seconds", type=float, default=1, help="for each shape and direction")
arguments.add_argument("--full", action="store_true", help="no causal mask")
arguments.add_argument("shapes", nargs="*", help="SAMPLESxHEADSxKV_HEADSxSIZExQUERIESxKEYS")
options = arguments.parse_args()
os.environ["OMP_NUM_THREADS"] = str(options.threads)

import torch  # noqa: E402  (reads the environment)
import torch.nn.functional as F  # noqa: E402

SHAPES = ["16x6x6x64x256x256", "8x6x6x64x512x512", "2x6x6x64x2048x2048", "1x6x6x64x8192x8192", "1x12x12x64x1x1024",
          "1x12x4x64x1x8192"]


def now():
    """Seconds: with one thread those of the processor, which neighbours do not lengthen."""
    return time.process_time() if options.threads == 1 else time.perf_counter()


def shortest(run):
    best, total, runs = 1e30, 0.0, 0
    while runs < 3 or (total < options.seconds and runs < 1000):
        before = now()
        run()
        spent = now() - before
        best, total, runs = min(best, spent), total + spent, runs + 1
    return best * 1e3


def heads_of(samples, length, heads, size):
    return torch.randn(samples, length, heads * size).requires_grad_(True)


torch.set_num_threads(options.threads)
print(torch.__version__, torch.get_num_threads(), "threads")
for shape in options.shapes or SHAPES:
    samples, heads, kv_heads, size, queries, keys = map(int, shape.split("x"))
    leaves = [heads_of(samples, length, n, size)
              for length, n in ((queries, heads), (keys, kv_heads), (keys, kv_heads))]
    causal = not options.full and queries == keys

    def forward():
        q, k, v = (x.unflatten(2, (-1, size)).transpose(1, 2) for x in leaves)
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)

    y = forward()
    dy = torch.randn_like(y)
    there = shortest(forward)
    back = shortest(lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True))
    print(f"{shape:>22} {there:9.3f} ms {back:9.3f} ms", flush=True)
