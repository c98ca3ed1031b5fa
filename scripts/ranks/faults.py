# SPDX-License-Identifier: Apache-2.0
"""What becomes of ranks when one stops or dies."""
import os
import random
import re
import signal
import time
from functools import partial

from phases import DEADLINE, phases
from processes import PATIENCE, PEER_LOST, SAVED, Ranks, processes_of, side_by_side
from runs import require


def strike(run, ranks, victim, blow, moment, *more):
    """Trains, and does that to one rank; returns exit code and the seconds until all was over."""
    process = run.start(ranks, *more)
    end = time.monotonic() + PATIENCE
    while len(processes_of(run.directory)) < ranks:
        require(process.poll() is None and time.monotonic() < end, f'{run.directory.name}: ranks do not start:\n{run.errors}')
        time.sleep(0.01)
    time.sleep(moment)
    pids = processes_of(run.directory)
    if victim in pids:
        os.kill(pids[victim], blow)
    struck = time.monotonic()
    has_joined = (run.directory / 'run/status.json').exists()  # and all others have
    code = process.wait(PATIENCE)
    seconds = time.monotonic() - struck
    most = (1 if has_joined else 3) * DEADLINE + 10
    require(seconds < most, f'{run.directory.name}: the end took {seconds:.0f} s, and {most} s are allowed:\n{run.errors}')
    return code, seconds


def faults(scratch, recipes, options):
    words = ['training.max_duration=20000ba', 'checkpoint.interval=20ba', 'validation.interval=100ba', 'logging.formats=[]']
    moments = random.Random(options.seed)
    blows = ((2, 0, signal.SIGKILL, PEER_LOST), (2, 1, signal.SIGKILL, PEER_LOST), (3, 1, signal.SIGSEGV, PEER_LOST),
             (2, 1, signal.SIGSTOP, PEER_LOST), (2, 0, signal.SIGSTOP, PEER_LOST), (2, 1, signal.SIGTERM, SAVED),
             (2, 0, signal.SIGUSR1, SAVED))
    cases = [(*blow, moment) for blow in (blows[1::2] if options.short else blows)
             for moment in (moments.uniform(0, 0.3), moments.uniform(0.5, 2))]

    def check(ranks, victim, blow, code, moment):
        name = f'{signal.Signals(blow).name} to rank {victim} of {ranks} after {moment:.2f} s'
        run = Ranks(scratch, name.replace(' ', '_'), recipes['mlp'], *words, 'training.global_batch_size=48')
        found, seconds = strike(run, ranks, victim, blow, moment, f'parallelism.timeout={DEADLINE}s')
        require(found == code, f'{name}: exit code {found}, not {code}:\n{run.errors}')
        require(not processes_of(run.directory), f'{name}: processes are left')
        named = re.search(rf'rank {victim} on \S+ (is gone|has not been heard of|.*not heard of).*', run.errors)
        # Before the ranks have met, nobody knows where the other one is.
        require(code != PEER_LOST or named or moment < 0.5, f'{name}: nobody names it:\n{run.errors}')
        return f'{name}: exit code {found} after {seconds:.1f} s, nothing is left; {named[0] if named else "nobody is named"}'

    side_by_side([partial(undisturbed, scratch, recipes['mlp'], words), *(partial(check, *case) for case in cases), *phases(scratch, options),
                  *(partial(resume_to_same_bits, scratch, recipes['cnn'], f'parallelism.shard_optimizer={shards}', random.Random(seed))
                    for seed, shards in enumerate(('false', 'true'), options.seed))])


def undisturbed(scratch, recipe, words):
    """A hang-up under nohup, and a job that is suspended for longer than the deadline: the run goes on."""
    run = Ranks(scratch, 'undisturbed', recipe, *words, 'parallelism.timeout=2s')
    process = run.start(2, ignored=[signal.SIGHUP])
    while not run.saved():
        require(process.poll() is None, f'undisturbed:\n{run.errors}')
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    for blow, seconds in (signal.SIGSTOP, 4), (signal.SIGCONT, 3):
        for pid in processes_of(run.directory).values():
            os.kill(pid, blow)
        time.sleep(seconds)
    before = run.saved()
    time.sleep(1)
    require(process.poll() is None and run.saved() > before, f'a run that was hung up and suspended does not go on:\n{run.errors}')
    process.send_signal(signal.SIGTERM)
    require(process.wait(PATIENCE) == SAVED, f'undisturbed:\n{run.errors}')
    return 'a hang-up under nohup and 4 s of suspension, with a deadline of 2 s: the run goes on'


def resume_to_same_bits(scratch, recipe, word, moments):
    long = ['training.max_duration=15ep', word]
    run = Ranks(scratch, f'resumed_{word}', recipe, *long)
    expected = Ranks(scratch, f'undisturbed_{word}', recipe, *long).train(2)
    kills = 0
    for _ in range(6):
        code, _ = strike(run, 2, kills % 2, signal.SIGKILL, moments.uniform(0.2, 1.0))
        if code == 0:
            break
        kills += 1
    if code != 0:
        run.train(2)
    require(run.weights() == expected.weights(), 'a run whose ranks were killed has other bits')
    require(run.numbers() == expected.numbers(), 'a run whose ranks were killed has other metrics')
    return f'{word}: {kills} times a rank was killed; resumed, the run has an undisturbed one\'s bits and metrics'
