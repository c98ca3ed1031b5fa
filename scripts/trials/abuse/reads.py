# SPDX-License-Identifier: Apache-2.0
"""Reads that fail once, as a disk's or a network's may: of a run that goes on, and of commands that look at one. The command ends with
74 or 71 and a sentence, or does its work nevertheless. No file of the run is lost, and afterwards it ends with the bits of a run that
was never disturbed."""
import errno

from run import DATA, IO, MEMORY, preload

from abuse.commands import RESUME, Commands, reading

LOOKING = [reading('inspect half'), reading('eval --config r.yaml run.resume=half'), reading('runs .'), reading('report half')]


def environment(run, **settings):
    return preload(run.trials.faults, path='*', calls='read,pread,fread,mmap,readdir', action=errno.EIO, **settings)


def count(commands, command):
    run = commands.run('counted', command)
    run.finish(*command.words, environment=environment(run, log=run.directory / 'reads'))
    return len((run.directory / 'reads').read_text().splitlines())


def kept(run):
    """The checkpoints of the run, and the lines of its metrics."""
    root = run.directory / 'half'
    files = {str(path.relative_to(root)): path.read_bytes() for path in (root / 'checkpoints').rglob('*') if path.is_file()}
    return {**files, 'metrics.jsonl': (root / 'metrics.jsonl').read_bytes()}


def lost(before, after):
    """Names of files that are gone or others now. A later checkpoint makes room for itself; lines of metrics are added."""
    if any(name.startswith('checkpoints/step-') for name in after.keys() - before.keys()):
        return []
    return [name for name, content in before.items() if not after.get(name, b'').startswith(content)]


def attack(_, commands, command, at):
    run = commands.run(f'read {at}', command)
    before = kept(run)
    answer = {DATA} if command.words[0] == 'inspect' else set()  # what is not whole, or cannot be read
    code = run.finish(*command.words, codes={0, MEMORY, IO} | answer, environment=environment(run, at=at))
    if code != 0:
        gone = lost(before, kept(run))
        run.require(not gone, f'files of the run are gone: {gone}')
    else:
        run.require('skipping checkpoint' not in run.errors, 'a checkpoint that could not be read once is skipped')
        run.require(not command.product or command.result(run) == commands.expected(command), 'exit 0 with another result')
    run.finish(*RESUME.words)
    run.require(RESUME.result(run) == commands.expected(RESUME), 'another result afterwards')
    run.remove()


def attacks(trials):
    commands = Commands(trials, 'reads')
    for command in [RESUME, *LOOKING]:
        commands.expected(command)  # before several need it at once
        number = count(commands, command)
        most = number if trials.thorough else min(number, 6)
        for i in range(most):
            at = 1 + i * number // most
            yield f'read {at} of {command.name}', attack, commands, command, at
