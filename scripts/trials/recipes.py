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
  augment: [random_crop: {size: 16, padding: 2}, horizontal_flip]
  workers: 2
training: {max_duration: 2ep, global_batch_size: 48}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9, clip_norm: 5.0}
lr_scheduler: {name: cosine, warmup: 7ba}
validation: {interval: 10ba, metrics: [top1]}
logging: {interval: 1ba}
checkpoint: {interval: 4ba}
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
