# SPDX-License-Identifier: Apache-2.0
"""A Slurm of emulated nodes on this machine, in a directory of its own, for as long as a `with` lasts."""

import ctypes
import getpass
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time

NODES = ("node1", "node2", "node3", "node4")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
SETTINGS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# Credentials that expire soon: a requeued job waits until the old ones have.
AuthInfo=socket={root}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
# Each node needs its own, or the second one's steps fail.
TmpFS={root}/tmp.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
SlurmctldPort={ports[0]}
CommunicationParameters=NoAddrCache
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
# The nodes may have more processors than this machine.
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,bf_interval=5,sched_interval=5
MinJobAge=600
InactiveLimit=0
KillWait=20
SlurmctldTimeout=30
SlurmdTimeout=30
JobRequeue=1
MailProg={true}
{extra}
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=32 RealMemory=4000 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 RealMemory=4000 State=UNKNOWN
NodeName=node3 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[3]} CPUs=4 RealMemory=4000 State=UNKNOWN
NodeName=node4 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[4]} CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=10 PriorityTier=1 PreemptMode=requeue GraceTime=20 State=UP
PartitionName=high Nodes=ALL MaxTime=10 PriorityTier=10 PreemptMode=off State=UP
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class CannotStart(Exception):
    """The reason why Slurm is not available."""


def _prctl(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent(number=signal.SIGKILL):
    _prctl(_PR_SET_PDEATHSIG, number)


def _free_ports(count):
    """Below those that the system gives to whoever asks for any, so that nobody else takes them before the daemons do."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = []
    for port in random.sample(range(first // 2, first), 100):
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            break
    return ports


def _children(pid):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.parent.name))
    return found


def find_programs():
    os.environ["PATH"] += os.pathsep + os.pathsep.join(("/usr/sbin", "/sbin"))
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        raise CannotStart(f"not found: {', '.join(missing)}")


def adopt_orphans():
    """Processes that the daemons leave behind become children of this process, so that they can be ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_children():
    while children := _children(os.getpid()):
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


class Cluster:
    """`extra`: further lines of its slurm.conf."""

    def __init__(self, root, extra=""):
        self.root = pathlib.Path(root)
        self.extra = extra
        # Nothing of a job that this test may itself be part of.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        self.environment["SLURM_CONF"] = str(self.root / "slurm.conf")
        self.daemons = {}

    def __enter__(self):
        self.root.mkdir(parents=True)
        for name in ("state", *(f"{folder}.{node}" for folder in ("spool", "tmp") for node in NODES)):
            (self.root / name).mkdir()
        (self.root / "slurm.conf").write_text(
            SETTINGS.format(
                root=self.root, user=getpass.getuser(), host=socket.gethostname(), ports=_free_ports(1 + len(NODES)),
                true=shutil.which("true"), extra=self.extra,
            )
        )
        key = self.root / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.root}/munge.socket",
                    f"--pid-file={self.root}/munged.pid", f"--log-file={self.root}/munged.log",
                    f"--seed-file={self.root}/munged.seed")
        self._await(lambda: (self.root / "munge.socket").exists())
        self._start("slurmctld", "-D")
        for node in NODES:
            self._start("slurmd", "-D", "-N", node)
        self._await(lambda: self.call("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 2 * len(NODES))
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons.values()):
            daemon.kill()
            daemon.wait()

    def _start(self, *command):
        name = "-".join(command[:1] + command[3:] if command[0] == "slurmd" else command[:1])
        with open(self.root / f"{name}.out", "wb") as out:
            self.daemons[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment,
                preexec_fn=die_with_parent,
            )

    def _await(self, ready):
        end = time.monotonic() + 30
        while True:
            for name, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    said = (self.root / f"{name}.out").read_text()[-2000:]
                    raise CannotStart(f"{name} ended with {daemon.returncode}: {said}")
            try:
                if ready():
                    return
            except subprocess.CalledProcessError:
                pass
            if time.monotonic() > end:
                raise CannotStart("the daemons are there, but the nodes are not ready after 30 s")
            time.sleep(0.1)

    def call(self, *command, **extra):
        """Standard output; raises CalledProcessError with the error output."""
        return subprocess.run(command, check=True, text=True, capture_output=True, timeout=60,
                              env=self.environment | extra.pop("variables", {}), **extra).stdout
