#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the GPT of configs/gpt_char_bible.yaml with this program and with PyTorch, from the same weights, on the same batches,
and prints the bits per byte that both reach on the last tenth of the text.

Needs data/bible.txt (see the recipe) and a PyTorch of scripts/setup.sh --bench, in which it runs itself. Both sides use AdamW,
the recipe's schedule and clipping; the rates are those that our run records. A seed takes an hour on two cores. Both sides
save regularly: started again, the script continues from there.
"""
import argparse
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, ROOT + "/scripts/fixtures"]
from sides import Peer  # noqa: E402

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--steps", type=int, default=2000)
arguments.add_argument("--batch", type=int, default=16)
arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--peer", default="debian", help="debian (tuned), newest, or a Python with torch")
arguments.add_argument("--text", default=ROOT + "/data/bible.txt")
arguments.add_argument("--trainer", default=ROOT + "/build/release/bin/trainer")
arguments.add_argument("--folder", default=ROOT + "/build/bits_per_byte", help="for runs and results")
options = arguments.parse_args()
BEFORE = "BITS_PER_BYTE_BEFORE"  # the environment that the script was started in, for our side
if BEFORE not in os.environ:
    peer = Peer(options.peer)
    variables = {**peer.environment, "OMP_NUM_THREADS": str(options.threads), "OPENBLAS_NUM_THREADS": str(options.threads)}
    os.execve(peer.python, [peer.python, *sys.argv], {**variables, BEFORE: json.dumps(dict(os.environ))})

import numpy  # noqa: E402
import torch  # noqa: E402

import fixture_file  # noqa: E402
from order import windows_of  # noqa: E402
from peer_networks import NETWORKS  # noqa: E402

TOKENS = 256


def windows(tokens, seed, step):
    """A batch as our program makes it of the training part: core/data/tokens/windows.cpp."""
    begins = windows_of(seed, len(tokens), TOKENS, options.batch, step)
    return torch.tensor(numpy.stack([tokens[begin:begin + TOKENS + 1] for begin in begins]).astype("int64"))


def network(seed):
    """PyTorch's side, initialised as GPT-2 is."""
    torch.manual_seed(seed)
    model = NETWORKS["gpt_char"][0]()
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            narrow = name.endswith(("proj.weight", "mlp.2.weight"))
            torch.nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * len(model.blocks)) if narrow else 0.02)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    return model


def exported(model):
    """Its parameters under the names of ours, linear layers' stored (in, out)."""
    names = {"norm1": "ln_1", "norm2": "ln_2", "qkv": "attn.c_attn", "proj": "attn.c_proj", "mlp.0": "mlp.c_fc", "mlp.2": "mlp.c_proj"}
    yield "transformer.wte.weight", model.tokens.weight
    yield "transformer.wpe.weight", model.places.weight
    for name, parameter in model.norm.named_parameters():
        yield "transformer.ln_f." + name, parameter
    for i, block in enumerate(model.blocks):
        for layer, other in names.items():
            for name, parameter in block.get_submodule(layer).named_parameters():
                yield f"transformer.h.{i}.{other}.{name}", parameter.T if parameter.dim() > 1 else parameter


def ours(seed, folder):
    words = [options.trainer, "--config", ROOT + "/configs/gpt_char_bible.yaml", f"run.output_dir={folder}/run", f"run.seed={seed}",
             f"data.train={options.text}", f"training.max_duration={options.steps}ba",
             f"training.global_batch_size={options.batch}", f"model.initial_weights={folder}/model.safetensors",
             "logging.interval=1ba", "validation.interval=0ep", "checkpoint.interval=3min", "device.type=cpu",
             f"device.threads={options.threads}"]
    done = subprocess.run(words, capture_output=True, text=True, env=json.loads(os.environ[BEFORE]))
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in open(folder + "/run/metrics.jsonl")]
    steps = {line["step"]: line for line in lines if line["split"] == "train"}
    steps = [steps[step] for step in sorted(steps)]
    found = [line["bits_per_byte"] for line in lines if line["split"] == "validation"][-1]
    return found, [line["lr"] for line in steps], [line["loss"] for line in steps]


def bits_per_byte(model, held_out):
    total, count = 0.0, (len(held_out) - 1) // TOKENS
    with torch.no_grad():
        for begin in range(0, count, 16):
            rows = range(begin, min(begin + 16, count))
            batch = torch.tensor(numpy.stack([held_out[i * TOKENS:i * TOKENS + TOKENS + 1] for i in rows]).astype("int64"))
            total += loss_of(model, batch, reduction="sum").item()
    return total / (count * TOKENS) / math.log(2)


def loss_of(model, batch, reduction="mean"):
    return torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten(), reduction=reduction)


def theirs(model, train, held_out, seed, rates, folder):
    torch.set_num_threads(options.threads)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    one_loop = {"fused": True} if int(torch.__version__.split(".")[0]) >= 2 else {"foreach": True}
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}], lr=1e-3,
                                  betas=(0.9, 0.95), **one_loop)
    saved, losses = folder + "/peer.pt", []
    if os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    for step in range(len(losses), options.steps):
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, windows(train, seed, step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if len(losses) % 100 == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, saved + ".new")
            os.replace(saved + ".new", saved)
    return bits_per_byte(model, held_out), losses


def main():
    text = numpy.frombuffer(open(options.text, "rb").read(), dtype=numpy.uint8)
    border = len(text) - round(len(text) / 10)
    for seed in options.seeds:
        model, folder = network(seed), f"{options.folder}/{options.steps}x{options.batch}-seed{seed}"
        os.makedirs(folder, exist_ok=True)
        fixture_file.save(folder + "/model.safetensors", dict(exported(model)))
        us, rates, our_losses = ours(seed, folder)
        them, their_losses = theirs(model, text[:border], text[border:], seed, rates, folder)
        late = [sum(losses[-100:]) / len(losses[-100:]) for losses in (our_losses, their_losses)]
        early = max(abs(a - b) for a, b in zip(our_losses[:20], their_losses[:20]))
        print(f"seed {seed}, {options.steps} steps of {options.batch}: bits per byte ours {us:.4f}, PyTorch {them:.4f}, difference "
              f"{us - them:+.4f}; losses of the first 20 steps within {early:.1e}, mean of the last 100 {late[0]:.4f} and {late[1]:.4f}",
              flush=True)


if __name__ == "__main__":
    main()
