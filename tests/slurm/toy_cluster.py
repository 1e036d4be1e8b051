"""A Slurm cluster of one node on this machine: its own key, folders and daemons, gone when it is left.

The node says that it has so many cores, and four GPUs. Slurm hands out the GPUs, but nothing can
be calculated on them: each is a /dev/null by another name.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "sinfo")
WAIT_SECONDS = 300.0  # a controller takes half a minute on a free machine to call its node down
PR_SET_PDEATHSIG = 1
GPUS = 4
CONFIGURED = Path("/etc/slurm/slurm.conf")  # the one place where commands look that a job's step starts
LINKS = (CONFIGURED, CONFIGURED.with_name("gres.conf"))
CONFIGURATION = """
ClusterName=toy
SlurmctldHost={host}
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
JobRequeue=0
SlurmdTimeout=10
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} CPUs={cores} Gres=gpu:{gpus} RealMemory={memory} State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Return what is not installed of a Slurm, or says why none can be started here."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    absent += [] if os.getuid() == 0 else ["root"]
    return (
        absent if not os.path.lexists(CONFIGURED) or left_behind() else [*absent, f"place for {CONFIGURED}"]
    )


def left_behind() -> bool:
    """Whether a cluster of this kind was configured by a process that was killed."""
    folder = CONFIGURED.resolve().parent
    if not CONFIGURED.is_symlink() or (folder.exists() and not (folder / "munge.key").exists()):
        return False
    try:
        return not Path(f"/proc/{(folder / 'slurmctld.pid').read_text().strip()}").exists()
    except OSError:
        return True


@dataclass
class Cluster:
    """A running cluster.

    Attributes:
        folder: its files.
        daemons: its processes by name.
    """

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> None:
        """Start a daemon that stays a child of this process."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                [shutil.which(name) or name, *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def ask(self, *command: str) -> str:
        """Return what a Slurm command prints; nothing if it fails."""
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def wait_for_node(self, *states: str) -> None:
        """Wait until the node is in one of these states."""
        end = time.monotonic() + WAIT_SECONDS
        while self.ask("sinfo", "--noheader", "--format=%T").rstrip("*") not in states:
            if time.monotonic() > end:
                raise TimeoutError(f"node not {states}: {self.ask('sinfo')}\n{self.log('slurmctld')}")
            time.sleep(0.3)

    def fail_node(self) -> None:
        """Let the node die: its daemon and everything that it executes, at once and without a word."""
        node = self.daemons.pop("slurmd")
        for process in [node.pid, *below(node.pid), *steps()]:
            kill(process)
        node.wait()

    def start_node(self) -> None:
        """Start the node, which then offers itself again."""
        self.start("slurmd", "-D")

    def log(self, name: str) -> str:
        """Return a daemon's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]


def end_with_parent() -> None:
    """Let the system kill this process when the one that started it ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 9)


def steps() -> list[int]:
    """Return the processes of all jobs on this machine, which outlive the node's daemon."""
    processes = []
    for name in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if name.read_text().startswith("slurmstepd"):
                watcher = int(name.parent.name)
                processes += [watcher, *below(watcher)]
    return processes


def below(process: int) -> list[int]:
    """Return the children of a process, theirs, and so on."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [descendant for child in map(int, children) for descendant in (child, *below(child))]


def kill(process: int) -> None:
    """End a process that may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(process, 9)


@contextmanager
def cluster(folder: Path, cores: int = 8) -> Iterator[Cluster]:
    """Start a cluster whose files are in ``folder``, and end all its processes afterwards."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    ports = free_ports(2)
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        folder=folder,
        port=ports[0],
        node_port=ports[1],
        cores=cores,
        gpus=GPUS,
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 * 9 // 10,
    )
    (folder / "slurm.conf").write_text(text)
    devices = [folder / f"gpu{number}" for number in range(GPUS)]
    for device in devices:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null
    lines = (f"Name=gpu File={device}\n" for device in devices)
    (folder / "gres.conf").write_text("".join(lines))
    CONFIGURED.parent.mkdir(exist_ok=True)
    for link in LINKS:
        link.unlink(missing_ok=True)
        link.symlink_to(folder / link.name)
    running = Cluster(folder)
    try:
        files = {"socket": "socket", "pid-file": "pid", "seed-file": "seed", "log-file": "munge.log"}
        options = [f"--{option}={folder}/munge.{name}" for option, name in files.items()]
        running.start("munged", "--foreground", "--force", f"--key-file={key}", *options)
        running.start("slurmctld", "-D")
        running.start_node()
        running.wait_for_node("idle")
        yield running
    finally:
        for link in LINKS:
            link.unlink()
        for process in [*steps(), *(d.pid for d in running.daemons.values())]:
            kill(process)
        for daemon in running.daemons.values():
            daemon.wait()


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for endpoint in sockets:
        endpoint.bind(("", 0))
    ports = [endpoint.getsockname()[1] for endpoint in sockets]
    for endpoint in sockets:
        endpoint.close()
    return ports
