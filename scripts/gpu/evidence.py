# SPDX-License-Identifier: Apache-2.0
"""Rows of docs/gpu-evidence.tsv: each is a function that does something on a GPU and returns a figure.

A row has a part and the seconds that it may take. Those of a part come to six minutes at most, which is a call of
scripts/gpu/check.sh. A row that fails is written as such, and the others go on.
"""
import dataclasses
import datetime
import filecmp
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("correct", "speed", "features", "fusion", "products", "profiles", "text", "tools", "ranks", "division", "gpus", "scaling", "splits", "llama")
ROWS = {}


class Failed(Exception):
    """Its text becomes the row's figure."""


@dataclasses.dataclass
class Row:
    part: str
    seconds: int
    function: object


def row(part, seconds, *ids):
    """Registers a function. With several ids it returns a dictionary: a figure for each."""
    def register(function):
        for name in ids or (function.__name__,):
            ROWS[name] = Row(part, seconds, function)
        return function
    return register


def descriptions():
    """The meaning of each id of docs/gpu-evidence.tsv, in the table's order."""
    lines = (ROOT / "docs/gpu-evidence.tsv").read_text().splitlines()[2:]
    return {line.split("\t")[0]: line.split("\t")[1] for line in lines}


@dataclasses.dataclass
class Run:
    """A finished training."""
    directory: pathlib.Path

    def summary(self):
        return json.loads((self.directory / "summary.json").read_text())

    def metrics(self, split="train"):
        lines = (self.directory / "metrics.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["split"] == split]

    def losses(self):
        return [line["loss"] for line in self.metrics()]

    def weights(self):
        return self.directory / "model.safetensors"


class Check:
    def __init__(self, bin_directory, results, gpu, commit):
        self.bin, self.results, self.gpu, self.commit = pathlib.Path(bin_directory), pathlib.Path(results), gpu, commit
        self.data = os.environ.get("DATA", "/usr/share/datasets/fashion-mnist")
        os.environ["XDG_CACHE_HOME"] = str(self.results / "cache")
        self.forget()
        self.deadline = None
        self.commands = []
        self.table = self.results / "evidence.tsv"
        if not self.table.exists():
            self.table.write_text("".join((ROOT / "docs/gpu-evidence.tsv").read_text().splitlines(True)[:2]))

    def forget(self):
        """Files that earlier runs kept for later ones."""
        shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)

    def run(self, name, command, code=0):
        """Runs a command, its output in a log. Throws Failed if its exit code is another, or the row's time is over."""
        command = [str(word) for word in command]
        shown = " ".join(command)
        for folder in (self.results, self.bin, ROOT):
            shown = shown.replace(f"{folder}/", "")
        self.commands.append(shown)
        log = self.results / (name + ".log")
        with open(log, "w") as output:
            try:
                process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True)
                status = process.wait(max(1, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # a profiler's program, too
                process.wait()
                raise Failed(f"{name} did not end in time") from None
            except OSError as problem:
                raise Failed(f"{command[0]}: {problem.strerror}") from None
        text = log.read_text(errors="replace")
        if status != code:
            last = (text.strip().splitlines() or ["no output"])[-1]
            raise Failed(f"{name} ended with {status}: {last}")
        return text

    def train(self, name, recipe, *words, device="cuda", code=0):
        """Trains in a directory of its own, from the beginning."""
        directory = self.results / "runs" / name
        shutil.rmtree(directory, ignore_errors=True)
        return self.resume(name, recipe, *words, device=device, code=code)

    def resume(self, name, recipe, *words, device="cuda", code=0):
        directory = self.results / "runs" / name
        self.run(name, [self.bin / "trainer", "--config", ROOT / f"configs/{recipe}.yaml", f"device.type={device}",
                        f"run.output_dir={directory}", *words], code=code)
        return Run(directory)

    def cases(self, name, *patterns):
        """Cases of test_cuda. A skipped one is not evidence."""
        text = self.run(name, [self.bin / "test_cuda", *patterns])
        lines = [line for line in text.splitlines() if line.startswith(("All tests passed", "test cases:", "assertions:"))]
        if "skipped:" in text or not lines:
            raise Failed("skipped: " + text.partition("skipped:")[2].split("\n")[0].strip())
        return lines[-1]

    def write(self, name, figure):
        what = descriptions()[name]
        command = "; ".join(dict.fromkeys(self.commands))[:300]
        cells = (name, what, datetime.date.today().isoformat(), self.commit, self.gpu, command, figure)
        with open(self.table, "a") as table:
            table.write("\t".join(" ".join(str(cell).split()) for cell in cells) + "\n")
        print(f"{name:22} {figure}", flush=True)

    def measure(self, names):
        """Calls the function that these rows share; returns whether it gave each of them a figure."""
        self.commands = []
        self.deadline = time.monotonic() + ROWS[names[0]].seconds
        try:
            figures = ROWS[names[0]].function(self)
        except Failed as problem:
            figures = f"failed: {problem}"
        except Exception as problem:  # a file that is missing or has other contents
            figures = f"failed: {type(problem).__name__}: {problem}"
        passed = True
        for name in names:
            figure = figures if isinstance(figures, str) else figures.get(name, "failed: no figure")
            passed &= not figure.startswith("failed")
            self.write(name, figure)
        return passed


def same_files(first, second, what="weights"):
    if not filecmp.cmp(first, second, shallow=False):
        raise Failed(f"{what} differ")


def finished(table):
    """Ids that have a figure."""
    cells = [line.split("\t") for line in table.read_text().splitlines()[2:]]
    return {cell[0] for cell in cells if not cell[6].startswith("failed")}


def main(bin_directory, results, gpu, commit, missing, minutes, *words):
    """Measures the rows of the parts or ids in `words`, in their order. With `missing` ("1") those that have a figure are left
    out, and so are rows that may need more than the rest of the minutes ("" for no limit). Returns 70 if one failed, 75 if some are left.
    """
    strange = [word for word in words if word not in PARTS and word not in ROWS]
    if strange:
        print(f"check: neither a part ({', '.join(PARTS)}) nor a row: {', '.join(strange)}", file=sys.stderr)
        return 64
    check = Check(bin_directory, results, gpu, commit)
    done = finished(check.table) if missing == "1" else set()
    together = {}  # names by function, each function once
    for word in words:
        for name, entry in ROWS.items():
            if word in (name, entry.part) and name not in done and name not in together.get(entry.function, ()):
                together.setdefault(entry.function, []).append(name)
    end = time.monotonic() + 60 * float(minutes or "inf")
    passed, left = [], []
    for names in together.values():
        if time.monotonic() + ROWS[names[0]].seconds > end:
            left += names
        else:
            passed.append(check.measure(names))
    if left:
        print(f"left for another call: {', '.join(left)}")
    return 70 if not all(passed) else 75 if left else 0


def print_rows():
    for name, entry in ROWS.items():
        print(f"{name}\t{entry.part}\t{entry.seconds}")
