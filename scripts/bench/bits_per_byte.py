#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the GPT of configs/gpt_char_bible.yaml with this program and with PyTorch, from the same weights, on the same batches,
and prints the bits per byte that both reach on the last tenth of the text.

Needs a Python with torch and transformers, in which it runs itself, and data/bible.txt (see the recipe). Both sides use
AdamW, the recipe's schedule and clipping; the rates are those that our run writes down.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import transformers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--steps", type=int, default=2000)
arguments.add_argument("--batch", type=int, default=16)
arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--text", default=ROOT + "/data/bible.txt")
arguments.add_argument("--trainer", default=ROOT + "/build/release/bin/trainer")
options = arguments.parse_args()
TOKENS, MASK = 256, 0xFFFFFFFF


def random_key(seed, name):
    value = 0xCBF29CE484222325
    for byte in seed.to_bytes(8, "little") + name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def philox(key, counter):
    """The first word of Philox4x32-10."""
    c, key0, key1 = list(counter), key & MASK, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ key0, b & MASK, a >> 32 ^ c[3] ^ key1, a & MASK]
        key0, key1 = key0 + 0x9E3779B9 & MASK, key1 + 0xBB67AE85 & MASK
    return c[0]


def shuffled(seed, epoch, index, size):
    """core/data/order.cpp."""
    key, bits = random_key(seed, "shuffle"), (size - 1).bit_length()
    low_bits, value = bits // 2, index
    while True:
        low, high = value & (1 << low_bits) - 1, value >> low_bits
        for turn in range(16 if bits < 10 else 6):
            mixed = philox(key, (low if turn % 2 == 0 else high, turn, epoch, 0))
            if turn % 2 == 0:
                high ^= mixed & (1 << bits - low_bits) - 1
            else:
                low ^= mixed & (1 << low_bits) - 1
        value = high << low_bits | low
        if value < size:
            return value


def windows(tokens, seed, step):
    """A batch as our program makes it of the training part: core/data/tokens/windows.cpp."""
    size = max(1, (len(tokens) - TOKENS) // TOKENS)
    epoch, first = divmod(step, size // options.batch)
    most = min(len(tokens) - 1 - size * TOKENS, TOKENS - 1)
    shift = philox(random_key(seed, "window shift"), (0, 0, epoch, 0)) * (most + 1) >> 32 if most > 0 else 0
    begins = [shift + shuffled(seed, epoch, first * options.batch + i, size) * TOKENS for i in range(options.batch)]
    return torch.tensor(numpy.stack([tokens[begin:begin + TOKENS + 1] for begin in begins]).astype("int64"))


def network(seed):
    torch.manual_seed(seed)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=TOKENS, n_embd=384, n_layer=6, n_head=6, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=None, eos_token_id=None))


def ours(seed, folder):
    words = [options.trainer, "--config", ROOT + "/configs/gpt_char_bible.yaml", f"run.output_dir={folder}/run", f"run.seed={seed}",
             f"data.train={options.text}", f"training.max_duration={options.steps}ba",
             f"training.global_batch_size={options.batch}", f"model.initial_weights={folder}/model.safetensors",
             "logging.interval=1ba", "validation.interval=0ep", "device.type=cpu", f"device.threads={options.threads}"]
    began = time.time()
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in open(folder + "/run/metrics.jsonl")]
    rates = [line["lr"] for line in lines if line["split"] == "train"]
    losses = [line["loss"] for line in lines if line["split"] == "train"]
    found = [line["bits_per_byte"] for line in lines if line["split"] == "validation"][-1]
    return found, rates, losses, time.time() - began


def theirs(model, train, held_out, seed, rates):
    torch.set_num_threads(options.threads)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}], lr=1e-3,
                                  betas=(0.9, 0.95), fused=True)
    losses, began = [], time.time()
    for step in range(options.steps):
        batch = windows(train, seed, step)
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
        optimizer.zero_grad(set_to_none=True)
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    total, count = 0.0, (len(held_out) - 1) // TOKENS
    with torch.no_grad():
        for begin in range(0, count, 16):
            rows = range(begin, min(begin + 16, count))
            batch = torch.tensor(numpy.stack([held_out[i * TOKENS:i * TOKENS + TOKENS + 1] for i in rows]).astype("int64"))
            logits = model(batch[:, :-1]).logits
            total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum").item()
    return total / (count * TOKENS) / math.log(2), losses, time.time() - began


def main():
    text = numpy.frombuffer(open(options.text, "rb").read(), dtype=numpy.uint8)
    border = len(text) - round(len(text) / 10)
    for seed in options.seeds:
        model = network(seed)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            us, rates, our_losses, our_seconds = ours(seed, folder)
        them, their_losses, their_seconds = theirs(model, text[:border], text[border:], seed, rates)
        late = [sum(losses[-100:]) / len(losses[-100:]) for losses in (our_losses, their_losses)]
        early = max(abs(a - b) for a, b in zip(our_losses[:20], their_losses[:20]))
        print(f"seed {seed}, {options.steps} steps of {options.batch}: bits per byte ours {us:.4f}, PyTorch {them:.4f}, difference "
              f"{us - them:+.4f}; losses of the first 20 steps within {early:.1e}, mean of the last 100 {late[0]:.4f} and {late[1]:.4f}; "
              f"{our_seconds:.0f} s, {their_seconds:.0f} s",
              flush=True)


if __name__ == "__main__":
    main()
