# SPDX-License-Identifier: Apache-2.0
"""Prints the objects of a build that a changed copy of its sources can take over: those compiled by the same command of
files that are the same. Paths are relative to the build's directory.

usage: reusable_objects.py SOURCES BUILD COPY BUILD_OF_THE_COPY
"""
import json
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

sources, build, copy, copy_build = (Path(argument).resolve() for argument in sys.argv[1:])


def commands(source_dir, build_dir):
    """The options of each output's compilation, without the paths that differ."""
    found = {}
    for entry in json.loads((build_dir / 'compile_commands.json').read_text()):
        text = entry['command'].replace(str(build_dir), 'BUILD').replace(str(source_dir), 'SOURCES')
        output = re.search(r' -o (\S+)', text)
        found[output[1]] = text[text.index(' -'):]
    return found


def dependencies():
    """Each output with the files that its compiler has read, as ninja has noted them."""
    found = {}
    notes = subprocess.run(['ninja', '-C', build, '-t', 'deps'], check=True, capture_output=True, text=True).stdout
    for line in notes.splitlines():
        if line.startswith(' '):
            files.append(build / line.strip())
        elif line:
            output, _, state = line.partition(': ')
            files = found.setdefault(output, []) if state.endswith('(VALID)') else []
    return found


def content(path, root):
    """A file's contents; several sources that are compiled as one are listed with their paths."""
    return path.read_bytes().replace(bytes(root), b'SOURCES')


@lru_cache(None)
def changed_at(path):
    """When a file was last written; infinite for one that the copy has otherwise."""
    path = path.resolve()
    if path.is_relative_to(build):
        other = copy_build / path.relative_to(build)
    elif path.is_relative_to(sources):
        other = copy / path.relative_to(sources)
    else:
        return 0
    if path.suffix == '.gch':  # its own files are among those read
        return 0
    same = path.is_file() and other.is_file() and content(path, sources) == content(other, copy)
    return path.stat().st_mtime if same else float('inf')


here, there = commands(sources, build), commands(copy, copy_build)
for output, files in dependencies().items():
    item = build / output
    if output in here and here[output] == there.get(output) and item.is_file():
        if all(changed_at(file) <= item.stat().st_mtime for file in files):
            print(output)
