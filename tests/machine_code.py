#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu/sass.py on machine code of known faults."""
import sys
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
print(f'{len(CASES) + len(rules) - failed} of {len(CASES) + len(rules)} as expected')
sys.exit(failed > 0)
