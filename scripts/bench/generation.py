#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Greedy generation by GPT-2 124M with random weights: this program beside transformers, turn about.

Both continue a prompt of 64 tokens by few and by many tokens; the difference of the two times is that of the tokens between.
Needs a Python with torch and transformers, in which it runs itself.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from windows import spread, timed, until_clean

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--turns", type=int, default=5)
arguments.add_argument("--threads", type=int, default=2)
arguments.add_argument("--tokens", type=int, nargs=2, default=[32, 288])
arguments.add_argument("--samples", type=int, default=1)
arguments.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
arguments.add_argument("--trainer", default=ROOT + "/build/release/bin/trainer")
arguments.add_argument("--peer", metavar="FOLDER", help=argparse.SUPPRESS)
options = arguments.parse_args()
PROMPT = "In the beginning God created the heaven and the earth. And the e"


def network():
    import torch
    import transformers
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=None, eos_token_id=None))


def peer():
    import torch
    model = network().eval()
    if options.precision == "bf16":
        model = model.bfloat16()
    prompt = torch.tensor([list(PROMPT.encode())] * options.samples)
    seconds = []
    with torch.no_grad():
        for tokens in (4, *options.tokens):
            began = time.perf_counter()
            model.generate(prompt, attention_mask=torch.ones_like(prompt), min_new_tokens=tokens, max_new_tokens=tokens,
                           do_sample=False, pad_token_id=0)
            seconds.append(time.perf_counter() - began)
    print((seconds[2] - seconds[1]) / (options.tokens[1] - options.tokens[0]) * 1e3)


def ours(weights):
    def once(tokens):
        command = [options.trainer, "generate", "--config", f"{ROOT}/configs/gpt2_tokens.yaml", f"run.resume={weights}",
                   "data.tokenizer=bytes", f"device.threads={options.threads}", "--prompt", PROMPT, "--tokens", str(tokens),
                   "--temperature", "0", "--samples", str(options.samples), "--json", "device.type=cpu",
                   f"training.precision={'amp_bf16' if options.precision == 'bf16' else 'fp32'}"]
        began = time.perf_counter()
        _, foreign = timed(command, os.environ)
        return time.perf_counter() - began, foreign

    few, many = once(options.tokens[0]), once(options.tokens[1])
    return (many[0] - few[0]) / (options.tokens[1] - options.tokens[0]) * 1e3, max(few[1], many[1])


def theirs():
    command = [sys.executable, __file__, "--peer", "-", "--precision", options.precision, "--threads", str(options.threads),
               "--samples", str(options.samples), "--tokens", *map(str, options.tokens)]
    output, foreign = timed(command, os.environ)
    return float(output.strip().splitlines()[-1]), foreign


def main():
    if options.peer:
        return peer()
    with tempfile.TemporaryDirectory() as folder:
        network().save_pretrained(folder)
        rows = []
        for number in range(1, options.turns + 1):
            rows.append((until_clean(lambda: ours(folder + "/model.safetensors")), until_clean(theirs)))
            print(f"turn {number}: ours {rows[-1][0]:.2f} ms a token, transformers {rows[-1][1]:.2f}", flush=True)
    print(f"generation, {options.precision}, {options.samples} samples, {options.threads} threads, {len(rows)} turns: times as fast: "
          f"{spread([them / us for us, them in rows])}; ms a token: ours {statistics.median(us for us, _ in rows):.2f}, transformers "
          f"{statistics.median(them for _, them in rows):.2f}")


if __name__ == "__main__":
    main()
