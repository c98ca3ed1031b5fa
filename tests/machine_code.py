#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu/sass.py on machine code of known faults, and kernel_table.py on a kernel that spills."""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'scripts/gpu'))
import sass  # noqa: E402

FOUR_LOADS = [f'LDG.E.128.CONSTANT R{8 + 4 * i}, desc[UR4][R2.64+0x{16 * i:x}]' for i in range(4)]
CASES = [  # instructions, bytes in flight of a thread, whether memory is touched too early
    (['ACQBULK', *FOUR_LOADS, 'HADD2.F32 R4, -RZ, R8.H0_H0'], 64, False),
    (['ACQBULK', *(line for load in FOUR_LOADS for line in (load, f'HADD2.F32 R4, -RZ, {load.split()[1][:-1]}.H0_H0'))], 16, False),
    (['ACQBULK', *FOUR_LOADS[:2], 'STG.E desc[UR4][R12.64], R0', *FOUR_LOADS[2:]], 32, False),  # a store reads its address too
    (['ACQBULK', '@!P0 LDG.E.U16 R3, desc[UR4][R4.64]', 'LDG.E R5, desc[UR4][R6.64]', 'FADD R1, R1, R5'], 6, False),
    (['ACQBULK', 'LDG.E.64 R4, desc[UR4][R2.64]', 'LDG.E R6, desc[UR4][R4.64]'], 8, False),  # an address that is being loaded
    (['LDG.E R5, desc[UR4][R6.64]', 'ACQBULK'], 4, True),
    (['@P0 RED.E.ADD desc[UR4][R2.64], R5', 'ACQBULK'], 0, True),
    (['S2R R2, SR_TID.X', 'LDC R4, c[0x0][0x28]', 'LDS R5, [R2]', 'ACQBULK'], 0, False),  # neither shared memory nor constants
]
failed = 0
for code, in_flight, early in CASES:
    found = sass.Code(code)
    if (found.in_flight, found.touches_early) != (in_flight, early):
        print(f'{code}: {found.in_flight} bytes, early: {found.touches_early}; expected {in_flight}, {early}')
        failed += 1
few, early = sass.Code(CASES[1][0]), sass.Code(CASES[5][0])
rules = [few.broken_rules(90, 'max_forward', False, sass.LEAST), few.broken_rules(90, 'max_forward', False, sass.LEAST - 1),
         few.broken_rules(90, 'max_forward', True, 0), few.broken_rules(90, 'copy', False, 0), early.broken_rules(90, 'copy', False, 0),
         early.broken_rules(80, 'copy', False, 0)]
if [len(each) for each in rules] != [0, 1, 0, 0, 1, 0]:
    print(f'rules: {rules}')
    failed += 1


def table_of(spilled):
    """What kernel_table.py says of a build of another nvcc with one kernel; its tables are not compared."""
    with tempfile.TemporaryDirectory() as build:
        compiler, records = Path(build) / 'CMakeFiles/3.25.1', Path(build) / 'cuda/CMakeFiles/trainer_cuda.dir'
        compiler.mkdir(parents=True)
        records.mkdir(parents=True)
        (compiler / 'CMakeCUDACompiler.cmake').write_text('set(CMAKE_CUDA_COMPILER_VERSION "0.0.0")\n')
        (records / 'counters.cu.o.resources').write_text(
            "ptxas info    : Compiling entry function '_ZN7trainer4cuda12_GLOBAL__N_17add_oneEPl' for 'sm_90'\n"
            f'    8 bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads\n'
            'ptxas info    : Used 12 registers, used 0 barriers\n')
        return subprocess.run([sys.executable, Path(sass.__file__).with_name('kernel_table.py'), build], capture_output=True, text=True)


TABLES = [(0, 77, False), (8, 1, True)]  # bytes of stores, exit code, whether the kernel is named
for spilled, code, is_named in TABLES:
    done = table_of(spilled)
    if (done.returncode, 'sm_90 add_one' in done.stdout and 'spills registers: 16 bytes' in done.stdout) != (code, is_named):
        print(f'{spilled} bytes spilled: exit code {done.returncode}, {done.stdout}{done.stderr}')
        failed += 1
total = len(CASES) + len(rules) + len(TABLES)
print(f'{total - failed} of {total} as expected')
sys.exit(failed > 0)
