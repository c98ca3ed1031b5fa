# SPDX-License-Identifier: Apache-2.0
"""What all trials share: programs and libraries, numbers of trials, and runs that nobody disturbs."""
import os
import random
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from recipes import RECIPES
from run import Run

AT_ONCE = 2 * os.cpu_count()  # most of a small run's time is waiting for the disk


def side_by_side(checks, count=AT_ONCE):
    """Calls them, `count` at a time; yields in their order what each returns."""
    with ThreadPoolExecutor(count) as pool:
        yield from pool.map(lambda check: check(), checks)


class Trials:
    def __init__(self, options, work, patience):
        self.options, self.work, self.patience = options, work, patience
        self.trainer, self.thorough, self.seed = options.trainer, options.thorough, options.seed
        self.faults, self.memory_faults = options.faults, options.memory_faults
        self.lock, self.finished = threading.RLock(), {}

    def random(self, offset=0):
        """A part draws its own numbers, so that it can be repeated alone."""
        return random.Random(self.seed + offset)

    def ask(self, directory, words):
        """Starts the program there with these words, and waits for its answer."""
        return subprocess.run([self.trainer, *words], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors='replace', timeout=self.patience, env={**os.environ, 'OMP_WAIT_POLICY': 'passive'})

    def undisturbed(self, name, words=()):
        """A finished run of the recipe of that name, made once."""
        with self.lock:
            if (name, *words) not in self.finished:
                run = Run(self, f'{name}, undisturbed {len(self.finished)}', RECIPES[name], words)
                run.finish()
                self.finished[name, *words] = run
            return self.finished[name, *words]
