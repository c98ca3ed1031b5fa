# SPDX-License-Identifier: Apache-2.0
"""Reads the machine code of every own CUDA kernel: loads in flight, and what precedes the wait for earlier kernels.

A thread waits when an instruction reads a register that a load of global memory still fills. What it has loaded until then is in
flight: the more bytes on a multiprocessor, the more of the memory's rate is reached. From compute capability 9.0 on a kernel may start
before those ahead have ended, and has to wait for them before it touches memory.

scripts/gpu/kernel_table.py checks both, and puts the bytes into its tables. The disassembler is NVIDIA's cuobjdump: of the toolkit, or of
the wheel that scripts/setup.sh --tests installs.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST_EARLY = 90  # the compute capability from which kernels may start early
# Kernels that stream images or rows, and take a share of a training step that counts. Of each instance, so many bytes must be in flight on
# a multiprocessor: its share of the memory's rate times its latency (H100: 3.35 TB/s, 132 of them, some 0.8 us) is 20 KB.
# Rows of odd widths, which no shipped recipe has much of, are read element by element.
STREAMING = {'measure_moments', 'apply_affine', 'measure_slopes', 'apply_slopes', 'normalise', 'gradient_rows', 'sum_gradients', 'max_forward',
             'max_backward', 'average_forward', 'average_backward'}
LEAST = 32 << 10


def disassembler():
    """The path of cuobjdump, or None."""
    places = [ROOT / 'build/disassembler/bin', *(Path(os.environ[name]) / 'bin' for name in ('CUDA_HOME', 'CUDA_PATH') if name in os.environ),
              Path('/usr/local/cuda/bin')]
    path = os.pathsep.join([os.environ.get('PATH', ''), *map(str, places)])
    found = shutil.which('cuobjdump', path=path)
    if found is None:
        wheels = sorted((ROOT / 'build/disassembler').glob('lib/python3*/site-packages/nvidia/*/bin/cuobjdump'))
        found = str(wheels[-1]) if wheels else None
    return found


def functions(library):
    """(architecture, mangled name, instructions) of each kernel."""
    tool = disassembler()
    path = os.environ.get('PATH', '') + os.pathsep + str(Path(tool).parent)
    process = subprocess.Popen([tool, '-sass', library], stdout=subprocess.PIPE, text=True, env={**os.environ, 'PATH': path})
    architecture = name = None
    code = []
    for line in process.stdout:
        if found := re.match(r'\s+code for sm_(\d+)', line):
            architecture = found[1]
        elif found := re.match(r'\s+Function : (\S+)', line):
            if name:
                yield architecture_of_name, name, code
            architecture_of_name, name, code = architecture, found[1], []
        elif found := re.match(r'\s+/\*[0-9a-f]{4,6}\*/\s+([^;]+);', line):
            code.append(found[1].strip())
    if name:
        yield architecture_of_name, name, code
    if process.wait() != 0:
        sys.exit(f'{tool} cannot disassemble {library}')


class Code:
    """One kernel's machine code, read from top to bottom."""
    MEMORY = re.compile(r'(?:@!?U?P\w+ )?(LD|ST|LDG|STG|ATOM|ATOMG|RED|REDG|LDGSTS)(\.|\s)')
    LOAD = re.compile(r'(?:@!?U?P\w+ )?LDG?\.E(\S*) R(\d+),')
    STORE = re.compile(r'(?:@!?U?P\w+ )?(ST|STG|STS|ATOM|ATOMG|RED|REDG)(\.|\s)')
    SIZES = {'128': 4, '64': 2}  # registers of a load; narrower ones fill one

    def __init__(self, instructions):
        self.in_flight = self.vectors = 0  # bytes, and loads of 16 bytes, of a thread at once
        self.touches_early = False
        pending, vectors, has_waited = {}, 0, False
        for text in instructions:
            has_waited = has_waited or 'ACQBULK' in text
            self.touches_early = self.touches_early or (not has_waited and self.MEMORY.match(text) is not None)
            load = self.LOAD.match(text)
            operands = text if self.STORE.match(text) else text.partition(',')[2]
            read = {int(number) + next_one for number, pair in re.findall(r'\bR(\d+)(\.64)?\b', operands) for next_one in range(2 if pair else 1)}
            if any(register in pending for register in read):
                pending, vectors = {}, 0
            if load:
                modifiers = load[1].split('.')
                width = next((self.SIZES[word] for word in modifiers if word in self.SIZES), 1)
                size = 16 if width == 4 else 8 if width == 2 else 2 if 'U16' in modifiers or 'S16' in modifiers else 1 if 'U8' in modifiers else 4
                for register in range(int(load[2]), int(load[2]) + width):
                    pending[register] = 0
                pending[int(load[2])] = size
                vectors += width == 4
                self.in_flight = max(self.in_flight, sum(pending.values()))
                self.vectors = max(self.vectors, vectors)

    def broken_rules(self, architecture, name, is_element_by_element, bytes_of_sm):
        """What is wrong with this instance of a kernel, whose blocks on an SM have so many bytes in flight."""
        rules = []
        if architecture >= FIRST_EARLY and self.touches_early:
            rules.append('touches memory before it has waited for earlier kernels')
        if name in STREAMING and not is_element_by_element and bytes_of_sm < LEAST:
            rules.append(f'{bytes_of_sm} bytes in flight on an SM, {LEAST} wanted')
        return rules


def measured(build):
    """The code of each kernel by (architecture, mangled name); None if it cannot be read here."""
    library = build / 'bin/libtrainer_cuda.so'
    if not library.exists() or disassembler() is None:
        return None
    return {(architecture, name): Code(code) for architecture, name, code in functions(library)}
