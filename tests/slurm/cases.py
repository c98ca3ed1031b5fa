# SPDX-License-Identifier: Apache-2.0
"""Events in a run, and the required results. `uncut`: the bits of an undisturbed run."""

import subprocess
import time

import mpis
from jobs import RECIPE, Job, LeftOut, outside_slurm, run_uncut

# Until a limit of a minute ends a run of a second or two, which it may do half a minute late.
LONG = {"PAUSE": "4"}
SOME = range(1, 9)  # restarts: the slower the machine, the more; what a run must show does not depend on it


def signal_before_the_end(site, uncut):
    """Slurm may send its signal up to a minute early, while the program starts too, or on time: the program's own clock must
    not come before it."""
    job = site.train("before", "--time=1", "--signal=B:USR1@10", overrides=["run.max_wall_time=1h"], **LONG)
    job.expect_end("COMPLETED", "0:0", SOME)
    stops = job.expect("^(?:SIGUSR1: stopping after step|stopped during start-up: nothing is lost)")
    saved = [stop for stop in stops if stop.startswith("SIGUSR1")]
    job.expect("resuming after step [0-9]", len(saved))
    job.expect_bits(uncut)


def limit_that_the_program_asks_for(site, uncut):
    job = site.train("asked", "--time=1", "--signal=B:USR1@0", **LONG)
    job.expect_uncut_bits(uncut, SOME)
    job.expect(f"^Slurm ends job {job.number} in (?:0:[345][0-9]|1:00); the run will be saved before")
    job.expect("^the time of the Slurm job is nearly over: stopping after step")


def time_limit_without_warning(site, uncut):
    """Slurm does not queue this job again, but TERM comes first."""
    job = site.train("timeout", "--time=1", "--signal=B:USR1@0", overrides=["run.max_wall_time=1h"], **LONG)
    job.expect_end("TIMEOUT", None, (0,))
    job.expect("^saved after step [1-9]")
    site.train("timeout-again", run=job.run, paced=0, overrides=["run.max_wall_time=1h"]).expect_rest_of_run(uncut)


def preemption(site, uncut):
    job = site.train("preempted", "--nodelist=node2", "--partition=low")
    job.await_training()
    site.cluster.call("sbatch", "--partition=high", "--nodelist=node2", "--exclusive", "--output=/dev/null",
                      "--wrap=sleep 1", cwd=site.home)
    # Slurm 24 starts a preempted job again when it is finished, and the job then says so.
    job.expect_end("COMPLETED", "0:0", (1, 2))
    job.expect("resuming after step [1-9]", 1)
    job.expect("this run is finished", int(job.facts()["Restarts"]) - 1)
    job.expect_bits(uncut)
    job.expect("^SIG(TERM|USR1): stopping after step")


def term_of_the_step(site, uncut):
    job = site.train("term")
    job.await_training()
    site.cluster.call("scancel", "--signal=TERM", job.number)
    job.expect_uncut_bits(uncut)
    job.expect("^SIGTERM: stopping after step")


def requeue_by_hand(site, uncut):
    job = site.train("requeued")
    job.await_training()
    site.cluster.call("scontrol", "requeue", job.number)
    job.expect_uncut_bits(uncut)
    job.expect("^SIG(TERM|USR1): stopping after step")


def cancelled(site, uncut):
    """It is saved, and does not come back by itself."""
    job = site.train("cancelled")
    job.await_training()
    site.cluster.call("scancel", job.number)
    job.expect_end("CANCELLED", None, (0,))
    job.expect("^saved after step [1-9]")
    site.train("cancelled-again", run=job.run, paced=0).expect_rest_of_run(uncut)


def signals_while_it_starts(site, uncut):
    """Whatever the launcher makes of an early signal: the run is neither lost nor taken for finished."""
    jobs = []
    for i, delay in enumerate((0, 0.03, 0.1, 0.2)):
        job = site.train(f"early{i}", paced=0)
        job.await_log("start on")
        time.sleep(delay)
        site.cluster.call("scancel", "--batch", "--signal=USR1", job.number)
        jobs.append(job)
    for job in jobs:
        job.expect_end("COMPLETED", "0:0", (0, 1, 2))
        job.expect_bits(uncut)


def restart_limit(site, uncut):
    job = site.train("limited", paced=2, MAX_RESTARTS="1")
    for restart in (0, 1):
        job.await_log(rf"(?s)restart {restart} of at most 1: start on.*step \d+/")
        site.cluster.call("scancel", "--signal=TERM", job.number)
    job.expect_end("FAILED", "1:0", (1,))
    job.expect("restart 1 of at most 1: not queued again; the last checkpoint remains: raise MAX_RESTARTS")
    site.train("limited-again", run=job.run, paced=0).expect_rest_of_run(uncut)


def wrong_recipe(site, uncut):
    job = site.train("wrong", overrides=["optimizer.lr=-1"])
    job.expect_end("FAILED", "78:0", (0,))


SWEEP = ("sweep={method: grid, metric: loss, halving: {first: 20000ba, factor: 3}, parameters: "
         "[{choice: {key: optimizer.lr, values: [0.01, 0.03, 0.05, 0.1, 0.2, 0.4]}}]}")


def sweep_table(directory):
    """Without the columns that are measured."""
    rows = [line.split(",") for line in (directory / "sweep.csv").read_text().splitlines()]
    measured = [i for i, name in enumerate(rows[0]) if name in ("samples_per_s", "peak_bytes", "joules_per_sample", "seconds")]
    return [[cell for i, cell in enumerate(row) if i not in measured] for row in rows]


def sweep(site, uncut):
    """Four tasks share the trials; one of them is cancelled, another comes back. The table is that of one process."""
    subprocess.run([site.trainer, "sweep", "--config", RECIPE, SWEEP, f"run.output_dir={site.home / 'alone'}"],
                   check=True, capture_output=True, env=outside_slurm())
    together = site.home / "together"
    array, log = site.submit("sweep", "--output=sweep-%a.log", script="sweep.sbatch", paced=0,
                             overrides=(SWEEP, f"run.output_dir={together}"))
    tasks = [Job(site.cluster, f"{array}_{i}", log.with_name(f"sweep-{i}.log"), together) for i in range(4)]
    for task in tasks[:2]:
        task.await_log(r"trial \d+ trains to")
    site.cluster.call("scancel", tasks[0].number)
    site.cluster.call("scancel", "--batch", "--signal=USR1", tasks[1].number)
    tasks[0].expect_end("CANCELLED", None, (0,))
    for task in tasks[1:]:
        task.expect_end("COMPLETED", "0:0", (0, 1))
    # Whoever ends last writes the table; a task that is not needed leaves before.
    if sweep_table(together) != sweep_table(site.home / "alone"):
        tasks[1].fail("the table differs from that of one process")


def train_on_two_nodes(site, name, words, script="train_mpi.sbatch", **variables):
    """Two ranks, on nodes of their own: they would preempt other cases' jobs, or be preempted."""
    if not site.trainer.with_name("libtrainer_mpi_openmpi.so").exists():
        raise LeftOut("the program was built without MPI")
    return site.train(name, "--nodes=2", "--nodelist=node3,node4", "--ntasks-per-node=1",
                      overrides=words, script=script, paced=0, **variables)


RANKS_WORDS = ("training.max_duration=20000ba", "checkpoint.interval=500ba", "parallelism.timeout=10s", "run.grace_period=4s")


def killed_rank(site, uncut):
    """The other one leaves, and the job comes back on both nodes."""
    expected = run_uncut(site.trainer, site.home / "uncut-ranks", "parallelism.data=2", *RANKS_WORDS)
    jobs = [train_on_two_nodes(site, f"killed{rank}", RANKS_WORDS) for rank in (0, 1)]
    for rank, job in enumerate(jobs):
        job.await_checkpoint()
        job.kill_rank(rank)
    for job in jobs:
        job.expect_uncut_bits(expected)
        job.expect("(2 ranks x 4)", 2)
        job.expect("restart 0 of at most 50: ended with 76$", 1)


def ways_to_start(site, ways):
    """Ranks of an MPI, started by srun with its PMI or by its own mpirun: stopped, then one is killed."""
    expected = run_uncut(site.trainer, site.home / "uncut-ways", "parallelism.data=2", *RANKS_WORDS)
    jobs = []
    for name, ranks_by in ways:
        [mpi] = mpis.named(name)
        variables = mpi.variables(site.home) if ranks_by == "mpirun" else mpi.variables_for_srun(site.home)
        jobs.append(train_on_two_nodes(site, f"{name}-{ranks_by}", RANKS_WORDS, RANKS_BY=ranks_by, **variables))
    for job in jobs:
        job.await_checkpoint()
        site.cluster.call("scancel", "--batch", "--signal=USR1", job.number)
    for job in jobs:
        job.await_log("(?s)restart 1 of at most 50: start on.*resuming after step [1-9]")
        job.kill_rank(1)
    for job in jobs:
        job.expect_uncut_bits(expected, (2,))
        job.expect("restart 0 of at most 50: ended with 75$", 1)
        job.expect("restart 1 of at most 50: ended with 76$", 1)


def two_ways_to_start(site, uncut):
    ways_to_start(site, (("mpich4", "auto"), ("openmpi4", "mpirun")))


def all_ways_to_start(site, uncut):
    for mpi in mpis.ALL:
        ways_to_start(site, [(mpi.name, ranks_by) for ranks_by in ("auto", "mpirun")])


def printed_script(site, uncut):
    """That of `trainer slurm` needs no other file."""
    printed = subprocess.run([site.trainer, "slurm", "--config", RECIPE, "--nodes", "2", "--cpus-per-task", "1", "--time", "5",
                              *RANKS_WORDS], check=True, capture_output=True, env=outside_slurm()).stdout
    script = site.home / "printed.sbatch"
    script.write_bytes(printed)
    job = train_on_two_nodes(site, "printed", (), script=script)
    job.expect_end("COMPLETED", "0:0", (0,))
    job.expect("20000 steps of 8 samples .2 ranks x 4.", 1)


def failed_rank(site, uncut):
    """An error of one rank is that of the job: another try would not mend it."""
    job = train_on_two_nodes(site, "failed", (), RANK_1="device.memory=1MiB")
    job.expect_end("FAILED", "71:0", (0,))


def refused_rank(site, uncut):
    """One that ends at its start: srun ends the other, and that one's code, 75 or 143, is higher."""
    job = train_on_two_nodes(site, "refused", (), RANK_1="--no-such-option")
    job.expect_end("FAILED", "64:0", (0,))


def missing_program(site, uncut):
    job = train_on_two_nodes(site, "missing", (), TRAINER="no-such-trainer")
    job.expect_end("FAILED", "2:0", (0,))


def file_on_each_node(site, uncut):
    """One copy for each node, and the ranks find it."""
    samples = site.home / "samples"
    samples.write_text("samples")
    job = train_on_two_nodes(site, "staged", ("data.train=${env:STAGED}", "training.max_duration=50ba"), STAGE=str(samples),
                             STAGE_TO=str(site.home / "node"))
    job.expect_end("COMPLETED", "0:0", (0,))
    job.expect("^node[34]: (copied to .*/node/samples|.*/node/samples is intact)$", 2)
    samples.write_text("others")
    samples.with_suffix(".sha256").write_text(f"{'0' * 64}  samples\n")
    wrong = train_on_two_nodes(site, "staged-wrong", (), STAGE=str(samples), STAGE_TO=str(site.home / "node"))
    wrong.expect_end("FAILED", "65:0", (0,))


# By a site's settings for exit code 75.
SITES = {
    "": (signal_before_the_end, limit_that_the_program_asks_for, time_limit_without_warning, preemption,
         term_of_the_step, requeue_by_hand, cancelled, signals_while_it_starts, restart_limit, wrong_recipe, sweep, killed_rank, two_ways_to_start, printed_script,
         failed_rank, refused_rank, missing_program, file_on_each_node),
    "RequeueExit=75": (signal_before_the_end, preemption, term_of_the_step, requeue_by_hand, cancelled,
                       restart_limit, sweep),
}
# Run only if they are named.
TRIALS = (all_ways_to_start,)
