# SPDX-License-Identifier: Apache-2.0
"""Images, their folders and labels."""
from recipes import png

DATA = 65
CLASSES = {'bag': 40, 'sneaker': 120, 'trousers': 250}  # its brightest pixel
LABELS = 'name,colour\n1.png,red\n'

CASES = [
    (['init', 'nowhere'], DATA, 'there is no such file or folder'),
    (['init', 'documents'], DATA, '2 skipped: 1 .docx, 1 .pdf'),
    (['init', 'mixed', '-o', 'mixed.yaml'], 0, '1 .pdf'),
]


def write_clothes(run, folder='clothes', count=12):
    """Grey images, brighter from class to class."""
    for name, brightest in CLASSES.items():
        for number in range(count):
            width, height = 30 + number, 50 - number
            rows = b''.join(b'\0' + bytes(x * y % (brightest + 1) for x in range(width)) for y in range(height))
            run.write(f'{folder}/{name}/{number}.png', png(width, height, rows, 0))


def prepare(run):
    write_clothes(run)
    write_clothes(run, 'mixed')
    write_clothes(run, 'one', 3)
    for name in ('sneaker', 'trousers'):
        for path in (run.directory / 'one' / name).iterdir():
            path.unlink()
    run.write('mixed/bag/notes.pdf', '%PDF-1.4')
    run.write('documents/a.pdf', '%PDF-1.4')
    run.write('documents/b.docx', 'PK')
    write_clothes(run, 'columns')
    run.write('columns/labels.csv', LABELS)
