# SPDX-License-Identifier: Apache-2.0
"""Pictures of one pixel, in two classes, and recipes that train on them."""
from asked import png


def write_pictures(folder, **counts):
    """So many of each class below `folder/SPLIT`."""
    for split, count in counts.items():
        for name, grey in ('bright', 40), ('dark', 1):
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                (folder / split / name / f'{100 + i}.png').write_bytes(png(grey + i))
    return folder
