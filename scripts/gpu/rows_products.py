# SPDX-License-Identifier: Apache-2.0
"""Rows of docs/gpu-evidence.tsv: work of cuBLASLt's products besides multiplying, and sums of many parts."""
import json

from evidence import Failed, row
from trainings import LARGE, SYNTHETIC, distance, ratio_of, steps


@row("products", 8)
def gelus(check):
    return check.cases("gelus", "gelu_tanh in the kernel of a product*")


@row("products", 60)
def gelus_speed(check):
    return ratio_of(check, "gelus", (), ("--disable-pass", "fuse_gelu"), "gpt2_tokens", SYNTHETIC, "training.precision=amp_bf16",
                    "training.global_batch_size=16", "training.micro_batch_size=16", "training.max_duration=20ba",
                    "logging.interval=5ba", "validation.interval=0ep")


@row("products", 8)
def product_sums(check):
    return check.cases("product_sums", "gradients of weights and of features are added to sums*")


@row("products", 60)
def product_sums_speed(check):
    return ratio_of(check, "product_sums", (), ("--disable-pass", "fuse_product_sum"), "gpt2_tokens", SYNTHETIC,
                    "training.precision=amp_bf16", "training.global_batch_size=48", "training.micro_batch_size=12",
                    "training.max_duration=10ba", "logging.interval=2ba", "validation.interval=0ep")


@row("products", 8)
def relu_masks(check):
    return check.cases("relu_masks", "a relu with its mask in the kernel of a product*")


@row("products", 15)
def gram(check):
    return check.cases("gram", "normalisations within products*,a variance by a Gram matrix has ten bits where the mean*,"
                               "small gradients in f16*,a value that is not a number reaches*")


@row("products", 15)
def gram_rows(check):
    return check.cases("gram_rows", "a variance by a Gram matrix has ten bits where it sums up*")


@row("products", 30)
def long_sums(check):
    """Products of few results with a bias's gradient over many rows, which are timed without runtime.autotune too."""
    check.forget()
    run = check.train("long_sums", *LARGE, "training.max_duration=20ba", "logging.interval=10ba")
    kept = json.loads((run.directory / "algorithms.json").read_text())
    chosen = [text for key, text in kept.items() if key.startswith("timed always")]
    apart = [text for text in chosen if " sum_" not in text]
    split = [text for text in apart if int(text.split(" by a")[1].split(",")[3]) > 1]
    return f"of {len(chosen)} products {len(apart)} with sums of our own kernel, {len(split)} of these split"


@row("products", 60)
def gram_speed(check):
    return ratio_of(check, "gram", (), ("--disable-pass", "gram_batch_norm"), *LARGE, "training.max_duration=60ba", "logging.interval=20ba")


@row("products", 60)
def gram_losses(check):
    """A control shows the effect of rounding: moments from a pass of their own."""
    told = []
    for precision in ("amp_fp16", "amp_bf16"):
        words = steps(20, 128, f"training.precision={precision}")
        with_it, without, measured = (check.train(f"gram_{side}", "resnet50_imagenet", *words, *more).losses() for side, more in enumerate(
            ((), ("--disable-pass", "gram_batch_norm"), ("--disable-pass", "gram_batch_norm", "--disable-pass", "fuse_moments"))))
        found, control = distance(with_it, without), distance(measured, without)
        told.append(f"{precision} {found:.1e}, by other moments {control:.1e}")
        if found > 4 * control:
            raise Failed("largest relative difference of 20 losses: " + ", ".join(told))
    return "largest relative difference of 20 losses: " + ", ".join(told)


@row("products", 8)
def large_norm(check):
    return check.cases("large_norm", "the norm of 20 million gradients is right")
