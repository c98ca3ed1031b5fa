# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed or asked to stop at random moments, and started again with the same command line."""
import re
import signal
import time

from networks import INTERVAL
from runs import KILLED, SAVED, Run, content, require, require_equal


def uncut(context, name):
    """Content and seconds of a run that nobody stops; made once."""
    if name not in context.references:
        run = Run(context.trainer, context.work / f'uncut-{name}', ['--config', str(context.recipes[name])])
        began = time.monotonic()
        code = run.finish()
        require(code == 0, f'the uncut run of {name} ends with {code}: {run.errors}')
        context.references[name] = content(run), time.monotonic() - began
    return context.references[name]


def stop_at_random(context, name, count, choose, wait_for_handlers, judge):
    """Starts runs of a network and stops each at random moments until it is through, `count` stops in all."""
    reference, seconds = uncut(context, name)
    stops = rounds = 0
    while stops < count:
        run = Run(context.trainer, context.work / f'{name}-{choose.__name__}-{rounds}',
                  ['--config', str(context.recipes[name])])
        rounds += 1
        code = None
        while code != 0:
            process = run.start_and_wait_for_handlers() if wait_for_handlers else run.start()
            number = choose(context.random) if stops < count else None
            if number is not None:
                # Signals rather early, for start-up is short; kills late enough to get on.
                time.sleep(context.random.random() ** (3 if wait_for_handlers else 1) * 0.8 * seconds)
                process.send_signal(number)
                stops += 1
            code = process.wait(600)
            judge(run, code, number)
        require_equal(reference, run, every_checkpoint=wait_for_handlers is False)
        context.remove(run)
    return rounds


class Resumes:
    """What the starts after a stop began with."""

    def __init__(self, interval):
        self.interval, self.expected, self.starts, self.past_zero, self.most_lost = interval, 0, 0, 0, 0

    def check(self, run):
        """Of a process that is gone: where it went on from. The program must have begun at least where the
        checkpoint that should have been there was."""
        begun = run.went_on_from()
        if 'parameters,' in run.errors and self.expected > 0:
            require(begun >= self.expected, f'{run.directory}: goes on from {begun}, not {self.expected}')
            self.past_zero += 1
        self.starts += 1


def kill(context, name, count):
    resumes = Resumes(INTERVAL[name])

    def judge(run, code, number):
        require(code in (0, KILLED), f'{name}: exit {code}: {run.errors}')
        resumes.check(run)
        if code == 0:
            resumes.expected = 0
            return
        # A step's line comes before its save, and a save begins when the one before it is done.
        reached, newest = run.last_line(), run.newest()
        begun = (reached - 1) // resumes.interval * resumes.interval
        require(newest >= begun - resumes.interval, f'{name}: step {reached}, newest {newest}')
        require(newest >= resumes.expected, f'{name}: checkpoint {resumes.expected} is gone, newest is {newest}')
        resumes.expected = newest
        resumes.most_lost = max(resumes.most_lost, reached - newest)

    def sigkill(_):
        return signal.SIGKILL

    rounds = kills = 0
    # A few kills may all come before the first checkpoint.
    while kills == 0 or (count >= 4 and resumes.past_zero == 0 and kills < 8 * count):
        rounds += stop_at_random(context, name, count, sigkill, False, judge)
        kills += count
    require(resumes.past_zero > 0 or count < 4, f'{name}: no start went on from a checkpoint')
    context.report(f'kill -9, {name}', f'{kills} kills in {rounds} runs, {resumes.past_zero} resumed past '
                   f'step 0, at most {resumes.most_lost} steps lost; all bits equal')


def ask(context, name, count):
    seen = {'start-up': 0, 'training': 0, 'evaluation': 0, 'finished': 0}

    def judge(run, code, number):
        require(code in ((0, SAVED) if number else (0,)), f'{name}: exit {code} on {number}: {run.errors}')
        if code == 0:
            seen['finished'] += number is not None
        elif 'during start-up' in run.errors:
            seen['start-up'] += 1
        else:
            saved = re.search(r'saved after step (\d+) of', run.errors)
            require(saved and int(saved.group(1)) == run.newest(), f'{name}: 75 but {run.errors}')
            seen['evaluation' if was_in_evaluation(run) else 'training'] += 1

    def term_or_usr1(chooser):
        return chooser.choice([signal.SIGTERM, signal.SIGUSR1])

    rounds = stop_at_random(context, name, count, term_or_usr1, True, judge)
    found = ', '.join(f'{number} in {where}' if where != 'finished' else f'{number} when it was done already'
                      for where, number in seen.items())
    context.report(f'TERM and USR1, {name}', f'{count} signals in {rounds} runs: {found}; all bits equal')


def was_in_evaluation(run):
    """Whether the newest state waits for an evaluation."""
    text = (run.checkpoints()[0] / 'state.json').read_text()
    step, validated = (int(re.search(rf'"{key}": (\d+)', text).group(1)) for key in ('step', 'validated'))
    every = int(re.search(r'interval: (\d+)ba, metrics', (run.directory / run.arguments[1]).read_text()).group(1))
    return step > 0 and step % every == 0 and validated < step


def both(context):
    shares = {'mlp': 0.5, 'cnn': 0.4, 'resnet': 0.1}
    for name, share in shares.items():
        kill(context, name, max(1, round(share * context.kills)))
    for name, share in shares.items():
        if name != 'resnet' or context.thorough:
            ask(context, name, max(1, round(share * context.signals)))
