#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dry run of scripts/gpu/check.sh: each part with stand-ins for the GPU, the tools and the program. Usage: run.py TRAINER WORK"""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TRAINER, WORK = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
SIX_MINUTES = 360
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts/gpu"))
import evidence  # noqa: E402
import rows  # noqa: E402,F401


def expect(condition, text):
    if not condition:
        sys.exit(f"gpu_check: {text}")


def check(*words, code=0, tools=True, results="results", script="check.sh", **environment):
    path = f"{WORK / 'tools'}:{os.environ['PATH']}" if tools else os.environ["PATH"]
    done = subprocess.run(
        [ROOT / "scripts/gpu" / script, "--package", WORK / "package.tar.gz", "--results", WORK / results, *words],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(WORK / "modules"), "REAL_TRAINER": str(TRAINER), "TRAINER_COMMIT": "a commit",
             "PYTHONDONTWRITEBYTECODE": "1", "FACTS": str(WORK), **environment}, capture_output=True, text=True)
    output = done.stdout + done.stderr
    expect(done.returncode == code, f"{words} ended with {done.returncode}, expected {code}:\n{output}")
    return output


def found(results="results"):
    lines = (WORK / results / "evidence.tsv").read_text().splitlines()[2:]
    cells = [line.split("\t") for line in lines]
    expect(all(len(row) == 7 for row in cells), "a row has not seven cells")
    return {row[0]: row for row in cells}


def make_standins():
    shutil.rmtree(WORK, ignore_errors=True)
    for folder, names in {"tools": ("nvidia-smi", "nsys", "ncu", "compute-sanitizer", "sbatch", "trtexec", "cmake", "mpirun"),
                          "package/bin": ("trainer", "test_cuda")}.items():
        (WORK / folder).mkdir(parents=True)
        for name in names:
            shutil.copy(HERE / "standin.py", WORK / folder / name)
    with tarfile.open(WORK / "package.tar.gz", "w:gz") as tarball:
        tarball.add(WORK / "package", "trainer-0.1.0")
    # PyTorch's side prints its line as soon as it imports torch.
    (WORK / "modules/torch").mkdir(parents=True)
    (WORK / "modules/torch/__init__.py").write_text(
        'print(\'{"version": "2.11", "ms_per_step": [30, 31], "reserved_bytes": 1100}\')\nraise SystemExit(0)\n')
    (WORK / "facts.sh").write_text("echo '{\"gpu\": \"stand-in\"}'\n")


make_standins()
ids = set(evidence.descriptions())
expect(set(evidence.ROWS) == ids, f"rows without a command or a description: {set(evidence.ROWS) ^ ids}")
for part in evidence.PARTS:
    limits = {entry.function: entry.seconds for entry in evidence.ROWS.values() if entry.part == part}
    expect(sum(limits.values()) <= SIX_MINUTES, f"the rows of {part} may take {sum(limits.values())} s, more than {SIX_MINUTES}")

for part in reversed(evidence.PARTS):
    # The last row of "llama" reads a run that others have made.
    check(part, SCALING_RUN=str(WORK / "results/runs/shards_llama"))
    expect(set(found()) >= {name for name, entry in evidence.ROWS.items() if entry.part == part}, f"{part} left rows out")
for name, (_, what, _, commit, gpu, command, figure) in found().items():
    expect((commit, gpu) == ("a commit", "NVIDIA Stand-in"), f"{name}: {commit}, {gpu}")
    expect(what and command, f"{name} has no description or no command")
    expect(figure and not figure.startswith("failed"), f"{name}: {figure}")

# The first visit: its rows in their order, each once, with room for the build in half an hour.
HALF_HOUR, ROOM = 1800, 300
listed = subprocess.run([ROOT / "scripts/gpu/first.sh", "--list"], capture_output=True, text=True, check=True).stdout
seconds = {name: int(count) for name, count in map(str.split, listed.splitlines())}
expect(len(seconds) > 10 and sum(seconds.values()) <= HALF_HOUR - ROOM, f"the first visit may take {sum(seconds.values())} s")
expect("left for another call" not in check(script="first.sh", results="first"), "the first visit leaves rows out")
expect(list(found("first")) == list(seconds), f"the first visit measured {list(found('first'))}")
before = (WORK / "first/evidence.tsv").read_text()
check(script="first.sh", results="first")
expect((WORK / "first/evidence.tsv").read_text() == before, "what was finished was measured again")
# A row that failed is measured again; one that does not fit in the time is left, and said so.
check("amp_trace", code=70, results="again", FAILS="trainer")
check("--missing", "amp_trace", results="again")
expect(found("again")["amp_trace"][6].startswith("scale"), "a row that failed was not measured again")
output = check("--minutes", "1", "amp_trace", "tests", code=75, results="short")
expect("left for another call: tests" in output and list(found("short")) == ["amp_trace"], f"a short call printed {output}")
expect("expected a whole number" in check("--minutes", "soon", code=64), "a strange time is not refused")

# A failure or hang becomes a row; the others continue.
check("tests", "amp_trace", "nan_relu", code=70, results="failing", FAILS="test_cuda")
rows_then = found("failing")
expect(rows_then["tests"][6] == rows_then["nan_relu"][6].replace("nan_relu", "tests") == "failed: tests ended with 3: no output",
       f"tests: {rows_then['tests'][6]}")
expect(rows_then["amp_trace"][6].startswith("scale 65536"), f"amp_trace: {rows_then['amp_trace'][6]}")
check("non_finite_named", code=70, results="hanging", HANGS="trainer")
expect(found("hanging")["non_finite_named"][6] == "failed: non_finite did not end in time", f"{found('hanging')}")

expect("neither a part" in check("corect", code=64), "a misspelt part is not named")
expect("--help" in check("--only", code=64), "an unknown option is not refused")
expect("no GPU on this machine" in check("correct", code=69, tools=False), "a machine without a GPU is not told")
