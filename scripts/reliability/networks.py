# SPDX-License-Identifier: Apache-2.0
"""The networks that are trained: small ones, since what counts is how they are stopped."""
from pathlib import Path

HEAD = 'version: 1\nrun: {{name: {name}, seed: 3, output_dir: run}}\ndevice: {{type: cpu}}\n'
MLP = HEAD.format(name='mlp') + '''model:
  input: [1, 8, 8]
  layers: [flatten, linear: 16, relu, linear: 5]
data: {format: synthetic, synthetic: {train_samples: 640, val_samples: 130}}
training: {max_duration: 40ba, global_batch_size: 64}
optimizer: {name: adamw, lr: 0.01}
validation: {interval: 7ba, metrics: [top1]}
logging: {interval: 3ba}
checkpoint: {interval: 5ba, keep_best: top1}
'''
CNN = HEAD.format(name='cnn') + '''model:
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
'''
RESNET = HEAD.format(name='resnet').replace('{', '{{').replace('}', '}}') + '''model: {{network: {models}/resnet18_32.yaml}}
data:
  format: synthetic
  synthetic: {{train_samples: 96, val_samples: 6}}
  augment: [random_crop: {{size: 32, padding: 4}}, horizontal_flip]
training: {{max_duration: 24ba, global_batch_size: 4, micro_batch_size: 2, ema: {{decay: 0.9}}}}
optimizer: {{name: sgd, lr: 0.05, momentum: 0.9}}
validation: {{interval: 8ba, metrics: [top1]}}
logging: {{interval: 1ba}}
checkpoint: {{interval: 3ba}}
'''
INTERVAL = {'mlp': 5, 'cnn': 4, 'resnet': 3}  # of checkpoints, in steps


def write_recipes(directory):
    """The recipes' paths, by name."""
    models = Path(__file__).resolve().parents[2] / 'configs' / 'models'
    texts = {'mlp': MLP, 'cnn': CNN, 'resnet': RESNET.format(models=models)}
    for name, text in texts.items():
        (directory / f'{name}.yaml').write_text(text)
    return {name: directory / f'{name}.yaml' for name in texts}
