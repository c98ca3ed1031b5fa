#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images to training crops: ours compared with PyTorch's DataLoader with torchvision, on one core, alternating.

Makes JPEGs of 500 pixels (seeded; 1/f noise and discs, which compress as photographs do: about 100 kB each) and has
both sides read them, cut random crops of 224 pixels, flip, and normalise into batches of 50. Both are pinned to one
core, and the CPU time of all their processes is compared, so that others on the machine matter less. PyTorch runs in
its fastest way: in its own process, or with one worker. Needs Debian's python3-torchvision, and the target
bench_decode:  cmake --build --preset release --target bench_decode
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from windows import spread

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH = 50

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--turns", type=int, default=6)
arguments.add_argument("--images", type=int, default=2000, help="read by each side in each turn")
arguments.add_argument("--files", type=int, default=300)
arguments.add_argument("--core", type=int, default=0)
arguments.add_argument("--bench", default=ROOT + "/build/release/bin/bench_decode")
arguments.add_argument("--python", default="/usr/bin/python3", help="a Python that has torchvision")
arguments.add_argument("--peer", nargs=2, metavar=("FOLDER", "WORKERS"), help=argparse.SUPPRESS)
arguments.add_argument("--make", metavar="FOLDER", help=argparse.SUPPRESS)
options = arguments.parse_args()


def make_images(folder):
    import numpy
    from PIL import Image
    random, size = numpy.random.default_rng(1), 512
    frequency = numpy.hypot(numpy.fft.fftfreq(size)[:, None], numpy.fft.rfftfreq(size)[None, :])
    frequency[0, 0] = 1

    def noise(power):
        plane = numpy.fft.irfft2(numpy.fft.rfft2(random.standard_normal((size, size))) / frequency**power)
        return plane / plane.std()

    os.makedirs(folder + "/all")
    for number in range(options.files):
        height, width = [(375, 500), (500, 375), (500, 500)][number % 3]
        grey = noise(1.0)
        pixels = numpy.stack([grey + 0.4 * noise(1.3) for _ in range(3)], -1)[:height, :width]
        rows, columns = numpy.mgrid[:height, :width]
        for _ in range(30):
            y, x, radius = random.integers(height), random.integers(width), random.integers(10, 90)
            pixels[(rows - y)**2 + (columns - x)**2 < radius * radius] += random.normal(0, 0.8, 3)
        pixels = (pixels - pixels.mean()) / pixels.std() * 50 + 120
        Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8)).save(f"{folder}/all/{number:04}.jpg", quality=90)


def peer(folder, workers):
    import torch
    import torchvision
    from torchvision import datasets, transforms
    torch.set_num_threads(1)
    torch.manual_seed(1)
    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normalize]
    data = datasets.ImageFolder(folder, transforms.Compose(steps))
    sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=options.images + BATCH)
    batches = iter(torch.utils.data.DataLoader(data, BATCH, sampler=sampler, num_workers=workers))
    next(batches)
    began, done = time.process_time(), BATCH if workers else 0  # a worker's whole time counts
    for images, _ in batches:
        done += len(images)
    del batches
    worker = resource.getrusage(resource.RUSAGE_CHILDREN)
    rate = done / (time.process_time() - began + worker.ru_utime + worker.ru_stime)
    print(json.dumps({"rate": rate, "version": f"{torch.__version__}, torchvision {torchvision.__version__}"}))


def turn(command):
    """Output of a command on one core."""
    done = subprocess.run(["taskset", "-c", str(options.core)] + command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


if options.make:
    make_images(options.make)
    sys.exit()
if options.peer:
    peer(options.peer[0], int(options.peer[1]))
    sys.exit()

with tempfile.TemporaryDirectory() as directory:
    folder = directory + "/images"
    subprocess.run([options.python, __file__, "--make", folder, "--files", str(options.files)], check=True)
    sizes = [os.path.getsize(entry.path) for entry in os.scandir(folder + "/all")]
    print(f"{len(sizes)} images of {statistics.mean(sizes) / 1e3:.0f} kB", flush=True)
    ours, theirs = [], []
    for number in range(options.turns):
        ours.append(float(turn([options.bench, folder, "0", str(options.images)]).split()[0]))
        outcomes = [json.loads(turn([options.python, __file__, "--images", str(options.images), "--peer", folder, workers]))
                    for workers in ("0", "1")]
        theirs.append(max(outcome["rate"] for outcome in outcomes))
        print(f"turn {number + 1}: ours {ours[-1]:.0f}/s, PyTorch {outcomes[0]['rate']:.0f}/s in its own process, "
              f"{outcomes[1]['rate']:.0f}/s with a worker", flush=True)
    print(f"random_resized_crop 224, flip, normalise, one core: {spread([a / b for a, b in zip(ours, theirs)], '.4g')} times "
          f"as fast as PyTorch {outcomes[0]['version']}")
    print(f"  images per second of CPU time: ours {spread(ours, '.4g')}, PyTorch {spread(theirs, '.4g')}")
