# SPDX-License-Identifier: Apache-2.0
"""What becomes of ranks when one stops or dies."""
import os
import re
import signal
import time
from functools import partial

from run import PEER_LOST, SAVED

from ranks.phases import DEADLINE, ENDED_BY_LAUNCHER, phases
from ranks.processes import Ranks

WORDS = ['training.max_duration=20000ba', 'checkpoint.interval=20ba', 'validation.interval=100ba', 'logging.formats=[]']
BLOWS = ((2, 0, signal.SIGKILL, PEER_LOST), (2, 1, signal.SIGKILL, PEER_LOST), (3, 1, signal.SIGSEGV, PEER_LOST),
         (2, 1, signal.SIGSTOP, PEER_LOST), (2, 0, signal.SIGSTOP, PEER_LOST), (2, 1, signal.SIGTERM, SAVED), (2, 0, signal.SIGUSR1, SAVED))


def strike(run, ranks, victim, blow, moment, codes, *words, data=None):
    """Trains, and does that to one rank; returns the exit code. Of the ranks, `data` have samples of their own."""
    process = run.begin(data or ranks, *words)
    run.wait_for(process, lambda: len(run.processes()) >= ranks, 'all ranks')
    time.sleep(moment)
    pids = run.processes()
    if victim in pids:
        os.kill(pids[victim], blow)
    has_joined = (run.output / 'status.json').exists()  # and all others have
    return run.end(process, codes, within=(1 if has_joined else 3) * DEADLINE + 10)


def check(trials, ranks, victim, blow, code, moment):
    name = f'{signal.Signals(blow).name} to rank {victim} of {ranks} after {moment:.2f} s'
    run = Ranks(trials, name, words=[*WORDS, 'training.global_batch_size=48'])
    strike(run, ranks, victim, blow, moment, {code}, f'parallelism.timeout={DEADLINE}s')
    run.require(not run.processes(), 'processes are left')
    named = re.search(rf'rank {victim} on \S+ (is gone|has not been heard of|.*not heard of).*|' + ENDED_BY_LAUNCHER, run.errors)
    # Before the ranks have met, nobody knows where the other one is.
    run.require(code != PEER_LOST or named or not (run.output / 'status.json').exists(), 'nobody names it')
    return f'{name}: exit code {code} after {run.waited:.1f} s, nothing is left; {named[0] if named else "nobody is named"}'


def suspended(trials):
    """A hang-up under nohup, and a job that is suspended for longer than the deadline: the run goes on."""
    run = Ranks(trials, 'suspended', words=[*WORDS, 'parallelism.timeout=2s'])
    process = run.begin(2, prefix=['nohup'])
    run.wait_for(process, run.saved, 'a first checkpoint')
    process.send_signal(signal.SIGHUP)
    for blow, seconds in (signal.SIGSTOP, 4), (signal.SIGCONT, 3):
        for pid in run.processes().values():
            os.kill(pid, blow)
        time.sleep(seconds)
    before = run.saved()
    time.sleep(1)
    run.require(process.poll() is None and run.saved() > before, 'a run that was hung up and suspended does not go on')
    process.send_signal(signal.SIGTERM)
    run.end(process, {SAVED})
    return 'a hang-up under nohup and 4 s of suspension, with a deadline of 2 s: the run goes on'


def resume_to_same_bits(trials, offset, recipe, data, *words):
    moments, kills = trials.random(offset), 0
    name, words = f'{recipe} {" ".join(words)}', ['training.max_duration=15ep', *words]
    run, expected = Ranks(trials, f'resumed {name}', recipe, words), Ranks(trials, f'undisturbed {name}', recipe, words).train(data)
    while kills < 6 and strike(run, 2, kills % 2, signal.SIGKILL, moments.uniform(0.2, 1.0), {0, PEER_LOST}, data=data) != 0:
        kills += 1
    run.train(data).require_same(expected, 'a run whose ranks were killed')
    return f'{name}: {kills} times a rank was killed; resumed, the run has an undisturbed one\'s bits and metrics'


SHARED = [('cnn', 2, 'parallelism.shard_optimizer=false'), ('cnn', 2, 'parallelism.shard_optimizer=true'), ('cnn', 2, 'parallelism.shard_parameters=true'),
          ('gpt', 1, 'parallelism.tensor=2'), ('gpt', 1, 'parallelism.pipeline=2')]


def faults(trials):
    moments = trials.random()
    cases = [(*blow, moment) for blow in (BLOWS if trials.thorough else BLOWS[1::2])
             for moment in (moments.uniform(0, 0.3), moments.uniform(0.5, 2))]
    return [partial(suspended, trials), *(partial(check, trials, *case) for case in cases), *phases(trials),
            *(partial(resume_to_same_bits, trials, offset, *how) for offset, how in enumerate(SHARED))]
