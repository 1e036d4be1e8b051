"""An environment of its own for each peer, made with uv below `.benchmarks/` and kept.

PyTorch is the project's own, which the peers' environments are pointed to: all measure with the same build of
it, and it is not downloaded again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".benchmarks" / "peers"
OURS = "fedcore"
ENGINES = {f"{OURS}-{engine}": engine for engine in ("fused", "compiled")}
OWN = OURS, *ENGINES


class NotInstalled(Exception):
    """A peer's environment can't be made; the message says why in a line."""


@dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes:
        packages: what is installed with all that it needs.
        alone: what is installed without what it needs: packages that ask for PyTorch.
        torch: whether it computes with the project's PyTorch.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    torch: bool = True

    @property
    def script(self) -> Path:
        """What measures it."""
        return Path(__file__).parent / f"with_{self.name}.py"


FEDLAB_NEEDS = ("numpy", "pandas", "scikit-learn", "pynvml", "tqdm", "munch")
PFL_NEEDS = (
    "dp-accounting>=0.4,<0.6",
    "multiprocess>=0.70.15,<0.71",
    "prv-accountant>=0.2,<0.3",
    "numpy<3",
    "packaging>=24,<26",
    "scipy",
)
PEERS = (
    Peer("flower", "Flower", ("flwr[simulation]==1.41.0", "ray==2.55.1")),
    Peer("fedlab", "FedLab", FEDLAB_NEEDS, ("fedlab==1.3.0",)),
    Peer("pfl", "pfl-research", PFL_NEEDS, ("pfl==0.6.0",)),
    Peer("fedjax", "fedjax", ("fedjax==0.0.17", "jax==0.10.2", "jaxlib==0.10.2"), torch=False),
)
BY_NAME = {peer.name: peer for peer in PEERS}
TITLES = {peer.name: peer.title for peer in PEERS} | {OURS: OURS}
TITLES |= {side: f"{OURS}, {engine}" for side, engine in ENGINES.items()}


def interpreter(name: str) -> Path:
    """Return the Python that a peer, or fedcore, runs in; makes its environment if it is not installed here.

    Raises:
        NotInstalled: it can't be made.
    """
    if name in OWN or find_spec(name):
        return Path(sys.executable)
    peer = BY_NAME[name]
    folder, description = HOME / name, repr(peer)
    python, stamp = folder / "bin" / "python", folder / "made_for"
    if stamp.is_file() and stamp.read_text() == description:
        return python
    print(f"{peer.title}: making {folder.relative_to(ROOT)}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _uv("venv", "--python", sys.executable, str(folder))
    _uv("pip", "install", "--python", str(python), *peer.packages)
    if peer.alone:
        _uv("pip", "install", "--python", str(python), "--no-deps", *peer.alone)
    if peer.torch:
        (_site_packages(python) / "project_torch.pth").write_text(f"{_torch_folder()}\n")
    stamp.write_text(description)
    return python


def _uv(*words: str) -> None:
    uv = shutil.which("uv")
    if uv is None:
        raise NotInstalled("uv is not on the PATH")
    with tempfile.TemporaryDirectory() as elsewhere:  # the project's own constraints hold inside of it
        process = subprocess.run(
            [uv, *words, "--quiet"], cwd=elsewhere, capture_output=True, text=True, check=False
        )
    if process.returncode:
        raise NotInstalled(" ".join(process.stderr.split())[:400])


def _site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    process = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return Path(process.stdout.strip())


def _torch_folder() -> Path:
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise NotInstalled("this environment has no PyTorch to share")
    return Path(spec.origin).parents[1]
