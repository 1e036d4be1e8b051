"""Which definitions a hash of code holds, by each way to name one, and which plug-ins a run's hash is of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fedcore.base.registry import find
from pipeline.catalogue import codehash

FILES = {
    "fedcore/__init__.py": "",
    "fedcore/files.py": "SIZE = 1\n\ndef write():\n    return SIZE\n\ndef read():\n    return 0\n",
    "fedcore/part/__init__.py": (
        "from fedcore.files import write as put\nfrom fedcore import files as kept\n"
        "def own():\n    return 5\n"
    ),
    "fedcore/part/deep.py": "LEFT, (RIGHT, *REST) = 1, (2, 3)\nprint(LEFT)\n'a text'\n",
    "pipeline/__init__.py": "",
    "pipeline/page.py": "def page():\n    return 1\n",
}
FILES_ALL = {("fedcore.files", "SIZE"), ("fedcore.files", "write"), ("fedcore.files", "read")}
WRITE = {("fedcore.files", "SIZE"), ("fedcore.files", "write")}
DEEP = {("fedcore.part.deep", name) for name in ("LEFT", "RIGHT", "REST", "")}
READ = {("fedcore.files", "read")}
OWN = {("fedcore.part", "own")}
Reached = Callable[[str], set[tuple[str, str]]]


@pytest.fixture
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reached]:
    """Return a function that gives what ``start`` of a module of the given text leads to, besides itself."""
    cached = (codehash.of_code, codehash._reached, codehash._led_to, codehash._resolved, codehash._digest)

    def forget() -> None:
        for function in (*cached, codehash._module, codehash._path):
            function.cache_clear()

    def reach(text: str) -> set[tuple[str, str]]:
        (tmp_path / "fedcore/main.py").write_text(text, encoding="utf-8")
        forget()
        return set(codehash.reached(["fedcore.main:start"])) - {
            ("fedcore.main", "start"),
            ("fedcore.main", ""),
        }

    monkeypatch.setattr(codehash, "HOME", tmp_path)
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    yield reach
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from fedcore.files import write\ndef start(): write()", WRITE),
        ("from fedcore.files import write as put\ndef start(): put()", WRITE),
        ("from fedcore.files import write as put\ndef start(): write()", set()),
        ("from fedcore import files\ndef start(): files.read()", READ),
        ("from fedcore import files\ndef start(): files.read", READ),
        ("from fedcore import files\ndef start(): return files", FILES_ALL),
        ("import fedcore.files\ndef start(): fedcore.files.read()", READ),
        ("import fedcore.files as own\ndef start(): own.read().more.still", READ),
        ("import fedcore.files\ndef start(): fedcore.files.nothing", set()),
        ("from fedcore.part import put\ndef start(): put()", WRITE),
        ("from fedcore import part\ndef start(): part.put()", WRITE),
        ("from fedcore import part\ndef start(): part.own()", OWN),
        ("from fedcore import part\ndef start(): part.kept.read()", READ),
        ("from fedcore import part\ndef start(): part.kept", FILES_ALL),
        ("from fedcore import part\ndef start(): part.deep", DEEP),
        ("import fedcore.part.deep\ndef start(): fedcore.part.deep.RIGHT", DEEP),
        ("def start():\n    from fedcore import files\n    return files.read()", READ),
        ("def start():\n    import fedcore.files\n    return fedcore.files.read()", READ),
        ("def start(x: 'files'):\n    from fedcore.nothing import y\n    return y", set()),
        ("from fedcore.files import read\ndef start(x: read) -> read: pass", set()),
        ("from fedcore.files import read\ndef start(x=read): pass", READ),
        ("from fedcore.files import read\n@read\ndef start(): pass", READ),
        ("from fedcore.files import read\nclass start:\n    x: int = read()", READ),
        ("from fedcore.files import read\nasync def start(): await read()", READ),
        ("from fedcore.files import read\nstart = [read]", READ),
        ("from fedcore.files import read\nstart: object = read", READ),
        ("from fedcore.files import read\nstart = 1\nstart += read()", READ),
        ("from fedcore.files import read\nif read():\n    start = 2", READ),
        ("from fedcore.files import read\ndef start(): return (lambda: read)()[0].x", READ),
        ("def start(): return other()\ndef other(): return start", {("fedcore.main", "other")}),
        ("import numpy\ndef start(): numpy.zeros(1)", set()),
        ("from numpy import zeros\ndef start(): zeros(1)", set()),
        ("from . import files\ndef start(): files.read()", READ),
        ("TYPE_CHECKING = 0\nif TYPE_CHECKING:\n    start = 1\ndef start(): pass", set()),
        ("from pipeline.page import page\ndef start(): page()", {("pipeline.page", "page")}),
    ],
)  # fmt: skip
def test_what_a_definition_leads_to(reached: Reached, text: str, expected: set[tuple[str, str]]) -> None:
    assert reached(text) == expected


def test_one_statement_may_define_several_names_and_others_none(reached: Reached) -> None:
    assert {name for _, name in codehash.reached(["fedcore.part.deep"])} == {"LEFT", "RIGHT", "REST", ""}


def hashed(reached: Reached, text: str) -> str:
    reached(text)
    return codehash.of_code("fedcore.main:start")


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        (
            "def start(a): return [a, 'x']",
            'def start(\n    a,\n):\n    return [  # why\n        a, "x"]',
            True,
        ),
        ("def start(a): pass", "def start(a: int): pass", True),
        ("def start(): pass", "def start() -> int: pass", True),
        ("def start():\n    'Say.'\n    return 1", "def start():\n    return 1", True),
        ("def start():\n    1\n    return 1", "def start():\n    return 1", False),
        ("def start(a, b): return a", "def start(b, a): return a", False),
        ("def start(a): return a.x", "def start(a): return a.y", False),
        ("def start(a): return a[1]", "def start(a): return a[True]", False),
        ("def start(a): return a == 1", "def start(a): return a != 1", False),
        ("def start(a): return 'e'", "def start(a): return 'é'", False),
        ("def start(a): return 1", "def start(a): return 1.0", False),
        ("def start(*, a): pass", "def start(a): pass", False),
        ("def start(a, b): return f(a, x=b)", "def start(a, b): return f(a, y=b)", False),
        ("def start(a):\n    a\n    return a", "def start(a):\n    return a\n    a", False),
        ("start: int = 1", "start: float = 1", False),
        ("start = u'x'", "start = 'x'", True),
        ("start = 1\nstart = 2", "start = 2\nstart = 1", False),
    ],
)
def test_what_is_hashed_is_what_is_executed(reached: Reached, text: str, other: str, same: bool) -> None:
    assert (hashed(reached, text) == hashed(reached, other)) == same


def test_a_hash_is_of_a_set_of_definitions(reached: Reached) -> None:
    reached("def start(): return 1\ndef other(): return 2")
    joint = codehash.of_code("fedcore.main:start", "fedcore.main:other")
    assert (
        joint
        == codehash.of_code("fedcore.main:other", "fedcore.main:start")
        == codehash.of_code("fedcore.main")
    )
    assert len(joint) == 16
    assert int(joint, 16) >= 0
    assert joint not in {codehash.of_code("fedcore.main:start"), codehash.of_code("fedcore.main:other")}


@pytest.mark.parametrize("start", ["fedcore.main:nobody", "fedcore", "fedcore.main:start.x"])
def test_a_start_that_is_nothing_is_named(reached: Reached, start: str) -> None:
    reached("def start(): pass")
    with pytest.raises(LookupError, match=f"{start}: no such definition under "):
        codehash.of_code(start)


def test_a_module_that_is_missing_is_named(reached: Reached) -> None:
    for start in ("fedcore.nothing", "fedcore.nothing:start", "numpy:zeros", "fedcore_plugins.nothing:start"):
        with pytest.raises(FileNotFoundError, match=rf"{start.partition(':')[0]}: no such module under "):
            codehash.of_code(start)


def test_a_contributed_module_is_read_where_it_was_loaded_from(
    reached: Reached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text("from fedcore.files import read\ndef start(): read()\n")
    module = ModuleType("fedcore_plugins.mine")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert codehash.reached([f"{module.__name__}:start"]) == READ | {(module.__name__, "start")}


def test_a_helper_of_the_user_s_counts_as_far_as_it_is_reached_and_an_installed_package_does_not(
    reached: Reached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("mine", "installed/named-1.dist-info"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "my_steps.py").write_text("from mine import far\ndef step(): far.go()\ndef other(): pass\n")
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "mine/far.py").write_text("from .near import LENGTH\ndef go(): return LENGTH\n")
    (tmp_path / "mine/near.py").write_text("LENGTH = 3\n")
    (tmp_path / "installed/named.py").write_text("def step(): pass\n")
    for folder in (tmp_path, tmp_path / "installed"):
        monkeypatch.syspath_prepend(folder)
    expected = {("my_steps", "step"), ("mine.far", "go"), ("mine.near", "LENGTH")}
    assert expected == reached("import my_steps, named\ndef start(): my_steps.step(), named.step()\n")


def test_a_folder_without_init_is_followed_into_its_modules(
    reached: Reached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose/tools.py").write_text("def step(): pass\ndef other(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for text in (
        "from loose import tools\ndef start(): tools.step()\n",
        "import loose.tools\ndef start(): loose.tools.step()\n",
        "from loose.tools import step\ndef start(): step()\n",
    ):
        assert reached(text) == {("loose.tools", "step")}


@pytest.mark.parametrize(
    "helper",
    [
        "def rate(): return 1",
        "RATES = {}\nRATES['a'] = 1\ndef rate(): return RATES",
        "X = []\nX.append(1)\ndef rate(): return X",
        "T = {}\nfor k in 'a':\n    T[k] = 1\ndef rate(): return T",
        "def rate(): pass\nrate.value = 1",
        "try:\n    import x\nexcept ImportError:\n    def rate(): return 1",
        "try:\n    from near import rate\nexcept ImportError:\n    rate = 1",
    ],
)
def test_an_edit_of_what_a_helper_does_at_its_top_counts(
    reached: Reached, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "near.py").write_text("from other import *\nfrom helper import rate\n")
    (tmp_path / "other.py").write_text("from near import *\n")
    hashes = set()
    for text in (helper, helper.replace("1", "2")):
        (tmp_path / "helper.py").write_text(text)
        hashes.add(hashed(reached, "from other import *\nfrom helper import *\ndef start(): return rate()"))
    assert len(hashes) == 2


def module(kind: str, name: str) -> str:
    return find(kind, name).build.__module__


def test_a_runs_hash_is_of_the_runner_and_of_each_of_its_plugins() -> None:
    names = ("fedprox", "mnist", "cnn", "similarity")
    kinds = ("algorithm", "data", "model", "partition")
    modules = [module(kind, name) for kind, name in zip(kinds, names, strict=True)]
    assert codehash.of_run(*names) == codehash.of_code(*codehash.RUN, *modules)
    observed = codehash.of_code(*codehash.RUN, *modules, module("observer", "risk"))
    assert codehash.of_run(*names, ("risk",)) == observed
    others = ("fedavgr", "usps", "lstm", "qp")
    mixed = {codehash.of_run(*(*names[:i], others[i], *names[i + 1 :])) for i in range(4)}
    assert len(mixed | {codehash.of_run(*names), observed}) == 6


def test_a_partitions_hash_is_of_its_data_its_plugin_and_their_making() -> None:
    home = "fedcore.partitions"
    making = (f"{home}.build:make", f"{home}.file:identity", f"{home}.stats")
    modules = module("data", "mnist"), module("partition", "qp")
    assert codehash.of_partition("mnist", "qp") == codehash.of_code(*making, *modules)
    pairs = (("mnist", "qp"), ("mnist", "iid"), ("usps", "qp"))
    assert len({codehash.of_partition(*pair) for pair in pairs}) == 3
