#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the logits of imported weights with PyTorch's.

Networks of torchvision and timm get random weights, which torch.save writes in both of its forms. `trainer import` converts
them, and `trainer predict` reads them: logits must be within 1e-4 of PyTorch's. Needs torch, torchvision and timm.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import timm
import torch
import torchvision

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUND = 1e-4
IMAGES, SIDE = 3, 224

# torchvision's vision transformer has the layers of timm's with other names; see docs/fine-tuning.md.
VIT_RENAMES = [
    "class_token=cls_token",
    "conv_proj.=patch_embed.proj.",
    "encoder.pos_embedding=pos_embed",
    "encoder.layers.encoder_layer_*.ln_1.=blocks.*.norm1.",
    "encoder.layers.encoder_layer_*.self_attention.in_proj_weight=blocks.*.attn.qkv.weight",
    "encoder.layers.encoder_layer_*.self_attention.in_proj_bias=blocks.*.attn.qkv.bias",
    "encoder.layers.encoder_layer_*.self_attention.out_proj.=blocks.*.attn.proj.",
    "encoder.layers.encoder_layer_*.ln_2.=blocks.*.norm2.",
    "encoder.layers.encoder_layer_*.mlp.0.=blocks.*.mlp.fc1.",
    "encoder.layers.encoder_layer_*.mlp.3.=blocks.*.mlp.fc2.",
    "encoder.ln.=norm.",
    "heads.head.=head.",
]

# Name; the network of configs/models; PyTorch's network; renames.
NETWORKS = [
    ("torchvision resnet18", "resnet18", torchvision.models.resnet18, []),
    ("torchvision mobilenet_v2", "mobilenet_v2", torchvision.models.mobilenet_v2, []),
    ("torchvision vit_b_16", "vit_b_16", torchvision.models.vit_b_16, VIT_RENAMES),
    ("timm vit_tiny_patch16_224", "vit_tiny", lambda: timm.create_model("vit_tiny_patch16_224"), []),
]

# With this loss `predict --all` prints the sigmoid of each logit, which gives the logit itself.
RECIPE = """version: 1
model: {{network: {network}}}
data:
  format: synthetic
  eval_transform:
    - normalize: {{mean: [0.5], std: [0.25]}}
loss: {{name: binary_cross_entropy}}
training: {{max_duration: 1ep, global_batch_size: 4}}
validation: {{metrics: []}}
"""


def randomize(model, images):
    """First weights hide mistakes: factors are 1, statistics and biases 0, and so is the head of a transformer.

    The head, which is last, is scaled to logits of at most 4: of larger ones the sigmoid says less.
    """
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            continue
        if name.endswith("running_var") or (tensor.dim() == 1 and name.endswith("weight")):
            tensor.uniform_(0.5, 1.5)
        elif tensor.dim() == 1:
            tensor.uniform_(-0.1, 0.1)
        elif not tensor.any():
            tensor.normal_(0, 0.02)
    scale = 4 / model.eval()(images).abs().max()
    for tensor in list(model.state_dict().values())[-2:]:
        tensor.mul_(scale)
    return model


def write_images(folder):
    """Noise as PNG files; returns the numbers that the networks read."""
    pixels = torch.randint(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8)
    files = []
    for i, image in enumerate(pixels):
        files.append(f"{i}.png")
        torchvision.io.write_png(image, str(folder / files[-1]))
    return files, (pixels.float() / 255 - 0.5) / 0.25


def call(trainer, folder, *words):
    done = subprocess.run([trainer, *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"trainer {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def logits_of(trainer, folder, network, weights, files):
    (folder / "r.yaml").write_text(RECIPE.format(network=network))
    lines = call(trainer, folder, "predict", "--config", "r.yaml", "--weights", weights, "--all", *files).splitlines()
    rows = [json.loads(line)["probabilities"] for line in lines]
    return torch.tensor([[math.log(p / (1 - p)) for p in row] for row in rows], dtype=torch.float64)


def check(trainer, folder, row, files, images):
    """The largest difference over both forms of files."""
    name, network, make, renames = row
    model = randomize(make(), images)
    wanted = model(images).double()
    words = [word for rename in renames for word in ("--rename", rename)]
    worst = 0.0
    for form, is_zip in (("zip", True), ("older", False)):
        torch.save(model.state_dict(), folder / "w.pth", _use_new_zipfile_serialization=is_zip)
        call(trainer, folder, "import", "w.pth", "--out", "w.safetensors", *words)
        found = logits_of(trainer, folder, network, "w.safetensors", files)
        difference = (found - wanted).abs().max().item()
        print(f"{name:26} {form:6} largest difference {difference:.2e}, of logits to {wanted.abs().max().item():.2f}",
              flush=True)
        worst = max(worst, difference)
    return worst


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=ROOT / "build/release/bin/trainer", type=pathlib.Path)
    parser.add_argument("--seed", default=1, type=int)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        files, images = write_images(folder)
        worst = max(check(arguments.trainer.resolve(), folder, row, files, images) for row in NETWORKS)
    if not worst <= BOUND:
        sys.exit(f"check: a logit differs by {worst:.2e}, more than {BOUND}")


if __name__ == "__main__":
    main()
