#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images from shards to training crops: ours compared with webdataset and torchvision, and with tf.data, on two cores.

  scripts/bench/shards.py [decode] [train] [--turns 5] [--images 4000] [--files 1200]

decode: JPEGs of 500 pixels as in decode.py, in tar files and in TFRecord files. Each side reads them in its own random order, cuts random
crops of 224 pixels, flips, and normalises into batches of 50, with two workers; images per second of elapsed time, in turns.
train: ResNet-18 at 224 x 224 from the same tar files, and on synthetic data; samples per second of our program, in turns.

Both sides are pinned to the same two cores. Needs the interpreters of scripts/setup.sh --bench and the targets trainer and bench_decode.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

from sides import PYTHONS, ROOT, TRAINER
from windows import spread, train_records

BATCH, SIDE, WORKERS = 50, 224, 2
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
RECIPE = f"""version: 1
model: {{input: [3, {SIDE}, {SIDE}], layers: [flatten, linear: 10]}}
data: {{format: image_folder, train: images, augment: [random_resized_crop: {SIDE}]}}
training: {{max_duration: 1ba, global_batch_size: 1}}
optimizer: {{name: sgd, lr: 0.1}}
"""

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("parts", nargs="*", help="decode, train; default: both")
arguments.add_argument("--turns", type=int, default=5)
arguments.add_argument("--images", type=int, default=4000, help="read by each side in each turn; a multiple of 50")
arguments.add_argument("--files", type=int, default=1200)
arguments.add_argument("--steps", type=int, default=8, help="of a training run's turn, with batches of 32")
arguments.add_argument("--cores", default="0,1")
arguments.add_argument("--bench", default=ROOT + "/build/release/bin/bench_decode")
arguments.add_argument("--trainer", default=TRAINER)
arguments.add_argument("--python", default=PYTHONS["newest"], help="a Python that has webdataset and torchvision")
arguments.add_argument("--tensorflow", default=ROOT + "/build/tensorflow/bin/python", help="a Python that has tensorflow-cpu")
arguments.add_argument("--peer", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS)
options = arguments.parse_intermixed_args()


def webdataset_batches(folder):
    """The files are shuffled, and samples in a buffer of 1,000, as its documentation proposes."""
    import torch
    import webdataset
    from torchvision import transforms
    torch.set_num_threads(1)
    steps = transforms.Compose([transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                transforms.Normalize(MEAN, DEVIATION)])
    urls = sorted(glob.glob(f"{folder}/train_*.tar"))
    data = webdataset.WebDataset(urls, shardshuffle=len(urls), resampled=True).shuffle(1000).decode("pil").to_tuple("jpg", "cls")
    data = data.map_tuple(steps, lambda label: label).batched(BATCH, partial=False)
    return ((images, torch.as_tensor(labels)) for images, labels in webdataset.WebLoader(data, batch_size=None, num_workers=WORKERS))


def tensorflow_batches(folder):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(WORKERS)
    tf.config.threading.set_inter_op_parallelism_threads(WORKERS)
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}

    def sample(record):
        parsed = tf.io.parse_single_example(record, features)
        image = parsed["image/encoded"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(image), tf.zeros([1, 0, 4]), area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3),
            min_object_covered=0.0, use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(image, window, channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, [SIDE, SIDE]))
        return (image / 255 - MEAN) / DEVIATION, parsed["image/class/label"]

    data = tf.data.TFRecordDataset(sorted(glob.glob(f"{folder}/*.tfrecord"))).repeat().shuffle(1000)
    return iter(data.map(sample, num_parallel_calls=WORKERS).batch(BATCH).prefetch(2))


def peer(kind, folder):
    batches = {"webdataset": webdataset_batches, "tensorflow": tensorflow_batches}[kind](folder)
    next(batches)
    began = time.perf_counter()
    for _ in range(options.images // BATCH):
        next(batches)
    print(json.dumps({"rate": options.images / (time.perf_counter() - began)}))


def to_records(folder):
    """The samples of each tar file as a file of TFRecord."""
    import tarfile

    import tensorflow as tf
    for path in sorted(glob.glob(f"{folder}/train_*.tar")):
        with tarfile.open(path) as archive, tf.io.TFRecordWriter(path.replace(".tar", ".tfrecord")) as writer:
            members = [member for member in archive.getmembers() if not member.name.startswith("__")]
            for label, image in zip(members[::2], members[1::2]):
                number, file = int(archive.extractfile(label).read()), archive.extractfile(image).read()
                features = {"image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[file])),
                            "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))}
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def run(command, **more):
    done = subprocess.run(["taskset", "-c", options.cores, *map(str, command)], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def peer_command(python, kind, folder):
    return [python, __file__, "--images", options.images, "--peer", kind, folder]


def make_shards(folder):
    run([options.python, os.path.dirname(os.path.abspath(__file__)) + "/decode.py", "--make", folder + "/images", "--files", options.files])
    for number, path in enumerate(sorted(glob.glob(folder + "/images/all/*"))):  # ten classes, as the recipe has
        os.renames(path, f"{folder}/images/{number % 10}/{os.path.basename(path)}")
    with open(folder + "/r.yaml", "w") as file:
        file.write(RECIPE)
    run([options.trainer, "data", "pack", "--config", "r.yaml", "--format", "webdataset", "--out", "shards", "--shard-samples", 200], cwd=folder)
    return folder + "/shards"


def compare_decoding(shards):
    run(peer_command(options.tensorflow, "records", shards))
    sides = {"webdataset with torchvision": ("webdataset", "train_*.tar", options.python, "webdataset"),
             "tf.data": ("tfrecord", "train_*.tfrecord", options.tensorflow, "tensorflow")}
    for name, (form, pattern, python, kind) in sides.items():
        ours, theirs = [], []
        for _ in range(options.turns):
            output = run([options.bench, f"{shards}/{pattern}", WORKERS, options.images, form])
            ours.append(float(output.split()[1]))
            theirs.append(json.loads(run(peer_command(python, kind, shards)).splitlines()[-1])["rate"])
            print(f"  {form}: ours {ours[-1]:.0f}/s, {name} {theirs[-1]:.0f}/s", flush=True)
        print(f"{form}: {spread([a / b for a, b in zip(ours, theirs)])} times as fast as {name}; images/s: ours {spread(ours, '.4g')}, "
              f"theirs {spread(theirs, '.4g')}", flush=True)


def samples_per_second(words):
    with tempfile.TemporaryDirectory() as folder:
        run([options.trainer, "--config", ROOT + "/configs/image_folder_finetune.yaml", "data.val=null", "training.global_batch_size=32",
             f"training.max_duration={options.steps + 2}ba", "logging.interval=1ba", "validation.interval=0ep", "checkpoint.interval=0ep",
             f"run.output_dir={folder}/run", *words])
        records = train_records(folder + "/run")
    return len(records) / sum(1 / record["samples_per_s"] for record in records)


def compare_training(shards):
    synthetic, packed = [], []
    for _ in range(options.turns):
        synthetic.append(samples_per_second(["data.format=synthetic"]))
        packed.append(samples_per_second(["data.format=webdataset", f"data.train={shards}/train_*.tar",
                                          "data.shuffle={name: blocks, block: 50, window: 4}"]))
        print(f"  ResNet-18: shards {packed[-1]:.2f}/s, synthetic {synthetic[-1]:.2f}/s", flush=True)
    print(f"ResNet-18 at 224 from shards: {spread([a / b for a, b in zip(packed, synthetic)])} of its speed on synthetic data")


if options.peer:
    to_records(options.peer[1]) if options.peer[0] == "records" else peer(*options.peer)
    sys.exit()
with tempfile.TemporaryDirectory() as directory:
    made = make_shards(directory)
    if "decode" in options.parts or not options.parts:
        compare_decoding(made)
    if "train" in options.parts or not options.parts:
        compare_training(made)
