# SPDX-License-Identifier: Apache-2.0
"""The same as `python3 scripts/trials ranks`."""
import runpy
import sys
from pathlib import Path

sys.argv.insert(1, 'ranks')
runpy.run_path(str(Path(__file__).resolve().parents[1] / 'trials'), run_name='__main__')
