# SPDX-License-Identifier: Apache-2.0
"""Small recipes, since what counts is how their runs are disturbed, and images that they train on."""
import re
import struct
import zlib
from pathlib import Path

MODELS = Path(__file__).resolve().parents[2] / 'configs/models'
RECIPES = {'small': '''version: 1
run: {name: small, seed: 3, output_dir: run}
model:
  input: [2, 8, 8]
  layers: [conv2d: {out_channels: 4, kernel_size: 3}, relu, flatten, linear: 5]
data: {format: synthetic, workers: 1, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 24ba, global_batch_size: 64}
optimizer: {name: adamw, lr: 0.01}
validation: {interval: 12ba}
logging: {interval: 3ba}
checkpoint: {interval: 5ba}
device: {type: cpu, threads: 2}
''', 'mlp': '''version: 1
run: {name: mlp, seed: 3, output_dir: run}
device: {type: cpu}
model:
  input: [1, 8, 8]
  layers: [flatten, linear: 16, relu, linear: 5]
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 40ba, global_batch_size: 64}
optimizer: {name: adamw, lr: 0.01}
validation: {interval: 7ba, metrics: [top1]}
logging: {interval: 3ba}
checkpoint: {interval: 5ba, keep_best: top1}
''', 'cnn': '''version: 1
run: {name: cnn, seed: 3, output_dir: run}
device: {type: cpu}
model:
  input: [1, 16, 16]
  layers:
    - conv2d: {out_channels: 8, kernel_size: 3, padding: 1}
    - batch_norm
    - relu
    - max_pool2d: 2
    - conv2d: {out_channels: 16, kernel_size: 3, padding: 1}
    - relu
    - flatten
    - dropout: 0.3
    - linear: 5
data:
  format: synthetic
  synthetic: {train_samples: 1000, val_samples: 900}
  drop_last: false
  shuffle: {name: blocks, block: 24, window: 4}
  augment: [random_crop: {size: 16, padding: 2}, horizontal_flip]
  workers: 2
training: {max_duration: 2ep, global_batch_size: 48}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9, clip_norm: 5.0}
lr_scheduler: {name: cosine, warmup: 7ba}
validation: {interval: 10ba, metrics: [top1]}
logging: {interval: 1ba}
checkpoint: {interval: 4ba}
''', 'gpt': '''version: 1
run: {name: gpt, seed: 3, output_dir: run}
device: {type: cpu}
model:
  input: [13]
  input_kind: tokens
  layers:
    - embedding: {name: wte, vocab_size: 53, features: 24, init: normal, init_std: 0.02}
    - positions: {name: wpe, max_positions: 13, init: normal, init_std: 0.01}
    - dropout: {name: d0, p: 0.1}
    - layer_norm: {name: ln_1}
    - linear: {name: qkv, out_features: 72, transposed: true, init: normal, init_std: 0.05}
    - attention: {heads: 4, causal: true, dropout: 0.1}
    - linear: {name: proj, out_features: 24, init: normal, init_std: 0.05}
    - dropout: {name: d1, p: 0.1}
    - add: {name: res_1, inputs: [d0, d1]}
    - layer_norm: {name: ln_2}
    - linear: {name: fc, out_features: 96, init: normal, init_std: 0.05}
    - gelu_tanh
    - dropout: {name: d2, p: 0.1}
    - linear: {name: out, out_features: 24, init: normal, init_std: 0.05}
    - add: {inputs: [res_1, out]}
    - layer_norm: {name: ln_f}
    - linear: {name: head, out_features: 53, bias: false, weight_of: wte}
data: {format: synthetic, synthetic: {train_samples: 320, val_samples: 37}}
training: {max_duration: 50ba, global_batch_size: 8, micro_batch_size: 2}
loss: {name: cross_entropy, label_smoothing: 0.1}
optimizer: {name: adamw, lr: 0.003}
validation: {interval: 20ba, metrics: [perplexity]}
logging: {interval: 3ba}
checkpoint: {interval: 5ba}
''', 'llama': '''version: 1
run: {name: llama, seed: 3, output_dir: run}
device: {type: cpu}
model:
  input: [11]
  input_kind: tokens
  layers:
    - embedding: {name: wte, vocab_size: 51, features: 24, init: normal, init_std: 0.02}
    - rms_norm: {name: n_1}
    - linear: {name: q, out_features: 48, bias: false}
    - rotary: {name: queries, heads: 8}
    - linear: {name: k, inputs: [n_1], out_features: 24, bias: false}
    - rotary: {name: keys, heads: 4}
    - linear: {name: v, inputs: [n_1], out_features: 24, bias: false}
    - attention: {inputs: [queries, keys, v], heads: 8, kv_heads: 4, causal: true}
    - linear: {name: o, out_features: 24, bias: false}
    - add: {name: attended, inputs: [wte, o]}
    - rms_norm: {name: n_2}
    - linear: {name: gate, out_features: 64, bias: false}
    - silu: {name: open}
    - linear: {name: up, inputs: [n_2], out_features: 64, bias: false}
    - mul: {inputs: [open, up]}
    - linear: {name: down, out_features: 24, bias: false}
    - add: {inputs: [attended, down]}
    - rms_norm: {name: n_3}
    - linear: {name: head, out_features: 51, bias: false}
data: {format: synthetic, synthetic: {train_samples: 320, val_samples: 37}}
training: {max_duration: 50ba, global_batch_size: 8, micro_batch_size: 2}
optimizer: {name: adamw, lr: 0.003}
validation: {interval: 20ba, metrics: [perplexity]}
logging: {interval: 3ba}
checkpoint: {interval: 5ba}
''', 'resnet': f'''version: 1
run: {{name: resnet, seed: 3, output_dir: run}}
device: {{type: cpu}}
model: {{network: {MODELS}/resnet18_32.yaml}}
data:
  format: synthetic
  synthetic: {{train_samples: 96, val_samples: 6}}
  augment: [random_crop: {{size: 32, padding: 4}}, horizontal_flip]
training: {{max_duration: 24ba, global_batch_size: 4, micro_batch_size: 2, ema: {{decay: 0.9}}}}
optimizer: {{name: sgd, lr: 0.05, momentum: 0.9}}
validation: {{interval: 8ba, metrics: [top1]}}
logging: {{interval: 1ba}}
checkpoint: {{interval: 3ba}}
'''}
# Where an input is next to a relu's corner, or two are next to equal for max_pool2d, rounding alone decides, and differences of 1e-6 become
# 1e-3. A run whose weights are compared after many steps has no such places.
RECIPES['smooth'] = RECIPES['cnn'].replace('- relu', '- gelu').replace('- max_pool2d', '- avg_pool2d').replace('name: cnn', 'name: smooth')
ENDLESS = 'training.max_duration=3000000ba'  # of a recipe whose steps take milliseconds


def interval(name, section):
    """In steps."""
    return int(re.search(rf'{section}: {{interval: (\d+)ba', RECIPES[name])[1])


def png(width, height, data, colour=2):
    """`data`: a byte 0 and the pixels of each row, in RGB; colour 0: grey."""
    def chunk(kind, content):
        return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', zlib.crc32(kind + content))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, colour, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(data)) + chunk(b'IEND', b''))


def pixel(grey):
    """An image of one pixel."""
    return png(1, 1, bytes([0, grey]), 0)


def write_images(folder, **counts):
    """Images of one pixel, in two classes, this number of each, below `folder/SPLIT`."""
    for split, count in counts.items():
        for name, grey in ('bright', 40), ('dark', 1):
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                (folder / split / name / f'{100 + i}.png').write_bytes(pixel(grey + i))
    return folder
