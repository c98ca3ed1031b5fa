# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be: recipes, images, and what a run has left."""
import os
import socket
import struct
from functools import partial

from recipes import png
from run import DATA, IO, MEMORY, RECIPE, Run

from abuse.limits import under

REFUSED = frozenset({DATA, IO, RECIPE})
LITTLE_MEMORY = under('-v', 2000000)
HALF, MORE = 'training.max_duration=12ba', 'run.allow_changes=[training.max_duration]'
IMAGE_DATA = 'data={format: image_folder, train: images, augment: [random_resized_crop: 8], workers: 1}'
NINE = ', '.join(['*{0}'] * 9)


def bomb():
    """Nine to the power of nine layers, by nine anchors."""
    lines = ['a: &a [x, x, x, x, x, x, x, x, x]']
    for last, name in zip('abcdefgh', 'bcdefghi'):
        lines.append(f'{name}: &{name} [{NINE.format(last)}]')
    return '\n'.join(lines)


RECIPES = {
    'empty': '', 'zeros': bytes(100000), 'binary': bytes(range(256)) * 100, 'bomb': bomb(), 'deep list': '[' * 100000,
    'deep map': '{a: ' * 100000, 'deep block': '\n'.join(' ' * i + 'a:' for i in range(3000)), 'long key': 'k' * 5000000 + ': 1',
    'long value': 'version: ' + '1' * 5000000, 'many keys': '\n'.join(f'k{i}: 1' for i in range(200000)),
    'not UTF-8': b'version: \xff\xfe\xfd', 'byte order': '\ufeffversion: 1', 'tabs': 'version:\t1\nrun:\n\tname: a',
    'two documents': 'version: 1\n---\nversion: 1', 'itself': 'a: &a [*a]', 'tag': 'version: !!python/object:os.system ls',
    'merge': 'a: &a {version: 1}\n<<: *a', 'nested expression': 'version: ' + '${' * 10000,
}
SPOILT = {  # a file of a run, and what it holds now
    'identity.json': ('{}', b'', b'\xff' * 100, '[' * 100000, '{"mathematics": 3}'),
    'status.json': ('{}', b'', b'\xff' * 100, '{"status": "running", "step": 1e300}', '{"step": 9223372036854775808}'),
    'summary.json': ('{}', b'', '{"finished": 3}', '[' * 100000),
    'metrics.jsonl': (b'', b'\xff' * 100, '{"step": -1}\n{"step": 9223372036854775807}\n', 'x' * 1000000),
    'lock': (b'', b'\xff' * 100, '-1\n'),
    'recipe.yaml': (b'', b'\xff' * 100), 'log.txt': (b'\xff' * 100,), 'metrics.csv': (b'', b'\xff' * 100),
}


def safetensors(header):
    return struct.pack('<Q', len(header)) + header.encode()


TENSOR = '{{"0.weight": {{"dtype": "F32", "shape": [{}], "data_offsets": [{}]}}}}'
WEIGHTS = {
    'empty': b'', 'short': b'\x01', 'length beyond the file': struct.pack('<Q', 2**63) + b'{}',
    'length of 64 bits': struct.pack('<Q', 2**64 - 1) + b'{}', 'extents of 62 bits': safetensors(TENSOR.format(2**62, '0, 0')),
    'product of 64 bits': safetensors(TENSOR.format(f'{2**32}, {2**32}', '0, 0')), 'negative': safetensors(TENSOR.format(-4, '0, 16')),
    'offsets': safetensors(TENSOR.format(4, f'{2**63}, {2**63 + 16}')), 'deep': safetensors('[' * 1000000),
}
IMAGES = {
    'empty': b'', 'text': b'an image', 'huge': png(60000, 60000, b''), 'larger': png(2**31 - 1, 2**31 - 1, b''), 'no rows': png(8, 8, b''),
    'no extents': png(0, 0, b''), 'jpeg': b'\xff\xd8\xff\xe0' + b'\xff' * 1000, 'marker': b'\xff\xd8\xff',
    'inflating': png(30000, 30000, bytes(10000000)),
}


def ends(run, *words, codes=REFUSED, says=''):
    run.finish(*words, codes=codes, says=says, prefix=LITTLE_MEMORY)


def recipe(run, content):
    run.write('r.yaml', content)
    ends(run, 'plan')


def spoilt(run, name, content):
    """Of a run that was stopped half way: it goes on, or says why not and keeps its checkpoints."""
    run.finish(HALF)
    saved = set((run.output / 'checkpoints').iterdir())
    run.write(f'run/{name}', content)
    if run.finish(MORE, codes={0, *REFUSED}, prefix=LITTLE_MEMORY) == 0:
        run.require_undisturbed()
    else:
        run.require(set((run.output / 'checkpoints').iterdir()) == saved, 'checkpoints are gone')


def make_socket(path):
    """An address has at most 107 bytes, which a path may exceed."""
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f'/proc/self/fd/{folder}/{path.name}')
    os.close(folder)


KINDS = {
    'pipe': os.mkfifo, 'zero': lambda path: path.symlink_to('/dev/zero'), 'dangling': lambda path: path.symlink_to('nowhere'),
    'circle': lambda path: path.symlink_to(path.name),
    'directory': lambda path: path.mkdir(), 'socket': make_socket,
}
FOREIGN = 'foreign link'
CHECKPOINT = ('manifest.txt', 'model.safetensors', 'optimizer.safetensors', 'state.json')


def odd(run, name, kind):
    """A file of a stopped run is something else: every command ends, says so in a sentence or does not need it, and what a link
    leads to stays as it is."""
    run.finish(HALF)
    file = (run.checkpoints()[0] if name in CHECKPOINT else run.output) / name
    if file.exists():
        file.unlink()
    precious = run.write('precious', 'mine')
    KINDS[kind](file) if kind != FOREIGN else file.symlink_to(precious)
    for words in (['inspect', 'run'], ['runs', '.'], ['watch', 'run'], ['report', 'run'], ['eval', HALF], [MORE]):
        ends(run, *words, codes={0, *REFUSED})
        run.require(precious.read_text() == 'mine', f'{words[0]} has written to a file elsewhere')


def weights(run, content):
    run.write('w.safetensors', content)
    ends(run, 'model.initial_weights=w.safetensors')
    ends(run, 'eval', 'run.resume=w.safetensors')


def image(run, content):
    """One of a hundred; more than data.error_budget."""
    for i in range(99):
        run.write(f'images/{"ab"[i % 2]}/{i}.png', png(8, 8, bytes(8 * 25)))
    run.write('images/a/bad.png', content)
    ends(run, IMAGE_DATA, 'model.input=[3, 8, 8]', 'model.layers[3]={linear: 2}', 'training.global_batch_size=10', codes={DATA}, says='bad.png')


def special(run, make):
    """A recipe that is no file."""
    make(run.directory / 'special.yaml')
    ends(run, 'plan', '--config', 'special.yaml', codes={*REFUSED, MEMORY})


def attacks(trials):
    for name, content in RECIPES.items():
        yield f'recipe {name}', recipe, content
    for name, contents in SPOILT.items():
        for number, content in enumerate(contents if trials.thorough else contents[:2]):
            yield f'spoilt {name} {number}', spoilt, name, content
    kinds = [*KINDS, FOREIGN]
    names = [*SPOILT, 'report.html', 'bad_samples.txt', 'confusion.json', *CHECKPOINT]
    for number, name in enumerate(names):
        for kind in kinds if trials.thorough else dict.fromkeys(['pipe', FOREIGN, kinds[number % len(kinds)]]):
            yield f'{kind} {name}', odd, name, kind
    for name, content in WEIGHTS.items():
        yield f'weights {name}', weights, content
    for name, content in IMAGES.items():
        yield f'image {name}', image, content
    yield 'special directory', special, lambda path: path.mkdir()
    yield 'special dangling link', special, lambda path: path.symlink_to('nowhere')
    yield 'special link to itself', special, lambda path: path.symlink_to(path.name)
    yield 'special null', special, lambda path: path.symlink_to('/dev/null')
    yield 'a name of nothing', partial(Run.finish, codes=REFUSED | {64}), 'plan', '--config', ''
    yield 'a long name', partial(Run.finish, codes=REFUSED), 'plan', '--config', 'x' * 100000
