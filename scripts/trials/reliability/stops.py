# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed or asked to stop at random moments, and started again with the same command line."""
import json
import re
import signal
import time
from functools import partial

from checkpoints import newest, require_equal
from recipes import RECIPES, interval
from run import KILLED, SAVED, Run

from reliability.asked import wait_for_handlers


def stop_at_random(trials, random, name, count, numbers, judge):
    """Starts runs of a network and stops each at random moments until it is through, `count` stops in all; returns the number of runs."""
    undisturbed, kills = trials.undisturbed(name), numbers == [signal.SIGKILL]
    seconds, stops, rounds = undisturbed.waited, 0, 0
    while stops < count:
        run = Run(trials, f'{name}, {len(numbers)} signals, {time.monotonic_ns()}', RECIPES[name])
        rounds += 1
        code = None
        while code != 0:
            process, number = run.start(), random.choice(numbers) if stops < count else None
            if not kills:
                wait_for_handlers(run, process)
            if number is not None:
                # Signals rather early, for start-up is short; kills late enough to get on.
                time.sleep(random.random() ** (1 if kills else 3) * 0.8 * seconds)
                process.send_signal(number)
                stops += 1
            code = run.end(process, {0, KILLED if kills else SAVED} if number else {0})
            judge(run, code, number)
        require_equal(undisturbed, run, every_checkpoint=kills)
        run.remove()
    return rounds


class Resumes:
    """What the starts after a kill began with."""

    def __init__(self, name):
        self.interval, self.expected, self.past_zero, self.most_lost = interval(name, 'checkpoint'), 0, 0, 0

    def judge(self, run, code, _):
        """Of a process that is gone. It must have begun at least at the checkpoint that should have been there."""
        if 'parameters,' in run.errors and self.expected > 0:
            run.require(run.went_on_from() >= self.expected, f'goes on from {run.went_on_from()}, not {self.expected}')
            self.past_zero += 1
        if code == 0:
            self.expected = 0
            return
        # A step's line comes before its save, and a save begins when the one before it is done.
        reached, step = run.last_step(), newest(run)
        begun = (reached - 1) // self.interval * self.interval
        run.require(step >= begun - self.interval, f'step {reached}, newest {step}')
        run.require(step >= self.expected, f'checkpoint {self.expected} is gone, newest is {step}')
        self.expected = step
        self.most_lost = max(self.most_lost, reached - step)


def kill(trials, random, name, count):
    resumes, rounds, kills = Resumes(name), 0, 0
    # A few kills may all come before the first checkpoint.
    while kills == 0 or (count >= 4 and resumes.past_zero == 0 and kills < 8 * count):
        rounds += stop_at_random(trials, random, name, count, [signal.SIGKILL], resumes.judge)
        kills += count
    trials.undisturbed(name).require(resumes.past_zero > 0 or count < 4, 'no start went on from a checkpoint')
    return (f'kill -9, {name}: {kills} kills in {rounds} runs, {resumes.past_zero} resumed past step 0, at most {resumes.most_lost} steps '
            'lost; bitwise identical')


def ask(trials, random, name, count):
    seen = {'start-up': 0, 'training': 0, 'evaluation': 0, 'finished': 0}

    def judge(run, code, number):
        if code == 0:
            seen['finished'] += number is not None
        elif 'during start-up' in run.errors:
            seen['start-up'] += 1
        else:
            saved = re.search(r'saved after step (\d+) of', run.errors)
            run.require(saved and int(saved[1]) == newest(run), f'75, but the newest is {newest(run)}')
            seen['evaluation' if was_in_evaluation(run, name) else 'training'] += 1

    rounds = stop_at_random(trials, random, name, count, [signal.SIGTERM, signal.SIGUSR1], judge)
    found = ', '.join(f'{number} in {where}' if where != 'finished' else f'{number} when it was done already'
                      for where, number in seen.items())
    return f'TERM and USR1, {name}: {count} signals in {rounds} runs: {found}; bitwise identical'


def was_in_evaluation(run, name):
    """Whether the newest state waits for an evaluation."""
    progress = json.loads((run.checkpoints()[0] / 'state.json').read_text())['progress']
    step = progress['step']
    return step > 0 and step % interval(name, 'validation') == 0 and progress['validated'] < step


def checks(trials):
    kills = trials.options.kills or (200 if trials.thorough else 20)
    signals = trials.options.signals or (100 if trials.thorough else 10)
    random, shares = trials.random(), {'mlp': 0.5, 'cnn': 0.4, 'resnet': 0.1}
    for name, share in shares.items():
        yield partial(kill, trials, random, name, max(1, round(share * kills)))
    for name, share in shares.items():
        if name != 'resnet' or trials.thorough:
            yield partial(ask, trials, random, name, max(1, round(share * signals)))
