#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/network_tensors.txt: names and shapes of what published networks hold.

Needs torchvision, transformers and timm. One line each: network, name, shape; batches that a norm has seen are left out, nothing
reads them, and so is a head that is the embedding's table.
"""

import pathlib

import timm
import torch
import torchvision
import transformers

TARGET = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "network_tensors.txt"


def llama_135m():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, tie_word_embeddings=True))


NETWORKS = {
    "resnet18": torchvision.models.resnet18,
    "resnet50": torchvision.models.resnet50,
    "mobilenet_v2": torchvision.models.mobilenet_v2,
    "vgg16": torchvision.models.vgg16,
    "densenet121": torchvision.models.densenet121,
    "mobilenet_v3_large": torchvision.models.mobilenet_v3_large,
    "efficientnet_b0": torchvision.models.efficientnet_b0,
    "convnext_tiny": torchvision.models.convnext_tiny,
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config()),
    "llama_135m": llama_135m,
    "vit_tiny": lambda: timm.create_model("vit_tiny_patch16_224"),
    "vit_b_16": lambda: timm.create_model("vit_base_patch16_224"),
}

lines = []
for network, make in NETWORKS.items():
    with torch.device("meta"):
        tensors = make().state_dict()
    for name, tensor in tensors.items():
        if not name.endswith(".num_batches_tracked") and name != "lm_head.weight":
            lines.append(f"{network} {name} {'x'.join(map(str, tensor.shape))}\n")
TARGET.write_text("".join(lines))
print(f"{TARGET.name}: {len(lines)} lines")
