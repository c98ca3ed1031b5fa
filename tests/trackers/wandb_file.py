# SPDX-License-Identifier: Apache-2.0
"""Reads the file of an offline run of Weights & Biases: a log of LevelDB's form, whose records are messages of protobuf."""
import json
import struct
import zlib

BLOCK, HEAD = 32768, 7
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
NUMBER, HISTORY, SUMMARY, RUN, EXIT, HEADER = 1, 2, 3, 17, 18, 21  # fields of Record
VALUE_JSON = 16


def records(data):
    """The bytes of each record; fails at a wrong checksum or piece."""
    assert data[:HEAD] == b':W&B\xe1\xbe\x00', data[:HEAD]
    position, record = HEAD, None
    while position < len(data):
        left = BLOCK - position % BLOCK
        if left < HEAD:
            assert not data[position:position + left].strip(b'\0')
            position += left
            continue
        checksum, size, kind = struct.unpack_from('<IHB', data, position)
        piece = data[position + HEAD:position + HEAD + size]
        assert size == len(piece) and size <= left - HEAD and checksum == zlib.crc32(bytes([kind]) + piece)
        assert (record is None) == (kind in (WHOLE, FIRST))
        record = (record or b'') + piece
        position += HEAD + size
        if kind in (WHOLE, LAST):
            yield record
            record = None
    assert record is None


def varint(data, position):
    value = shift = 0
    while True:
        value |= (data[position] & 127) << shift
        shift += 7
        position += 1
        if data[position - 1] < 128:
            return value, position


def fields(data):
    """Pairs of number and value: of a message, numbers and bytes."""
    position, found = 0, []
    while position < len(data):
        tag, position = varint(data, position)
        if tag & 7 == 0:
            value, position = varint(data, position)
        else:
            assert tag & 7 == 2
            size, position = varint(data, position)
            value = data[position:position + size]
            position += size
        found.append((tag >> 3, value))
    return found


def items(message, within=1):
    """The keys and values of the items in a message."""
    values = {}
    for number, value in fields(message):
        if number == within:
            parts = fields(value)
            key = '.'.join(text.decode() for kind, text in parts if kind != VALUE_JSON)
            values[key] = json.loads(dict(parts)[VALUE_JSON])
    return values


def read(path):
    """The run's fields, its configuration, the rows of its history, its summary and its exit code."""
    rows, run, summary, code = [], None, None, None
    for count, record in enumerate(records(path.read_bytes())):
        (number, order), (kind, message) = fields(record)
        assert number == NUMBER and order == count + 1 and (count > 0 or kind == HEADER)
        if kind == HISTORY:
            rows.append(items(message))
        elif kind == RUN:
            run = dict(fields(message))
        elif kind == SUMMARY:
            summary = items(message)
        elif kind == EXIT:
            code = dict(fields(message)).get(1, 0)
    return run, items(run[4]), rows, summary, code
