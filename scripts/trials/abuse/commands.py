# SPDX-License-Identifier: Apache-2.0
"""Every command of the program on small networks, and a directory in which all of them work."""
import base64
import copy
import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from recipes import png
from run import Run

FIXTURES = Path(__file__).resolve().parents[3] / 'tests/fixtures'
# What differs from one run of a command to the next: times, and what follows from them.
VOLATILE = re.compile(rb'\b\d+(\.\d+)?(e[+-]\d+)? ?(ns|us|ms|s|min|h|MB/s|[\w ]+ per second|[\w ]+/s)\b|\d+:\d\d(:\d\d)?|[\d-]+T[\d:]+Z?'
                      rb'|"\w*_(ms|per_s|s)": ?[\d.e+-]+')
JPEG = ('|JeWF01!$>Nk#wx0RR9200961|JwjV02>k%7Zed27Zw*D92+1gLMtdGB`8rkJupIGRb^yfRb5+Zc$tA}agcLcU4^xVke;Kft*d8%yve$z$C;?Br2pFhLjfEf9w;Ly'
        'PAe-;q;6eqq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@<*zq@@4A01*fP2mlZR0U`hb5di}c0sq7R6#xMN00000000000000000004'
        '|HJ?n5CH%K00000000000000000098VgJMc6#)SO00000000000000000065|HJ?o5dZ@L0RR910000000000000651X2Im01N{G00I#M5dc2`mMZ*L6@CD{Se{!y'
        'Pyg8')
HALF = ['run.output_dir=half', 'training.max_duration=12ba']
RESUMED = ['run.output_dir=half', 'run.allow_changes=[training.max_duration]']

FOLDER = '''version: 1
run: {name: folder, seed: 3, output_dir: folder-run}
model:
  input: [3, 8, 8]
  layers: [conv2d: {out_channels: 4, kernel_size: 3}, batch_norm, relu, dropout: 0.1, flatten, linear: 2]
data: {format: image_folder, train: images, val: images, augment: [random_resized_crop: 8, horizontal_flip],
       eval_transform: [resize: 8, center_crop: 8], workers: 2}
training: {max_duration: 4ba, global_batch_size: 4, micro_batch_size: 2, ema: {decay: 0.9}}
optimizer: {name: sgd, lr: 0.01, momentum: 0.9, clip_norm: 1.0}
validation: {interval: 2ba, metrics: [top1]}
logging: {interval: 1ba}
checkpoint: {interval: 2ba, keep_best: top1}
device: {type: cpu, threads: 2}
'''
TEXT = '''version: 1
run: {name: text, seed: 3, output_dir: text-run}
model:
  input_kind: tokens
  input: [16]
  layers:
    - embedding: {vocab_size: 432, features: 8}
    - positions: {max_positions: 16}
    - linear: {name: qkv, out_features: 24}
    - attention: {heads: 2, causal: true}
    - layer_norm
    - linear: {name: head, out_features: 432}
data: {format: text, train: text.txt, val_fraction: 0.2, tokenizer: llama3.json}
training: {max_duration: 4ba, global_batch_size: 4}
optimizer: {name: adamw, lr: 0.01}
device: {type: cpu, threads: 2}
'''


@dataclass(frozen=True)
class Command:
    words: tuple
    product: str = ''  # the file that it writes; '': its output, and it writes nothing else

    @property
    def name(self):
        return ' '.join(self.words)

    def result(self, run):
        """What it made, without times; None if that is missing."""
        path = run.directory / (self.product or 'stdout')
        return VOLATILE.sub(b'#', path.read_bytes()) if path.exists() else None


def reading(line, *more):
    return Command((*line.split(), *more))


def writing(product, line, *more):
    return Command((*line.split(), *more), product)


COMMANDS = [
    reading('--help'), reading('train --help'), reading('--version'), reading('schema'), reading('schema --markdown'), reading('layers'),
    reading('doctor'), reading('completion bash'), reading('man'),
    reading('plan --config r.yaml'), reading('plan --config r.yaml --json'), reading('plan --config r.yaml --dump plan'),
    reading('plan --config r.yaml --dump program'), reading('plan --config text.yaml'), reading('plan --config r.yaml --dump-config'),
    writing('new/model.safetensors', 'train --config r.yaml run.output_dir=new'),
    writing('half/model.safetensors', 'train --config r.yaml', *RESUMED),
    writing('new/model.safetensors', 'train --config folder.yaml run.output_dir=new'),
    writing('new/model.safetensors', 'train --config text.yaml run.output_dir=new'),
    reading('eval --config r.yaml'), reading('eval --config folder.yaml --json'), reading('eval --config text.yaml'),
    reading('predict --config folder.yaml images'), reading('predict --config r.yaml --all'),
    reading('generate --config text.yaml --tokens 12 --prompt', 'kalo'),
    reading('runs .'), reading('runs . --json'), reading('runs compare run half'),
    reading('inspect run'), reading('inspect --json run/model.safetensors'), reading('inspect half/checkpoints/step-00000010'),
    reading('import --list w.pth'), writing('w.st', 'import w.pth --out w.st'), writing('w.st', 'import old.pth --out w.st'),
    writing('report.html', 'report run --output report.html'), reading('watch run'),
    writing('new.yaml', 'init images --output new.yaml'),
    reading('data stats --config folder.yaml'), reading('data stats --config text.yaml --json'),
    writing('new.rec', 'data pack --config folder.yaml --out new.rec'),
    writing('new.bin', 'data tokenize --config text.yaml --out new.bin'),
    writing('new.bin', 'data tokenize --config text.yaml --out new.bin data.tokenizer=sp_bpe.model'),
]
RESUME = next(command for command in COMMANDS if RESUMED[1] in command.words)


def write_images(run):
    for i in range(6):
        run.write(f'images/{"ab"[i % 2]}/{i}.png', png(8, 8, bytes((40 * i + j) % 256 if j % 25 else 0 for j in range(200))))
    run.write('images/a/7.jpg', base64.b85decode(JPEG))
    for fixture, name in (('lossy.webp', 'b/8.webp'), ('palette8.bmp', 'b/9.bmp')):
        shutil.copy(FIXTURES / 'images' / fixture, run.directory / 'images' / name)


def furnish(run):
    """Recipes, data, three finished runs, and one that was stopped half way."""
    run.write('folder.yaml', FOLDER)
    run.write('text.yaml', TEXT)
    run.write('text.txt', ''.join(f'kalo miren the king {i}<|endoftext|>' for i in range(40)))
    for name in ('llama3.json', 'sp_bpe.model'):
        shutil.copy(FIXTURES / 'tokenizers' / name, run.directory)
    for fixture, name in (('state.pth', 'w.pth'), ('legacy.pth', 'old.pth')):
        shutil.copy(FIXTURES / 'foreign' / fixture, run.directory / name)
    write_images(run)
    for words in (['r.yaml'], ['r.yaml', *HALF], ['folder.yaml'], ['text.yaml']):
        run.finish('train', '--config', *words)


class Commands:
    """What each command makes undisturbed, and runs in which to disturb it. The program is a copy without the GPU's part, which lies
    beside it: what that loads is NVIDIA's, and crashes without memory."""

    def __init__(self, trials, name):
        self.trials, self.name = copy.copy(trials), name
        directory = trials.work / f'{name}-program'
        directory.mkdir()
        self.trials.trainer = shutil.copy(trials.trainer, directory)
        self.furnished = Run(self.trials, f'{name}, undisturbed')
        furnish(self.furnished)

    def run(self, name, command):
        """One of its own, as an attack may leave files half written; what only reads writes its output there."""
        run = Run(self.trials, f'{self.name}: {name}: {command.name}')
        shutil.copytree(self.furnished.directory, run.directory, dirs_exist_ok=True)
        return run

    @functools.cache
    def expected(self, command):
        """What it makes undisturbed."""
        run = self.run('undisturbed', command)
        run.finish(*command.words)
        return command.result(run)
