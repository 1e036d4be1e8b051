"""The hash of a run's code: what it holds, what leaves it alone, and that all that runs is in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from test_every_algorithm import NAMES, specification

from fedcore.base.registry import find
from fedcore.data.download import inventory, read_facts
from fedcore.execution.runner import Settings, execute
from fedcore.spec import parse
from pipeline.catalogue import codehash

Home = Callable[..., str]
PARTS = """
import numpy as np
from fedcore.extra import SCALE, twice

def used(x):
    return twice(x) * SCALE

def unused(x):
    return x - 1
"""
EXTRA = """
SCALE = 3

def twice(x):
    return 2 * x
"""
MAIN = """
from fedcore import parts

class Base:
    def call(self, x: int) -> int:
        return parts.used(x)

class Child(Base):
    \"\"\"Said.\"\"\"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Return a function that writes modules of a package and returns the hash of main's Child."""
    monkeypatch.setattr(codehash, "HOME", tmp_path)
    caches = (codehash.of_code, codehash._reached, codehash._led_to, codehash._resolved, codehash._digest)
    modules = (codehash._module, codehash._path, read_facts)

    def forget() -> None:
        for cached in (*caches, *modules):
            cached.cache_clear()

    def digest(**sources: str) -> str:
        folder = tmp_path / "fedcore"
        for path in folder.glob("*.py"):
            path.unlink()
        folder.mkdir(exist_ok=True)
        texts = {"__init__": "", "main": MAIN, "parts": PARTS, "extra": EXTRA, "facts": "", **sources}
        (folder / "extra.yaml").write_text(texts.pop("facts"))
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text)
        forget()
        return codehash.of_code("fedcore.main:Child")

    forget()
    yield digest
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param({"parts": PARTS.replace("x - 1", "x - 2")}, id="a-definition-not-used"),
        pytest.param({"main": MAIN.replace("Said.", "Put otherwise.")}, id="a-docstring"),
        pytest.param({"extra": f"# a comment\n\n{EXTRA}"}, id="a-comment"),
        pytest.param({"main": MAIN.replace("x: int) -> int", "x)")}, id="annotations-of-a-function"),
        pytest.param({"parts": PARTS + EXTRA, "extra": ""}, id="definitions-moved-to-another-module"),
        pytest.param({"parts": PARTS.replace("extra", "deep"), "deep": EXTRA}, id="a-module-renamed"),
        pytest.param(
            {"parts": PARTS.replace("from fedcore.extra import SCALE, twice\n", "").replace(
                "    return twice", "    from fedcore.extra import SCALE, twice\n    return twice"
            )},
            id="an-import-moved-into-a-function",
        ),
        pytest.param(
            {"main": MAIN.replace("parts.used", "used").replace("import parts", "import parts as _").replace(
                "class Base", "from fedcore.parts import used\n\nclass Base"
            )},
            id="imported-by-name-not-by-module",
        ),
        pytest.param(
            {"main": MAIN.replace("import parts", "import parts as p").replace("parts.used", "p.used")},
            id="a-module-by-another-name",
        ),
        pytest.param(
            {
                "parts": PARTS.replace("fedcore.extra", "fedcore.hub"),
                "hub": "from fedcore.extra import SCALE, twice\n",
            },
            id="imported-by-way-of-a-module-between",
        ),
    ],
)  # fmt: skip
def test_what_changes_nothing(home: Home, sources: dict[str, str]) -> None:
    assert home(**sources) == home()


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param({"extra": EXTRA.replace("2 * x", "x + x")}, id="a-function-two-imports-away"),
        pytest.param({"extra": EXTRA.replace("SCALE = 3", "SCALE = 4")}, id="a-constant"),
        pytest.param({"extra": f"{EXTRA}\nSCALE += 1\n"}, id="a-constant-changed-later"),
        pytest.param({"main": MAIN.replace("class Child(Base)", "class Child")}, id="a-base-class"),
        pytest.param({"main": MAIN.replace("parts.used", "parts.unused")}, id="another-function-called"),
        pytest.param({"main": MAIN.replace("x: int)", "x=1)")}, id="a-default"),
        pytest.param({"main": MAIN.replace("class Child", "@staticmethod\nclass Child")}, id="a-decorator"),
    ],
)
def test_what_changes_the_hash(home: Home, sources: dict[str, str]) -> None:
    assert home(**sources) != home()


def test_a_module_named_in_a_text_may_move(home: Home) -> None:
    named = "PLACE = 'fedcore.{}'\n" + MAIN.replace("parts.used(x)", "parts.used(x), PLACE")
    before = home(main=named.format("extra"))
    assert before == home(main=named.format("deep"), deep="")
    assert before != home(main=named.format("nowhere"))


def test_a_module_used_as_a_value_counts_whole(home: Home) -> None:
    handed = MAIN.replace("parts.used(x)", "getattr(parts, 'used')(x)")
    before = home(main=handed)
    assert before != home(main=handed, parts=PARTS.replace("x - 1", "x - 2"))


def test_a_missing_start_is_an_error(home: Home) -> None:
    home()
    with pytest.raises(LookupError, match="main:Nobody"):
        codehash.of_code("fedcore.main:Nobody")


@pytest.mark.parametrize(
    ("facts", "same"),
    [
        ("mine:\n  title: Theirs\n  files: [a, b]\n", True),
        ("# Said.\nmine: {files: [a, b], title: Mine, licence: CC0}\n", True),
        ("mine:\n  title: Mine\n  files: [b, a]\n", False),
        ("mine:\n  title: Mine\n  files: [a]\n", False),
        ("other:\n  title: Mine\n  files: [a, b]\n", False),
    ],
)
def test_declared_facts_count_but_for_words_that_describe(home: Home, facts: str, same: bool) -> None:
    first = "mine:\n  title: Mine\n  files: [a, b]\n"
    reads = f"{EXTRA}SCALE = declared(__file__)\n"
    assert (home(extra=reads, facts=facts) == home(extra=reads, facts=first)) == same
    assert home(facts=facts) == home(facts=first), "not declared by what is reached"


def test_a_runs_hash_has_the_checksums_of_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"mnist": "fedcore.data.datasets.images", "letter": "fedcore.data.datasets.libsvm"}
    facts = {name: codehash._facts(module) for name, module in names.items()}
    for name, text in facts.items():
        entry = inventory.entry(name).declaration
        assert all(file.sha256 in text for file in entry.edition("full").files)
        assert entry.citation not in text
    before = {name: codehash.of_run("fedavg", name, "logistic", "iid") for name in names}
    for cached in (codehash._digest, codehash.of_code, codehash.of_run):
        cached.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(codehash, "_facts", lambda module: facts["letter"] if "libsvm" in module else "changed")
        after = {name: codehash.of_run("fedavg", name, "logistic", "iid") for name in names}
    for cached in (codehash._digest, codehash.of_code, codehash.of_run):
        cached.cache_clear()
    assert [before[name] == after[name] for name in names] == [False, True]


@contextmanager
def executed() -> Iterator[set[tuple[str, str]]]:
    """Collect the definitions of the library whose code runs, as (module, name)."""
    definitions: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        name, module = frame.f_code.co_qualname.partition(".")[0], str(frame.f_globals.get("__name__"))
        ours = module.startswith("fedcore.") and module != codehash.LAZY
        written = not name.startswith("<") and not frame.f_code.co_filename.startswith("<")
        if event == "call" and written and ours:
            definitions.add((module, name))

    sys.setprofile(note)
    try:
        yield definitions
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", NAMES)
def test_all_that_a_run_executes_is_in_its_hash(name: str, spec: dict[str, Any], tmp_path: Path) -> None:
    spec = specification(spec, name)
    plugins = [find(kind, spec[kind]["name"]) for kind in ("algorithm", "data", "partition", "model")]
    settings = Settings()
    with executed() as definitions:
        short = parse({**spec, "training": {**spec["training"], "rounds": 1}})
        execute(short, tmp_path / "run", settings, None)
    reached = codehash.reached([*codehash.RUN, *(plugin.build.__module__ for plugin in plugins)])
    assert len(definitions) > 50
    assert definitions <= reached
