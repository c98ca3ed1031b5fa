# SPDX-License-Identifier: Apache-2.0
"""Runs submitted with the scripts of scripts/slurm, and their results."""

import hashlib
import os
import pathlib
import re
import signal
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts" / "slurm"
RECIPE = HERE / "recipe.yaml"


class Failure(Exception):
    """The expected and the actual result."""


class LeftOut(Exception):
    """A requirement of a case that is missing."""


def outside_slurm():
    """The environment of a process that is not part of a job."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
    return environment | {"OMP_WAIT_POLICY": "passive"}


def run_uncut(trainer, directory, *overrides):
    """The bits of a run that nothing has happened to."""
    subprocess.run([trainer, "--config", RECIPE, f"run.output_dir={directory}", *overrides], check=True,
                   capture_output=True, env=outside_slurm())
    return bits(directory)


def bits(directory):
    """Of the weights, and of the optimiser's state in the last checkpoint."""
    last = max((directory / "checkpoints").glob("step-*"))
    files = [directory / "model.safetensors", last / "optimizer.safetensors"]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


class Site:
    """A cluster with a folder for runs and logs, and the program that is tested."""

    def __init__(self, cluster, trainer):
        self.cluster = cluster
        self.trainer = trainer
        self.home = cluster.root / "home"
        self.home.mkdir()

    def submit(self, name, *options, script="train.sbatch", overrides=(), paced=1, **variables):
        variables = {"TRAINER": str(HERE / "paced_trainer.sh"), "TRAINER_BINARY": str(self.trainer), "RECIPE": str(RECIPE),
                     "TRAIN_ONE": str(SCRIPTS / "train.sbatch"),
                     "PACED": str(paced),
                     # By default Open MPI does not use this, the interface of both emulated nodes.
                     "OMPI_MCA_btl_tcp_if_include": "lo"} | variables
        log = self.home / f"{name}.log"
        options = ("--parsable", f"--job-name={name}", "--cpus-per-task=1", "--time=5", "--nodelist=node1",
                   f"--output={log}", *options)
        number = self.cluster.call("sbatch", *options, str(SCRIPTS / script), *overrides, cwd=self.home,
                                   variables=variables).strip()
        return number, log

    def train(self, name, *options, run=None, overrides=(), **extra):
        """A run of its own, or one that an earlier job has begun (`run`: its directory)."""
        run = run or self.home / name
        number, log = self.submit(name, *options, overrides=(f"run.output_dir={run}", *overrides), **extra)
        return Job(self.cluster, number, log, run)


class Job:
    def __init__(self, cluster, number, log, run):
        self.cluster, self.number, self.log_file, self.run = cluster, number, log, run

    def facts(self):
        text = self.cluster.call("scontrol", "show", "job", "-o", self.number)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def log(self):
        return self.log_file.read_text() if self.log_file.exists() else ""

    def fail(self, text):
        raise Failure(f"job {self.number}: {text}\n{self.facts()}\n{self.log()}")

    def expect(self, pattern, count=None):
        found = re.findall(pattern, self.log(), re.MULTILINE)
        if len(found) != count if count is not None else not found:
            self.fail(f"expected {'' if count is None else f'{count} times '}{pattern!r} in its log")
        return found

    def await_log(self, pattern, seconds=100):
        self._await(lambda: re.search(pattern, self.log()), f"no {pattern!r} in its log", seconds, 0.05)

    def await_training(self):
        self.await_log(r"step \d+/\d+")

    def await_checkpoint(self):
        self._await(lambda: any(self.run.glob("checkpoints/step-*")), "it saves nothing", 100, 0.05)

    def kill_rank(self, rank):
        """The process of the program itself."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = dict(word.split("=", 1) for word in (entry / "environ").read_text(errors="replace").split("\0") if "=" in word)
                is_program = (entry / "comm").read_text() == "trainer\n"
            except OSError:
                continue
            # What mpirun starts has the variables of its own step too.
            given = [variables[name] for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID") if name in variables]
            if is_program and variables.get("SLURM_JOB_ID") == self.number and given[:1] == [str(rank)]:
                os.kill(int(entry.name), signal.SIGKILL)
                return
        self.fail(f"rank {rank} has no process")

    def await_end(self, seconds=160):
        """Of the job, whatever its number of starts."""
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
        self._await(lambda: self.facts()["JobState"] in over, "it does not end", seconds, 1)

    def _await(self, ready, problem, seconds, pause):
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                self.fail(f"{problem} after {seconds} s")
            time.sleep(pause)

    def expect_end(self, state, code, restarts):
        """`code`: as Slurm writes it, None for any."""
        self.await_end()
        facts = self.facts()
        code = code or facts["ExitCode"]
        if (facts["JobState"], facts["ExitCode"]) != (state, code) or int(facts["Restarts"]) not in restarts:
            self.fail(f"expected {state} with {code} and restarts in {restarts}")
        time.sleep(1)  # the log may arrive after the state

    def expect_uncut_bits(self, uncut, restarts=(1,)):
        """Finished after this many restarts, each of which continued after a step."""
        self.expect_end("COMPLETED", "0:0", restarts)
        self.expect("resuming after step [1-9]", int(self.facts()["Restarts"]))
        self.expect_bits(uncut)

    def expect_rest_of_run(self, uncut):
        """A run begun by an earlier job, finished at once."""
        self.expect_end("COMPLETED", "0:0", (0,))
        self.expect(r"resuming after step [1-9]")
        self.expect_bits(uncut)

    def expect_bits(self, uncut):
        if bits(self.run) != uncut:
            self.fail("the bits of its end are not those of an uncut run")
