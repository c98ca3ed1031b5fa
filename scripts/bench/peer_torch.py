#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of a comparison: trains one of our networks and prints one JSON line.

A step is: take the next batch, zero gradients, forward, cross entropy, backward, SGD with momentum (transformers: AdamW). The
images are normalised once beforehand and kept in memory, which costs PyTorch less than our pipeline costs us. Two warm-up
windows are not counted. Under torchrun its processes share each batch (DistributedDataParallel over Gloo), and the first one prints.
"""
import argparse
import gzip
import json
import os
import resource
import time

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("network", choices=["mlp", "lenet", "resnet18", "resnet50", "mobilenet_v2", "gpt_char", "vit_tiny"])
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--batch", type=int, default=128)
arguments.add_argument("--steps", type=int, default=50, help="steps of one window")
arguments.add_argument("--windows", type=int, default=6)
arguments.add_argument("--layout", choices=["nchw", "nhwc"], default="nchw")
arguments.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="bf16: under autocast")
arguments.add_argument("--compile", action="store_true", help="by torch.compile")
arguments.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="a directory, or synthetic")
options = arguments.parse_args()
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)


def seconds_since_process_start():
    """Since exec, from the kernel's own record (10 ms resolution)."""
    started = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


import torch  # noqa: E402  (reads the environment)
from torch import nn  # noqa: E402

from peer_networks import NETWORKS  # noqa: E402

torch.set_num_threads(options.threads)
torch.manual_seed(0)
ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
options.batch //= ranks
if ranks > 1:
    torch.distributed.init_process_group("gloo")


def read_idx(name, header):
    data = gzip.open(os.path.join(options.data, name)).read()
    return torch.frombuffer(bytearray(data[header:]), dtype=torch.uint8)


make_model, shape, classes = NETWORKS[options.network]
model = make_model()
if options.network in ("gpt_char", "vit_tiny"):
    # One loop for a whole step, if this PyTorch supports it.
    fused = {"fused": True} if int(torch.__version__.split(".")[0]) >= 2 else {"foreach": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, **fused)
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
loss_of = nn.CrossEntropyLoss()
if len(shape) == 1:
    images = torch.randint(classes, (options.batch, *shape))
    labels = torch.randint(classes, (options.batch, *shape))
elif options.data == "synthetic":
    images, labels = torch.randn(options.batch, *shape), torch.randint(classes, (options.batch,))
else:
    images = read_idx("train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).float()
    images.div_(255).sub_(0.286).div_(0.353)
    labels = read_idx("train-labels-idx1-ubyte.gz", 8).long()
if options.layout == "nhwc":
    model = model.to(memory_format=torch.channels_last)
    images = images.contiguous(memory_format=torch.channels_last)
compute = nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
if options.compile:
    import torch._inductor.config
    if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        torch._inductor.config.cpp.simdlen = 256
    compute = torch.compile(compute)
position = 0


def step():
    global position
    if position + options.batch > len(images):
        position = 0
    x, y = images[position:position + options.batch], labels[position:position + options.batch]
    position += options.batch
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "bf16"):
        logits = compute(x)
    loss = loss_of(logits.float().flatten(0, -2), y.flatten())
    loss.backward()
    optimizer.step()
    return loss


first_loss = float(step())
first_step_s = seconds_since_process_start()
windows = []
for window in range(options.windows + 2):
    began = time.perf_counter()
    for _ in range(options.steps):
        loss = step()
    float(loss)
    windows.append((time.perf_counter() - began) / options.steps * 1e3)
if rank == 0:
    print(json.dumps({
        "version": torch.__version__, "network": options.network, "layout": options.layout, "compiled": options.compile,
        "ms_per_step": windows[2:], "data": options.data, "first_step_s": first_step_s,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))
if ranks > 1:
    torch.distributed.destroy_process_group()
