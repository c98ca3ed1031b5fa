#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the event file of a run's directory with TensorBoard and compares it with metrics.jsonl, value by value.

usage: compare_events.py DIRECTORY
"""
import json
import math
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

AXES = ("step", "updates", "epoch", "time", "split", "non_finite")


def as_f32(number):
    """A number as an event file stores it; null represents non-finite ones."""
    return math.nan if number is None else struct.unpack("<f", struct.pack("<f", number))[0]


def expected_curves(lines):
    curves = {}
    for line in lines:
        record = json.loads(line)
        for key, number in record.items():
            if key not in AXES:
                point = (record["step"], record["time"], as_f32(number))
                curves.setdefault(f"{record['split']}/{key}", []).append(point)
    return curves


def same(a, b):
    return a[:2] == b[:2] and (a[2] == b[2] or (math.isnan(a[2]) and math.isnan(b[2])))


def main():
    directory = pathlib.Path(sys.argv[1])
    files = list(directory.glob("*tfevents*"))
    assert len(files) == 1, files
    expected = expected_curves((directory / "metrics.jsonl").read_text().splitlines())
    # No limit: by default TensorBoard keeps a sample of long curves.
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == sorted(expected), (events.Tags(), sorted(expected))
    for tag, points in expected.items():
        found = [(event.step, event.wall_time, event.value) for event in events.Scalars(tag)]
        assert len(found) == len(points), (tag, len(found), len(points))
        for point, event in zip(points, found):
            assert same(point, event), (tag, point, event)
    print(f"{sum(map(len, expected.values()))} values of {len(expected)} curves")


if __name__ == "__main__":
    main()
