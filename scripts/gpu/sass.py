# SPDX-License-Identifier: Apache-2.0
"""Reads the machine code of our CUDA kernels: loads in flight, and memory accesses before the wait for earlier kernels.

A thread waits when an instruction reads a register that a load from global memory has not filled yet. Loads issued until then are in
flight. The more bytes are in flight on a multiprocessor (SM), the more memory bandwidth a kernel can reach. From compute capability 9.0 on,
a kernel may start before earlier ones have ended. It must wait for them before it accesses memory.

scripts/gpu/kernel_table.py checks both and adds the bytes to its tables. The disassembler is NVIDIA's cuobjdump, from the toolkit or from the
wheel that scripts/setup.sh --tests installs.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST_EARLY = 90  # the compute capability from which kernels may start early
# Kernels that stream images or rows and take a noticeable share of a training step. LEAST is the minimum of bytes in flight on an SM. By
# Little's law an H100 needs about 20 KB: 3.35 TB/s over 132 SMs, times a latency of about 0.8 us.
# Instances for odd widths load single elements and are exempt; shipped recipes hardly use them.
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
    architecture, kernel = None, None  # kernel: what has been read of the current one
    for line in process.stdout:
        if found := re.match(r'\s+code for sm_(\d+)', line):
            architecture = found[1]
        elif found := re.match(r'\s+Function : (\S+)', line):
            if kernel:
                yield kernel
            kernel = architecture, found[1], []
        elif found := re.match(r'\s+/\*[0-9a-f]{4,6}\*/\s+([^;]+);', line):
            kernel[2].append(found[1].strip())
    if kernel:
        yield kernel
    if process.wait() != 0:
        sys.exit(f'{tool} cannot disassemble {library}')


class Code:
    """One kernel's machine code, read from top to bottom."""
    MEMORY = re.compile(r'(?:@!?U?P\w+ )?(LD|ST|LDG|STG|ATOM|ATOMG|RED|REDG|LDGSTS)(\.|\s)')
    LOAD = re.compile(r'(?:@!?U?P\w+ )?LDG?\.E(\S*) R(\d+),')
    STORE = re.compile(r'(?:@!?U?P\w+ )?(ST|STG|STS|ATOM|ATOMG|RED|REDG)(\.|\s)')
    SIZES = {'128': 16, '64': 8, 'U16': 2, 'S16': 2, 'U8': 1, 'S8': 1}  # bytes of a load; others have 4

    def __init__(self, instructions):
        self.in_flight = 0  # the most bytes that a thread has in flight
        self.touches_early = False
        pending, has_waited = {}, False  # pending: bytes by register
        for text in instructions:
            has_waited = has_waited or 'ACQBULK' in text
            self.touches_early = self.touches_early or (not has_waited and self.MEMORY.match(text) is not None)
            operands = text if self.STORE.match(text) else text.partition(',')[2]
            read = {int(number) + high for number, pair in re.findall(r'\bR(\d+)(\.64)?\b', operands) for high in range(2 if pair else 1)}
            if any(register in pending for register in read):
                pending = {}
            if load := self.LOAD.match(text):
                size = next((size for word, size in self.SIZES.items() if word in load[1].split('.')), 4)
                for register in range(int(load[2]), int(load[2]) + max(1, size // 4)):
                    pending[register] = min(4, size)
                self.in_flight = max(self.in_flight, sum(pending.values()))

    def broken_rules(self, architecture, name, is_element_by_element, bytes_of_sm):
        """The rules that this instance of a kernel breaks; bytes_of_sm: in flight on an SM."""
        rules = []
        if architecture >= FIRST_EARLY and self.touches_early:
            rules.append('accesses memory before it has waited for earlier kernels')
        if name in STREAMING and not is_element_by_element and bytes_of_sm < LEAST:
            rules.append(f'{bytes_of_sm} bytes in flight on an SM, at least {LEAST} required')
        return rules


def codes_in(file):
    """The code of each kernel of a library or cubin, by (architecture, mangled name)."""
    return {(architecture, name): Code(code) for architecture, name, code in functions(file)}


def measured(build):
    """The code of each kernel by (architecture, mangled name); None if it cannot be read here."""
    library = build / 'bin/libtrainer_cuda.so'
    if not library.exists() or disassembler() is None:
        return None
    return codes_in(library)
