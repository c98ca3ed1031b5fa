# SPDX-License-Identifier: Apache-2.0
"""Images, their folders and labels."""
import shutil

from recipes import png

DATA = 65
CLASSES = {'bag': 40, 'sneaker': 120, 'trousers': 250}  # its brightest pixel

CASES = [
    (['init', 'flat'], 0, 'without labels: the recipe is of an autoencoder'),
    (['init', 'one'], DATA, 'expected at least two classes, found one'),
    (['init', 'table'], 0, 'of 3 classes by breeds.csv'),
    (['init', 'columns'], DATA, 'colour'),
    (['init', 'pairs'], 0, 'with masks, 12 training samples of 2 classes'),
    (['init', 'clothes', '--network', 'resnet81', '-o', 'named.yaml'], 78, "did you mean 'resnet18'?"),
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


def write_flat(run, folder, value, count=12):
    """Grey images of one size beside each other."""
    for number in range(count):
        rows = b''.join(b'\0' + bytes(value(number, x, y) for x in range(40)) for y in range(32))
        run.write(f'{folder}/{number}.png', png(40, 32, rows, 0))


def prepare(run):
    write_clothes(run)
    write_clothes(run, 'mixed')
    write_flat(run, 'flat', lambda number, x, y: x * y * (number + 1) % 256)
    write_flat(run, 'table', lambda number, x, y: x * y % (80 * (number % 3 + 1)))
    run.write('table/breeds.csv', 'id;breed\n' + ''.join(f'{i};{list(CLASSES)[i % 3]}\n' for i in range(12)))
    write_flat(run, 'columns', lambda number, x, y: x)
    run.write('columns/labels.csv', 'size,colour\n12,red\n13,blue\n')
    write_flat(run, 'pairs/images', lambda number, x, y: 200 if x > number else y)
    write_flat(run, 'pairs/masks', lambda number, x, y: int(x > number))
    write_clothes(run, 'one', 3)
    for name in ('sneaker', 'trousers'):
        shutil.rmtree(run.directory / 'one' / name)
    run.write('mixed/bag/notes.pdf', '%PDF-1.4')
    run.write('documents/a.pdf', '%PDF-1.4')
    run.write('documents/b.docx', 'PK')
