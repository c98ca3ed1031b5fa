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

import cases
import cluster
import jobs

SKIPPED, UNAVAILABLE = 77, 69


def run_case(case, name, site, uncut):
    begin = time.monotonic()
    problem = None
    try:
        case(site, uncut)
    except subprocess.CalledProcessError as error:
        problem = f"{error}\n{error.stdout}{error.stderr}"
    except Exception as error:
        problem = str(error) or repr(error)
    print(f"{'FAILED' if problem else 'passed'}  {time.monotonic() - begin:4.0f} s  {name}", flush=True)
    return f"{name}: {problem}" if problem else None


def run_site(extra, chosen, workspace, trainer, uncut):
    label = extra or "no RequeueExit"
    wanted = [case for case in cases.SITES[extra] if not chosen or case.__name__ in chosen]
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


def main():
    trainer = pathlib.Path(sys.argv[1]).resolve()
    # An end by signal goes the way of all others, so that nothing stays behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cluster.adopt_orphans()
    # Short, since the names of sockets in it must be.
    workspace = pathlib.Path(tempfile.mkdtemp(prefix="trainer-slurm-"))
    code = None
    try:
        code = run(trainer, workspace, sys.argv[2:])
        return code
    except cluster.CannotStart as reason:
        print(f"slurm: no Slurm can be started here: {reason}", file=sys.stderr)
        if os.environ.get("ALLOW_NO_SLURM") == "1":
            return SKIPPED
        print("slurm: install munge and slurm-wlm (scripts/setup.sh --tests), or leave this out with ALLOW_NO_SLURM=1",
              file=sys.stderr)
        return UNAVAILABLE
    finally:
        cluster.end_children()
        if code == 1:
            print(f"slurm: what the daemons and jobs wrote is in {workspace}")
        else:
            shutil.rmtree(workspace)


if __name__ == "__main__":
    sys.exit(main())
