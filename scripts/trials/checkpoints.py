# SPDX-License-Identifier: Apache-2.0
"""What a run leaves: whole checkpoints, and content that must be equal between runs."""
import ctypes
import json
import re

from run import step_of

TIMINGS = re.compile(r'.*_ms$|samples_per_s$|slowest_rank$|memory_bytes$|time$|time_|device_|flops_')

xxhash = ctypes.CDLL('libxxhash.so.0').XXH3_64bits
xxhash.restype, xxhash.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]


def damage_in(name, files):
    """What is wrong with the files of a checkpoint of this name, or None. Independent of the program's own reader."""
    if 'manifest.txt' not in files:
        return 'no manifest'
    lines = files['manifest.txt'].split(b'\n')
    if len(lines) < 4 or lines[-1] != b'' or lines[0] != b'trainer checkpoint 1':
        return 'manifest cut short'
    body = b'\n'.join(lines[:-2]) + b'\n'
    if b'whole %016x' % xxhash(body, len(body)) != lines[-2]:
        return 'manifest damaged'
    if f'step-{int(lines[1].split()[1]):08}' != name:
        return 'of another step'
    for line in lines[2:-2]:
        _, checksum, size, file = line.decode().split(' ')
        content = files.get(file, b'')
        if len(content) != int(size) or f'{xxhash(content, len(content)):016x}' != checksum:
            return f'{file} damaged'
    return None


def newest(run):
    """The step of the newest checkpoint; every one must be whole. 0: none."""
    for checkpoint in run.checkpoints():
        damage = damage_in(checkpoint.name, {path.name: path.read_bytes() for path in checkpoint.iterdir()})
        run.require(damage is None, f'{checkpoint}: {damage}')
    return run.saved()


def content(run):
    """Everything of a finished run that must not depend on how often it was stopped, by name."""
    found = {path.name: path.read_bytes() for path in run.output.glob('model*.safetensors')}
    found['metrics.jsonl'] = [{key: value for key, value in line.items() if not TIMINGS.match(key)} for line in run.metrics()]
    for checkpoint in run.checkpoints():
        for path in checkpoint.iterdir():
            name = f'{checkpoint.name}/{path.name}'
            if path.name == 'state.json':
                found[name] = json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != 'wall'})
            elif path.name != 'manifest.txt':  # has the checksum of state.json
                found[name] = path.read_bytes()
    return found


def require_equal(undisturbed, run, every_checkpoint=True):
    """A run that was asked to stop has saved where it stopped, so only its last checkpoint must be one of the undisturbed run's."""
    expected, found = content(undisturbed), content(run)
    newest(run)
    last = f'{run.checkpoints()[0].name}/'
    for name, value in expected.items():
        if every_checkpoint or '/' not in name or name.startswith(last) or name in found:
            run.require(name in found, f'{name} is missing')
            run.require(found[name] == value, f'{name} differs from that of the undisturbed run')
    run.require(any(name.startswith(last) for name in expected), f'it ends with {last}')
    run.require(not every_checkpoint or found.keys() == expected.keys(), 'more is left than by the undisturbed run')
