# SPDX-License-Identifier: Apache-2.0
"""What strangers can do at the port on which the ranks watch each other: nothing."""
import os
import re
import select
import signal
import socket
import struct
import time
from functools import partial
from pathlib import Path

from recipes import ENDLESS
from run import SAVED, preload, require

from ranks.processes import Ranks

GREETING = b'trainer ranks 2'
HELLO, JOIN = 0, 1
MOST_OPEN = 100  # more than rank 0 keeps


def listening(process):
    """The ports on which it listens, with their addresses."""
    sockets = set()
    for place in Path(f'/proc/{process}/fd').iterdir():
        try:
            found = re.fullmatch(r'socket:\[(\d+)\]', os.readlink(place))
        except OSError:
            continue
        if found:
            sockets.add(found[1])
    found = []
    for line in Path(f'/proc/{process}/net/tcp').read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == '0A' and words[9] in sockets:
            address, port = words[1].split(':')
            found.append((socket.inet_ntoa(struct.pack('<I', int(address, 16))), int(port, 16)))
    return found


def connect(place):
    line = socket.socket()
    line.settimeout(3)
    line.connect(place)
    return line


def frame(kind, body):
    return struct.pack('<IB', len(body) + 1, kind) + body


def text(value):
    return struct.pack('<Q', len(value)) + value


def control_port(process):
    """That of rank 0 which greets as a rank 0 does; MPI has ports too, which say nothing."""
    lines = {}
    for address, number in listening(process):
        place = ('127.0.0.1' if address == '0.0.0.0' else address, number)
        try:
            lines[connect(place)] = place
        except OSError:
            continue
    end, found = time.monotonic() + 5, None
    while lines and not found and time.monotonic() < end:
        for line in select.select(lines, [], [], 0.1)[0]:
            place = lines.pop(line)
            with line:
                found = place if GREETING in line.recv(100) else found
    for line in lines:
        line.close()
    return found


def recorded_join(log):
    """The request to join that rank 1 has sent, out of all that it has sent."""
    sent = log.read_bytes()
    begin = sent.find(bytes([JOIN]) + struct.pack('<QQ', 1, 2)) - 4
    require(begin >= 0, 'rank 1 has not asked to join')
    size, = struct.unpack_from('<I', sent, begin)
    return sent[begin:begin + 4 + size]


class Strangers:
    """They connect, and do what no rank does."""

    def __init__(self, place, join, chosen):
        self.place, self.join, self.random = place, join, chosen
        self.open, self.dribbles, self.dribbled, self.refused = [], [], 0, 0
        self.kinds = [self.random_bytes, self.random_frame, self.enormous_frame, self.silent, self.half_open, self.reset, self.other_version,
                      self.replayed_join]
        self.counts = {kind.__name__: 0 for kind in [*self.kinds, self.dribble]}

    def come(self):
        """One of them, or the next byte of those that dribble."""
        kind = self.random.choice(self.kinds)
        if time.monotonic() > self.dribbled + 1:
            kind, self.dribbled = self.dribble, time.monotonic()
        try:
            kind()
            self.counts[kind.__name__] += 1
        except OSError:
            time.sleep(0.01)  # rank 0 has closed the connection, or the run has ended

    def hold(self, line):
        self.open.append(line)
        if len(self.open) > MOST_OPEN:
            self.open.pop(0).close()

    def random_bytes(self):
        with connect(self.place) as line:
            line.sendall(self.random.randbytes(self.random.randint(1, 100_000)))

    def random_frame(self):
        with connect(self.place) as line:
            line.sendall(frame(self.random.randint(0, 12), self.random.randbytes(self.random.randint(0, 400))))

    def enormous_frame(self):
        with connect(self.place) as line:
            line.sendall(struct.pack('<IB', self.random.choice([513, 2**26, 2**31, 2**32 - 1]), JOIN) + b'x' * 1000)

    def silent(self):
        self.hold(connect(self.place))

    def half_open(self):
        """Sends no more, but reads."""
        line = connect(self.place)
        line.shutdown(socket.SHUT_WR)
        self.hold(line)

    def reset(self):
        line = connect(self.place)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        line.sendall(b'\0')
        line.close()

    def other_version(self):
        """As a later release may ask to join."""
        with connect(self.place) as line:
            line.sendall(frame(HELLO, text(b'trainer ranks 3') + text(self.random.randbytes(16))))
        with connect(self.place) as line:
            line.sendall(frame(JOIN, self.join[5:] + b'more'))

    def replayed_join(self):
        """The recorded request: rank 0 has drawn other random bytes since."""
        with connect(self.place) as line:
            line.recv(200)
            line.sendall(self.join)
            answer = line.recv(500)
        require(not answer or b'another secret' in answer, f'a replayed request to join is answered by {answer}')
        self.refused += bool(answer)

    def dribble(self):
        """A further connection that sends a byte of the request each second, as all before it that are still open."""
        going_on = []
        for line, sent in [*self.dribbles, (connect(self.place), 0)]:
            try:
                line.sendall(self.join[sent:sent + 1])
                going_on.append((line, sent + 1))
            except OSError:
                line.close()  # rank 0 does not wait for so long
        self.dribbles = going_on


def begin(run):
    """Starts it without an end; returns its process, the place where rank 0 listens, and rank 1's request to join."""
    sent = run.directory / 'sent'
    process = run.begin(2, ENDLESS, environment=preload(run.trials.faults, rank=1, path='socket', calls='send', log=sent))
    run.wait_for(process, run.saved, 'a first checkpoint')
    place = control_port(run.processes()[0])
    run.require(place, 'rank 0 does not listen')
    return process, place, recorded_join(sent.with_name('sent.data'))


def attacked(trials):
    seconds = trials.options.seconds or (60 if trials.thorough else 3)
    words = ['validation.interval=100ba', 'training.global_batch_size=48', 'parallelism.timeout=10s', 'logging.interval=10ba',
             'checkpoint.interval=50ba', 'run.allow_changes=[training.max_duration]']
    run = Ranks(trials, 'attacked', words=words)
    process, place, join = begin(run)
    strangers, began = Strangers(place, join, trials.random()), time.monotonic()
    while time.monotonic() < began + seconds and process.poll() is None:
        strangers.come()
    process.send_signal(signal.SIGTERM)
    while process.poll() is None:
        strangers.come()
        run.require(time.monotonic() < began + seconds + trials.patience, 'the run does not end')
    took = time.monotonic() - began
    run.end(process, {SAVED})
    run.require(min(*strangers.counts.values(), strangers.refused) > 0, f'{took:.0f} s were too short: {strangers.counts}')
    steps = run.saved() + 100
    duration = f'training.max_duration={steps}ba'
    run.train(2, duration)
    run.require_same(Ranks(trials, 'not_attacked', words=words).train(2, duration), 'the run')
    return (f'port {place[1]} of {place[0]}, {took:.0f} s: ' + ', '.join(f'{count} {name}' for name, count in strangers.counts.items()) +
            f'; stopped and resumed to {steps} steps, and the bits of an undisturbed run')


def port(trials):
    return [partial(attacked, trials)]
