#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the job scripts with the program in a real Slurm of its own: run.py TRAINER [CASE...]

All cases at once, in a cluster for each kind of site. Exit code 1: a case failed; 69: no Slurm could be started; 77:
likewise, with ALLOW_NO_SLURM=1.
"""

import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # into the sources
import cases
import cluster
import jobs

SKIPPED, UNAVAILABLE = 77, 69


def run_case(case, name, site, uncut):
    begin = time.monotonic()
    problem = None
    try:
        case(site, uncut)
    except jobs.LeftOut as reason:
        print(f"left out        {name}: {reason}", flush=True)
        return None
    except subprocess.CalledProcessError as error:
        problem = f"{error}\n{error.stdout}{error.stderr}"
    except Exception as error:
        problem = str(error) or repr(error)
    print(f"{'FAILED' if problem else 'passed'}  {time.monotonic() - begin:4.0f} s  {name}", flush=True)
    return f"{name}: {problem}" if problem else None


def run_site(extra, chosen, workspace, trainer, uncut):
    label = extra or "no RequeueExit"
    wanted = [case for case in cases.SITES[extra] if not chosen or case.__name__ in chosen]
    wanted += [case for case in cases.TRIALS if not extra and case.__name__ in chosen]
    with cluster.Cluster(workspace / label.replace(" ", "-"), extra) as slurm:
        site = jobs.Site(slurm, trainer)
        with concurrent.futures.ThreadPoolExecutor(max_workers=max(len(wanted), 1)) as pool:
            return list(pool.map(lambda case: run_case(case, f"{case.__name__} ({label})", site, uncut), wanted))


def run(trainer, workspace, chosen):
    cluster.find_programs()
    uncut = jobs.run_uncut(trainer, workspace / "uncut")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        sites = pool.map(lambda extra: run_site(extra, chosen, workspace, trainer, uncut), cases.SITES)
        results = [result for site in sites for result in site]
    problems = [problem for problem in results if problem]
    print("\n".join(problems))
    print(f"{len(results) - len(problems)} passed, {len(problems)} failed")
    return 1 if problems or not results else 0


def test(trainer, chosen):
    # Short, since the names of sockets in it must be.
    workspace = pathlib.Path(tempfile.mkdtemp(prefix="trainer-slurm-"))

    def take_down(*_):
        cluster.end_children()
        shutil.rmtree(workspace, ignore_errors=True)
        os._exit(143)

    signal.signal(signal.SIGTERM, take_down)
    cluster.adopt_orphans()
    code = None
    try:
        code = run(trainer, workspace, chosen)
    except cluster.CannotStart as reason:
        print(f"slurm: no Slurm can be started here: {reason}", file=sys.stderr)
        if os.environ.get("ALLOW_NO_SLURM") == "1":
            print("slurm: left out, since ALLOW_NO_SLURM=1", file=sys.stderr)
            code = SKIPPED
        else:
            print("slurm: scripts/setup.sh --tests installs it; ALLOW_NO_SLURM=1 leaves this test out", file=sys.stderr)
            code = UNAVAILABLE
    finally:
        cluster.end_children()
        if code == 1:
            print(f"slurm: what the daemons and jobs wrote is in {workspace}")
        else:
            shutil.rmtree(workspace)
    return code


def main():
    """Works in a second process, which takes all down whatever becomes of this one."""
    worker = os.fork()
    if worker == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        cluster.die_with_parent(signal.SIGTERM)
        return test(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.kill(worker, signal.SIGTERM))
    return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
