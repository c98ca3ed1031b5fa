# SPDX-License-Identifier: Apache-2.0
"""Trainings that several rows share, and their comparisons."""

from evidence import same_files

SYNTHETIC = "data={format: synthetic}"
# Without transforms that need images of a fixed size.
SHIPPED = {"fashion_mnist_mlp": (), "fashion_mnist_cnn": (), "mlp_amp": (), "unet_synthetic": (), "fashion_mnist_autoencoder": (), "resnet18_cifar10": (),
           "mobilenet_v2_imagenet": (), "resnet50_imagenet": (), "gpt_char_bible": (), "vit_tiny_imagenet": ()}
LARGE = ("resnet50_imagenet", SYNTHETIC, "training.precision=amp_fp16", "training.global_batch_size=256",
         "training.micro_batch_size=256", "validation.interval=0ep")


def steps(count, batch, *words):
    return (SYNTHETIC, f"training.max_duration={count}ba", f"training.global_batch_size={batch}", "lr_scheduler=constant",
            "training.micro_batch_size=null", "logging.interval=1ba", "validation.interval=0ep", *words)


def twice(check, name, first, second, recipe, *words):
    """Two runs that must have equal bits; returns both."""
    runs = [check.train(f"{name}_{turn}", recipe, *words, *more) for turn, more in enumerate((first, second))]
    same_files(runs[0].weights(), runs[1].weights())
    return runs


def speed(run):
    """Samples per second, the median of the logged windows after the first."""
    rates = sorted(line["samples_per_s"] for line in run.metrics()[1:])
    return rates[len(rates) // 2]


def ratio_of(check, name, first, second, *common):
    """Speed with `first` over that with `second`, three turns about."""
    ratios = []
    for turn in range(3):
        runs = [check.train(f"{name}_{side}", *common, *words) for side, words in enumerate((first, second))]
        ratios.append(speed(runs[0]) / speed(runs[1]))
    ratios.sort()
    return f"{ratios[1]:.3f} times as fast ({ratios[0]:.3f} to {ratios[2]:.3f})"


def distance(found, expected):
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(found, expected, strict=True))
