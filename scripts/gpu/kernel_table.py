#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers, spills, shared memory, blocks per SM and loads in flight of every own CUDA kernel: one table for each architecture.

Reads a build's records (cuda/keep_resources.sh) and compares them with docs/gpu/kernels-sm_*.tsv; --write replaces the tables. --also
compiles the kernels for more architectures first, with the build's options and in a temporary folder, and treats them alike.
A row is a kernel with all its instances: the fewest and the most registers, and the blocks that fit with the most. Another release
of nvcc allocates registers otherwise: its builds are not compared. Loads in flight (scripts/gpu/sass.py) need a disassembler: without one
they are not compared, and no table is written. The bytes are those of all blocks on an SM. Exit codes: 1 if a table differs, or a kernel
spills or breaks a rule of sass.py; 77 if none was compared.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sass

ROOT = Path(__file__).resolve().parents[2]
HEADER = ['kernel', 'file', 'instances', 'threads', 'registers', 'spilled_bytes', 'shared_bytes', 'blocks_per_sm',
          'thread_bytes_in_flight', 'sm_bytes_in_flight']
# Of an SM, from the CUDA programming guide's table of compute capabilities.
REGISTERS, RESERVED_SHARED = 65536, 1024
MOST_BLOCKS = {'80': 32, '90': 32, '100': 32, '120': 24}
THREADS = {'80': 2048, '90': 2048, '100': 2048, '120': 1536}
SHARED = {'80': 164 << 10, '90': 228 << 10, '100': 228 << 10, '120': 100 << 10}

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument('build', type=Path, help='a build with libtrainer_cuda.so')
arguments.add_argument('--write', action='store_true', help='replace the tables by what the build says')
arguments.add_argument('--also', metavar='ARCHITECTURE', nargs='+', default=[], choices=sorted(MOST_BLOCKS), help='compile for these too: 80 100')
options = arguments.parse_args()


def release_of_nvcc(build):
    for path in build.glob('CMakeFiles/*/CMakeCUDACompiler.cmake'):
        return re.search(r'CMAKE_CUDA_COMPILER_VERSION "([\d.]+)"', path.read_text())[1]
    sys.exit(f'{build}: built without nvcc')


def constants():
    """Whole numbers that sources name, by name."""
    found = {}
    for path in [*ROOT.glob('cuda/*.h'), *ROOT.glob('cuda/*.cu')]:
        for line in re.findall(r'constexpr int ([^;]+);', path.read_text()):
            found.update({name: int(value) for name, value in re.findall(r'(k\w+) = (\d+)', line)})
    return found


def threads_of_kernels():
    """Threads of a block, by kernel: from its launch bounds, else the usual argument of `launch`, kThreads."""
    known, found = constants(), {}
    for path in ROOT.glob('cuda/*.cu'):
        for bounds, name in re.findall(r'__global__ void(?: __launch_bounds__\(([^,)]+)[^)]*\))?\s+(\w+)\(', path.read_text()):
            text = re.sub(r'k\w+', lambda word: str(known[word[0]]), bounds or 'kThreads')
            threads = 1
            for factor in text.split('*'):
                threads *= int(factor)
            found[name] = threads
    return found


def compile_also(architecture, folder):
    """Records and cubins of all kernels for one more architecture."""
    def compile_one(entry):
        words = [word for word in shlex.split(entry['command']) if not word.startswith('--generate-code') and word != '-Xptxas=-Werror']
        source = Path(entry['file'])
        words[words.index('-c')] = '-cubin'
        words[words.index('-o') + 1] = str(folder / f'{source.name}.cubin')
        done = subprocess.run([*words, f'-arch=sm_{architecture}', '-Xptxas=-v'], cwd=entry['directory'], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f'{source.name} does not compile for sm_{architecture}:\n{done.stderr}')
        (folder / f'{source.name}.o.resources').write_text(done.stderr)
    commands = json.loads((options.build / 'compile_commands.json').read_text())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, [entry for entry in commands if '-Dtrainer_cuda_EXPORTS' in entry['command'] and entry['file'].endswith('.cu')]))


def instances(records):
    """(architecture, mangled name, file, registers, spilled bytes, shared bytes) of each kernel, if the GPU's limits are known."""
    for path in records:
        entry = spilled = None
        if not (ROOT / 'cuda' / path.name.removesuffix('.o.resources')).exists():
            continue  # of a file that was removed since
        for line in path.read_text().splitlines():
            if compiled := re.search(r"Compiling entry function '(\w+)' for 'sm_(\d+)'", line):
                entry = compiled
            elif spills := re.search(r'(\d+) bytes spill stores, (\d+) bytes spill loads', line):
                spilled = int(spills[1]) + int(spills[2])
            elif entry and entry[2] in MOST_BLOCKS and (used := re.search(r'Used (\d+) registers', line)):
                shared = re.search(r'(\d+) bytes smem', line)
                yield entry[2], entry[1], path.name.split('.')[0], int(used[1]), spilled, int(shared[1]) if shared else 0
                entry = None


def plain_names(mangled):
    """Kernels without namespaces, arguments and parameters."""
    done = subprocess.run(['c++filt'], input='\n'.join(mangled), capture_output=True, text=True, check=True)
    return [re.match(r'(?:void )?(?:\w+::)*(\w+)[<(]', name.replace('(anonymous namespace)', 'anonymous'))[1]
            for name in done.stdout.splitlines()]


def blocks_per_sm(architecture, threads, registers, shared):
    warps = -(-threads // 32)
    by_registers = REGISTERS // (-(-registers * 32 // 256) * 256) // warps
    by_shared = SHARED[architecture] // (shared + RESERVED_SHARED)
    return min(MOST_BLOCKS[architecture], THREADS[architecture] // threads, by_registers, by_shared)


def span(numbers):
    fewest, most = min(numbers), max(numbers)
    return fewest if fewest == most else f'{fewest}-{most}'


def tables(records, codes):
    """The rows of each architecture, and the rules that instances break."""
    kernels, broken = defaultdict(list), []
    threads = threads_of_kernels()
    found = list(instances(records))
    for (architecture, mangled, file, registers, spilled, shared), name in zip(found, plain_names([row[1] for row in found])):
        blocks = blocks_per_sm(architecture, threads[name], registers, shared)
        code = codes.get((architecture, mangled))
        bytes_of_thread = code.in_flight if code else 0
        kernels[architecture, file, name].append((registers, spilled, shared, bytes_of_thread, bytes_of_thread * threads[name] * blocks))
        rules = code.broken_rules(int(architecture), name, 'Lb0E' in mangled, kernels[architecture, file, name][-1][-1]) if code else []
        if spilled > 0:
            rules.append(f'spills registers: {spilled} bytes of stores and loads')
        broken += [f'sm_{architecture} {name} ({mangled}): {rule}' for rule in rules]
    made = defaultdict(list)
    for (architecture, file, name), rows in sorted(kernels.items()):
        registers, spilled, shared, of_thread, of_sm = zip(*rows)
        made[architecture].append([name, f'cuda/{file}.cu', len(rows), threads[name], span(registers), max(spilled), max(shared),
                                   blocks_per_sm(architecture, threads[name], max(registers), max(shared)), span(of_thread), span(of_sm)])
    return made, broken


def compare(architecture, rows, has_codes):
    """Whether the table agrees with the build; None if it is of another nvcc, or missing."""
    place = ROOT / f'docs/gpu/kernels-sm_{architecture}.tsv'
    release = '# nvcc ' + release_of_nvcc(options.build)
    text = [release, *('\t'.join(map(str, row)) for row in [HEADER, *rows])]
    if options.write:
        place.parent.mkdir(exist_ok=True)
        place.write_text('\n'.join(text) + '\n')
    old = place.read_text().splitlines() if place.exists() else ['']
    if old[0] != release:
        print(f'{place.relative_to(ROOT)}: {"of another nvcc" if old[0] else "there is no such table"}; --write makes it')
        return None
    if not has_codes:
        old, text = ([line.split('\t')[:-2] for line in lines[1:]] for lines in (old, text))
    if text != old:
        print(f'{place.relative_to(ROOT)} is not what the build says; to replace it: scripts/gpu/kernel_table.py {options.build} --write')
        for mark, lines in ('-', [line for line in old if line not in text]), ('+', [line for line in text if line not in old]):
            for line in lines:
                print(mark, line)
    return text == old


codes = sass.measured(options.build)
if options.write and codes is None:
    sys.exit('there is no disassembler (cuobjdump): scripts/setup.sh --tests installs one')
records = sorted(options.build.glob('cuda/CMakeFiles/trainer_cuda.dir/*.cu.o.resources'))
with tempfile.TemporaryDirectory() as scratch:
    for architecture in options.also:
        folder = Path(scratch) / architecture
        folder.mkdir()
        compile_also(architecture, folder)
        records += sorted(folder.glob('*.resources'))
        if codes is not None:
            for cubin in folder.glob('*.cubin'):
                codes.update(sass.codes_in(cubin))
    made, broken = tables(records, codes or {})
results = [compare(architecture, rows, codes is not None) for architecture, rows in made.items()]
for rule in broken:
    print(rule)
sys.exit(1 if broken or False in results else 0 if True in results else 77)
