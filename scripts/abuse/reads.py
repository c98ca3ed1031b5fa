# SPDX-License-Identifier: Apache-2.0
"""Reads that fail once, as a disk's or a network's may: of a run that goes on, and of commands that look at one. The command ends with
74 or 71 and a sentence, or does its work nevertheless. No file of the run is lost, and afterwards it ends with the bits of a run that
was never disturbed."""
import errno

from commands import RESUME, Trial, reading

DATA, MEMORY, IO = 65, 71, 74
READS = 'read,pread,fread,mmap,readdir'
LOOKING = [reading('inspect half'), reading('eval --config r.yaml run.resume=half'), reading('runs .'), reading('report half')]


def environment(context, **settings):
    return {'LD_PRELOAD': str(context.faults), 'FAULT_PATH': '*', 'FAULT_CALLS': READS, 'FAULT_ACTION': str(errno.EIO),
            **{name: str(value) for name, value in settings.items()}}


def count(trial, command):
    place = trial.place('counted', command)
    place.run(command.words, {0}, environment=environment(trial.context, FAULT_LOG=place.directory / 'reads'))
    number = len((place.directory / 'reads').read_text().splitlines())
    place.remove()
    return number


def kept(place):
    """The checkpoints of the run, and the lines of its metrics."""
    root = place.directory / 'half'
    files = {str(path.relative_to(root)): path.read_bytes() for path in (root / 'checkpoints').rglob('*') if path.is_file()}
    return {**files, 'metrics.jsonl': (root / 'metrics.jsonl').read_bytes()}


def lost(before, after):
    """Names of files that are gone or others now. A later checkpoint makes room for itself; lines of metrics are added."""
    if any(name.startswith('checkpoints/step-') for name in after.keys() - before.keys()):
        return []
    return [name for name, content in before.items() if not after.get(name, b'').startswith(content)]


def attack_at(trial, command, at, expected):
    def attack():
        place = trial.place(f'read {at}', command)
        before = kept(place)
        answer = {DATA} if command.words[0] == 'inspect' else set()  # what is not whole, or cannot be read
        code = place.run(command.words, {0, MEMORY, IO} | answer, environment=environment(trial.context, FAULT_AT=at))
        if code != 0:
            gone = lost(before, kept(place))
            place.require(not gone, f'files of the run are gone: {gone}')
        else:
            place.require('skipping checkpoint' not in place.errors, 'a checkpoint that could not be read once is skipped')
            place.require(not command.product or command.result(place) == expected, 'exit 0 with another result')
        place.run(RESUME.words, {0})
        place.require(RESUME.result(place) == trial.expected(RESUME), 'another result afterwards')
        place.remove()
    return attack


def attacks(context):
    trial = Trial(context, 'reads')
    for command in [RESUME, *LOOKING]:
        expected, number = trial.expected(command), count(trial, command)
        most = number if context.thorough else min(number, 6)
        for i in range(most):
            yield attack_at(trial, command, 1 + i * number // most, expected)
