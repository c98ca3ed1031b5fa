# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be: recipes, pictures, and what a run has left."""
import os
import socket
import struct
import zlib

from attack import simple

LITTLE_MEMORY = ['sh', '-c', 'ulimit -v 2000000; exec "$@"', 'sh']
DATA, RECIPE = 65, 78
REFUSED = {DATA, 74, RECIPE}
PICTURES = 'data={format: image_folder, train: pictures, augment: [random_resized_crop: 8], workers: 1}'
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


def png(width, height, data):
    def chunk(kind, content):
        return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', zlib.crc32(kind + content))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(data)) + chunk(b'IEND', b''))


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
    'empty': b'', 'text': b'a picture', 'huge': png(60000, 60000, b''), 'larger': png(2**31 - 1, 2**31 - 1, b''), 'no rows': png(8, 8, b''),
    'no extents': png(0, 0, b''), 'jpeg': b'\xff\xd8\xff\xe0' + b'\xff' * 1000, 'marker': b'\xff\xd8\xff',
    'inflating': png(30000, 30000, bytes(10000000)),
}


def recipe(context, name, content):
    def attack():
        place = context.place(f'recipe {name}')
        place.write('r.yaml', content)
        place.run(['plan'], REFUSED, prefix=LITTLE_MEMORY)
        place.remove()
    return attack


def spoilt(context, name, number, content):
    """Of a run that was stopped half way: it goes on, or says why not and keeps its checkpoints."""
    def attack():
        place = context.place(f'spoilt {name} {number}')
        run = place.directory / 'run'
        place.run(['training.max_duration=12ba'], {0})
        saved = sorted(path.name for path in (run / 'checkpoints').iterdir())
        place.write(f'run/{name}', content)
        code = place.run(['run.allow_changes=[training.max_duration]'], {0, *REFUSED}, prefix=LITTLE_MEMORY)
        if code == 0:
            place.require(place.weights() == context.bits, 'the weights differ from those of an undisturbed run')
        else:
            place.require(sorted(path.name for path in (run / 'checkpoints').iterdir()) == saved, 'checkpoints are gone')
        place.remove()
    return attack


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


def odd(context, name, kind):
    """A file of a stopped run is something else: every command ends, says so in a sentence or does not need it, and what a link
    leads to stays as it is."""
    def attack():
        place = context.place(f'{kind} {name}')
        run = place.directory / 'run'
        place.run(['training.max_duration=12ba'], {0})
        file = sorted((run / 'checkpoints').iterdir())[-1] / name if name in CHECKPOINT else run / name
        if file.exists():
            file.unlink()
        precious = place.write('precious', 'mine')
        KINDS[kind](file) if kind != FOREIGN else file.symlink_to(precious)
        for words in (['inspect', 'run'], ['runs', '.'], ['watch', 'run'], ['report', 'run'], ['eval', '--config', 'r.yaml', 'training.max_duration=12ba'],
                      ['--config', 'r.yaml', 'run.allow_changes=[training.max_duration]']):
            place.run(words, {0, *REFUSED}, prefix=LITTLE_MEMORY)
            place.require(precious.read_text() == 'mine', f'{words[0]} has written to a file elsewhere')
        place.remove()
    return attack


def weights(context, name, content):
    def attack():
        place = context.place(f'weights {name}')
        place.write('w.safetensors', content)
        for more in (['model.initial_weights=w.safetensors'], ['eval', 'run.resume=w.safetensors']):
            place.run(more, REFUSED, prefix=LITTLE_MEMORY)
        place.remove()
    return attack


def image(context, name, content):
    """One of a hundred; more than data.error_budget."""
    def attack():
        place = context.place(f'image {name}')
        for i in range(99):
            place.write(f'pictures/{"ab"[i % 2]}/{i}.png', png(8, 8, bytes(8 * 25)))
        place.write('pictures/a/bad.png', content)
        place.run([PICTURES, 'model.input=[3, 8, 8]', 'model.layers[3]={linear: 2}', 'training.global_batch_size=10'], {DATA}, 'bad.png', prefix=LITTLE_MEMORY)
        place.remove()
    return attack


def special(context, name, make):
    """A recipe that is no file."""
    def attack():
        place = context.place(f'special {name}')
        path = place.directory / 'special.yaml'
        make(path)
        place.run(['plan', '--config', str(path)], {*REFUSED, 71}, prefix=LITTLE_MEMORY)
        place.remove()
    return attack


def attacks(context):
    context.bits
    for name, content in RECIPES.items():
        yield recipe(context, name, content)
    for name, contents in SPOILT.items():
        for number, content in enumerate(contents if context.thorough else contents[:2]):
            yield spoilt(context, name, number, content)
    kinds = [*KINDS, FOREIGN]
    names = [*SPOILT, 'report.html', 'bad_samples.txt', 'confusion.json', *CHECKPOINT]
    for number, name in enumerate(names):
        for kind in kinds if context.thorough else dict.fromkeys(['pipe', FOREIGN, kinds[number % len(kinds)]]):
            yield odd(context, name, kind)
    for name, content in WEIGHTS.items():
        yield weights(context, name, content)
    for name, content in IMAGES.items():
        yield image(context, name, content)
    yield special(context, 'directory', lambda path: path.mkdir())
    yield special(context, 'dangling link', lambda path: path.symlink_to('nowhere'))
    yield special(context, 'link to itself', lambda path: path.symlink_to(path.name))
    yield special(context, 'null', lambda path: path.symlink_to('/dev/null'))
    yield simple(context, 'a name of nothing', ['plan', '--config', ''], REFUSED | {64})
    yield simple(context, 'a long name', ['plan', '--config', 'x' * 100000], REFUSED)
