#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures of small transformers: weights, logits, greedy tokens and short trainings of transformers' GPT-2 and Llama
and of timm's ViT, with random weights.

tests/fixtures/networks/NAME.safetensors are the files that these packages write; tests/fixtures/networks.safetensors has
what they compute. Needs numpy, torch (CPU), transformers, timm and safetensors.
"""

import tempfile

import safetensors.torch
import timm
import torch
import torch.nn.functional as F
import transformers

from fixture_file import FIXTURES, write
from make_fixtures import Lars, Lion
from muon_reference import Muon

VOCABULARY, TOKENS, BATCHES, SAMPLES, STEPS = 131, 24, 4, 4, 20
PROMPT, GREEDY = 5, 12


def gpt2(attention):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=TOKENS, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        attn_implementation=attention))


def llama(attention):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5, max_position_embeddings=TOKENS, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, attn_implementation=attention))


def vit(attention):
    model = timm.models.VisionTransformer(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, num_classes=10)
    for block in model.blocks:
        block.attn.fused_attn = attention == "sdpa"
    return model


NETWORKS = {"gpt2": gpt2, "llama": llama, "vit": vit}


def muon(model):
    """The head's weight is the embedding's."""
    tables = [module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return Muon(model.parameters(), lr=0.01, others=tables, adamw={"lr_factor": 0.1})


# The recipes' settings are in tests/recipe/networks_test.cpp.
OPTIMIZERS = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=1e-3),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3, weight_decay=0.1),
    "rmsprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=1e-3),
    "lars": lambda m: Lars(m.parameters(), lr=0.5, momentum=0.9, trust=0.02),
    "lion": lambda m: Lion(m.parameters(), lr=3e-4, weight_decay=0.1),
    "muon": muon,
}
CURVES = [("gpt2", name) for name in OPTIMIZERS] + [("llama", "adamw"), ("vit", "adamw")]


@torch.no_grad()
def randomise(model):
    """Weights large enough for logits that differ from place to place."""
    for name, parameter in model.named_parameters():
        parameter.normal_(0, 0.2)
        if name.endswith("weight") and parameter.dim() == 1:
            parameter.add_(1)


def logits_of(model, inputs):
    found = model(inputs)
    return getattr(found, "logits", found)


def save(name, model):
    path = FIXTURES / "networks" / f"{name}.safetensors"
    if name == "vit":
        safetensors.torch.save_file(model.state_dict(), path)
        return
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        path.write_bytes((FIXTURES / folder / "model.safetensors").read_bytes())


def curve(name, weights, optimizer, inputs, labels, threads, attention):
    torch.set_num_threads(threads)
    model = NETWORKS[name](attention)
    model.load_state_dict(weights)
    model.train()
    optimizer = OPTIMIZERS[optimizer](model)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = logits_of(model, inputs[step % BATCHES])
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[step % BATCHES].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def main():
    out = {}
    (FIXTURES / "networks").mkdir(exist_ok=True)
    for number, (name, make) in enumerate(NETWORKS.items()):
        torch.manual_seed(20 + number)
        model = make("eager").eval()
        randomise(model)
        save(name, model)
        weights = {key: value.clone() for key, value in model.state_dict().items()}
        if name == "vit":
            inputs, labels = torch.randn(BATCHES, SAMPLES, 3, 32, 32), torch.randint(10, (BATCHES, SAMPLES))
        else:
            windows = torch.randint(VOCABULARY, (BATCHES, SAMPLES, TOKENS + 1))
            inputs, labels = windows[..., :-1], windows[..., 1:]
        out |= {f"{name}/inputs": inputs, f"{name}/labels": labels}
        double = make("eager").double().eval()
        double.load_state_dict(weights)
        with torch.no_grad():
            out[f"{name}/logits"] = logits_of(double, inputs[0].double() if name == "vit" else inputs[0])
        if name != "vit":
            prompt = inputs[0, :1, :PROMPT]
            found = double.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=GREEDY, do_sample=False,
                                    pad_token_id=0, eos_token_id=None)
            out[f"{name}/greedy"] = found[0]
            with torch.no_grad():
                best = logits_of(double, found)[0, PROMPT - 1:-1].topk(2).values
            assert (best[:, 0] - best[:, 1]).min() > 1e-3, "a tie: choose another seed"
        for network, optimizer in CURVES:
            if network != name:
                continue
            base, *others = [curve(name, weights, optimizer, inputs, labels, threads, attention)
                             for attention in ("eager", "sdpa") for threads in (1, 2)]
            spread = torch.stack([abs(other - base) for other in others]).amax(0)
            out |= {f"{name}.{optimizer}/losses": base, f"{name}.{optimizer}/spread": spread}
            print(name, optimizer, base[0].item(), base[-1].item(), "spread", spread.max().item())
    write("networks", out)


if __name__ == "__main__":
    main()
