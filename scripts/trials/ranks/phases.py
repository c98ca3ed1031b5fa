# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed, stopped or end in a named phase, by a library in their own process (tests/faults)."""
import itertools
import random
import re
import socket
import time
from functools import partial

from recipes import write_images
from run import PEER_LOST, preload

from ranks.processes import Ranks

DEADLINE = 4
STILL = 1.6  # seconds for which no step was saved before the blow: a rank says twice a second where it is
RECIPE = '''version: 1
run: {{name: phases, seed: 1, output_dir: run}}
model: {{input: [3, 4, 4], layers: [flatten, linear: 8, relu, linear: 2]}}
data: {{format: image_folder, train: {0}/train, val: {0}/val, workers: 1,
  augment: [random_resized_crop: 4], eval_transform: [resize: 6, center_crop: 4]}}
training: {{max_duration: 4ep, global_batch_size: 12}}
optimizer: {{name: adamw, lr: 0.01}}
validation: {{interval: 4ba}}
checkpoint: {{interval: 1ba}}
parallelism: {{shard_optimizer: true}}
logging: {{interval: 1ba}}
device: {{type: cpu}}
'''
END = 'the end'  # MPI's own: only a rank that is stopped keeps the others there
# What the others say of a rank in that phase; None: it has not joined them yet.
PHASES = {'before it joins': None, 'start-up': 'starting', 'waiting for data': 'awaiting data', 'computing': 'computing',
          'reduction': 'computing, waiting for other ranks', 'save': 'saving', 'evaluation': 'evaluating', END: 'ending'}
BLOWS = {'SIGKILL': 'kill', 'SIGSTOP': 'stop', 'SIGSEGV': 'segv', 'exit(0)': 'exit'}
HANG = 'a hang'
HANGS = 'waiting for data', 'computing', 'evaluation'  # of the thread that computes or reads: the rank still says where it is
STEP = 5  # in which a rank is struck, or soon after it


# MPICH's launcher ends the others at once when a signal has ended a rank, before they can name it. Open MPI 5 does so too
# after an exit code that is not 0, which a rank has when a library has called exit().
ENDED_BY_LAUNCHER = (r'a rank was ended by (?:a signal|signal \d+ \([\w ]+\)), and \S+ has ended the others|'
                     r'\d of the \d+ ranks have ended without a word|'
                     r'rank \d+ on \S+: a library, perhaps MPI \(\S+\), has ended the process')


class Phases:
    """A recipe, what a rank does in it call by call, and what it comes to."""

    def __init__(self, trials):
        self.trials = trials
        self.recipe = RECIPE.format(write_images(trials.work / 'phases-images', train=18, val=6))
        self.calls, self.expected = {}, {}

    def watch(self, ranks, rank):
        """The calls of this rank in a run that nobody disturbs."""
        run = Ranks(self.trials, f'phases_of_{rank}_of_{ranks}', self.recipe)
        log = run.directory / 'calls.txt'
        run.train(ranks, environment=preload(self.trials.faults, rank=rank, path='/', log=log,
                                             calls='init,sum,broadcast,execute,open,fsync,finalize'))
        self.calls[ranks, rank] = [tuple(line.split('\t')[1:3]) for line in log.read_text().splitlines()]
        self.expected.setdefault(ranks, run)

    def place(self, ranks, rank, phase):
        """A call that the rank makes in this phase: its name, what it is about, and its number among these."""
        calls = self.calls[ranks, rank]
        collectives = [i for i, (call, _) in enumerate(calls) if call in ('sum', 'broadcast')]
        # Where the gradients of each step begin to be added up.
        steps = [i for before, i in zip(collectives, collectives[1:]) if calls[i] == ('sum', 'mpi/4') != calls[before]]
        step = steps[STEP - 1]
        save = ('fsync', '.saving-step-') if rank == 0 else ('broadcast', 'mpi/1')
        name, about, end = {'before it joins': ('init', 'mpi/', steps[0]), 'start-up': ('broadcast', 'mpi/1', steps[0]),
                            'computing': ('execute', 'dnnl/', step), 'reduction': ('sum', 'mpi/4', None), 'save': (*save, None),
                            'waiting for data': ('open', 'phases-images/train', None),
                            'evaluation': ('open', 'phases-images/val', None), END: ('finalize', 'mpi/', None)}[phase]
        same = [i for i, call in enumerate(calls) if call[0] == name and about in call[1]]
        # The last one before the end, or the first one of that step or later.
        chosen = [i for i in same if i < end][-1:] if end else [i for i in same if i >= step][:1]
        self.expected[ranks].require(chosen, f'rank {rank} makes no call in this phase: {phase}')
        return name, about, same.index(chosen[0]) + 1

    def strike(self, ranks, rank, phase, blow):
        name = f'{blow} of rank {rank} of {ranks}, {phase}'
        run = Ranks(self.trials, name, self.recipe)
        call, about, number = self.place(ranks, rank, phase)
        log, begins = run.directory / 'calls.txt', run.directory / 'begins'
        process = run.begin(ranks, f'parallelism.timeout={DEADLINE}s', environment=preload(
            self.trials.faults, rank=rank, calls=call, path=about, at=number, action=BLOWS.get(blow, 'stall'), until=begins, log=log))
        self.await_phase(run, process, log)
        begins.touch()
        run.end(process, {PEER_LOST}, within=(3 if PHASES[phase] is None else 1) * DEADLINE + 10)
        seconds = run.waited
        run.require(not run.processes(), 'processes are left')
        words = self.words_about(run, rank, phase)
        run.require(words, 'the others do not say so')
        run.train(ranks).require_same(self.expected[ranks], 'resumed, the run')
        return f'{name}: {PEER_LOST} after {seconds:.1f} s, and the bits of an undisturbed run; {words}'

    @staticmethod
    def await_phase(run, process, log):
        """Until the rank makes that call, and all others have come to wait for it."""
        seen = since = None

        def waits():
            nonlocal seen, since
            is_there = log.exists() and any(line.split('\t')[4:5] not in ([], ['']) for line in log.read_text().splitlines())
            if (is_there, run.saved()) != seen or not is_there:
                seen, since = (is_there, run.saved()), time.monotonic()
            return time.monotonic() >= since + STILL

        run.wait_for(process, waits, 'that call')

    @staticmethod
    def words_about(run, rank, phase):
        """What the others say of the rank."""
        if PHASES[phase] is None:
            return run.errors.strip().partition('\n')[0] or 'nobody says why'
        step = '0' if phase == 'start-up' else '[1-9][0-9]*'
        where = f'at step {step}: {PHASES[phase]}'
        name = rf'rank {rank} on {re.escape(socket.gethostname())}'
        found = re.search(rf'{name} is gone, {where}|{name} has not been heard of for \d+ s, {where}|'
                         # Outside of steps MPI's own patience may end first.
                         rf'{name}, {where}(?:, not heard of for \d+ s)?; others have waited for it for \d+ s|it waits for {name}, {where}', run.errors)
        if not found:
            # mpirun 4.1 may kill the others before they speak, and then wait for itself. Seen at the start and in a step.
            found = re.search(r'the \d+ ranks have ended, but \S+ has not', run.errors)
        if not found:
            found = re.search(ENDED_BY_LAUNCHER, run.errors)
        if not found and phase == END:
            # MPI lets some ranks go before all have come.
            found = re.search(r'some of the \d+ ranks have ended, but \S+ has not ended the others', run.errors)
        return found and found[0]


def sample(seed):
    """Each phase and each blow at least once, over both ranks."""
    chosen = random.Random(seed)
    blows = random.Random(seed).sample(sorted(BLOWS), len(BLOWS))
    victims = itertools.cycle(chosen.sample([0, 1], 2))
    return [(2, next(victims), phase, 'SIGSTOP' if phase == END else blow) for phase, blow in zip(chosen.sample(list(PHASES), len(PHASES)), itertools.cycle(blows))]


def phases(trials):
    """A check for each case."""
    every = [(ranks, rank, phase, blow) for ranks, rank in ((2, 0), (2, 1), (3, 1)) for phase in PHASES
             for blow in (['SIGSTOP'] if phase == END else [*BLOWS, *([HANG] if phase in HANGS else [])])]
    cases = every if trials.thorough else sample(trials.seed)
    all_of = Phases(trials)
    for ranks, rank in sorted({case[:2] for case in cases}):
        all_of.watch(ranks, rank)
    return [partial(all_of.strike, *case) for case in cases]
