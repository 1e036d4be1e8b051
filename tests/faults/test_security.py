"""Names that would be commands, and calls that would execute what a file says."""

from __future__ import annotations

import ast
import copy
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from wording import one_line

from fedcore.base.errors import DataError, SpecError
from fedcore.data import Source
from fedcore.data.download import File, Form, inventory
from fedcore.data.download.cache import inside
from fedcore.data.download.fetch import obtain_file
from pipeline.catalogue import Catalogue
from pipeline.papers import build_catalogue
from pipeline.workflow.answers import Workflow

ROOT = Path(__file__).parents[2]
Record = Callable[[str, int], None]
SOURCES = [*(ROOT / "fedcore").rglob("*.py"), *(ROOT / "pipeline").rglob("*.py")]
HOSTILE = (
    "a b",
    "a'b",
    'a"b',
    "$(touch hacked)",
    "`touch hacked`",
    "a;touch hacked",
    "a\ntouch hacked",
    "a\n",
    "a|b",
    "a&b",
    "a>b",
    "../../hacked",
    "/hacked",
    "{params}",
    "-rf",
    "é",
    "a\x00b",
)
SAFE = re.compile(r"[A-Za-z0-9_./-]+")
NAMED = {"papers", "regimes", "datasets", "splits", "algorithms", "scales"}


def params() -> dict[str, Any]:
    """Return params.yaml with the smallest paper alone, and its own seeds."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
    for section in (config, *config["scales"].values()):
        section["papers"] = {key: part for key, part in section.get("papers", {}).items() if key == "comfed"}
    return config | {"primary_paper": "comfed"}


def names(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of each name that a user chooses."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if at and at[-1] in NAMED:
                yield (*at, key)
            yield from names(inner, (*at, key))


def renamed(config: dict[str, Any], place: tuple[str, ...], name: str) -> dict[str, Any]:
    """Return the configuration with one name changed, wherever it is used."""
    old = place[-1]

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {(name if key == old else key): change(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [change(inner) for inner in value]
        return name if value == old else value

    changed: dict[str, Any] = change(copy.deepcopy(config))
    return changed


def words(catalogue: Catalogue) -> Iterator[str]:
    """Yield everything that becomes part of a path, a file's name or a command."""
    for run in catalogue.index.values():
        yield run.folder
        yield run.partition
    yield from catalogue.data
    yield from catalogue.names()


def test_hostile_names_are_refused_or_never_reach_a_command(record_property: Record) -> None:
    config = params()
    places = list(names(config))
    assert len(places) > 20
    refused = 0
    for place in places:
        for hostile in HOSTILE:
            try:
                catalogue = build_catalogue(renamed(config, place, hostile))
                all_words = list(words(catalogue))
            except SpecError as error:
                one_line(str(error).replace("a\\n", ""))  # a name's own
                refused += 1
            else:
                assert all(SAFE.fullmatch(word) for word in all_words), (place, hostile)
                assert not any(".." in word for word in all_words), (place, hostile)
    record_property("trials", len(places) * len(HOSTILE))
    assert refused > len(places)


@pytest.mark.parametrize("key", ["name", "edition", "path"])
def test_hostile_options_of_plug_ins_stay_in_files(key: str, record_property: Record) -> None:
    """What is no name but an option goes into a specification, of which commands see the path alone."""
    record_property("trials", len(HOSTILE))
    config = params()
    built = 0
    for hostile in HOSTILE:
        changed = copy.deepcopy(config)
        datasets = changed["papers"]["comfed"]["datasets"]
        for dataset in datasets.values():
            dataset["data"] = {**({"name": "npz"} if key == "path" else dataset["data"]), key: hostile}
        for scale in changed["scales"].values():
            scale["papers"].pop("comfed", None)
        try:
            all_words = list(words(build_catalogue(changed)))
        except SpecError as error:
            one_line(str(error).replace("a\\n", ""))
        else:
            built += 1
            assert all(SAFE.fullmatch(word) for word in all_words), (hostile, datasets)
    assert built == (len(HOSTILE) if key == "path" else 0)


def test_a_hostile_mirror_is_one_argument(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_property: Record
) -> None:
    mirrors = [f"/data {name}" for name in HOSTILE if "\x00" not in name]
    record_property("trials", 2 * len(mirrors))
    flow = Workflow(params())
    for mirror in mirrors:
        for written in (mirror, None):
            monkeypatch.setenv("FEDCORE_MIRROR", "" if written else mirror)
            flow.params = replace(flow.params, mirror=written)
            given = flow.mirror
            assert shlex.split(given) == ["--mirror", mirror]
            shell = ["sh", "-c", f"printf '%s\\0' {given}"]
            process = subprocess.run(shell, capture_output=True, text=True, cwd=tmp_path, check=True)
            assert process.stdout == f"--mirror\0{mirror}\0"
    assert not list(tmp_path.iterdir())


def test_rules_put_nothing_into_a_shell_but_paths_of_checked_names() -> None:
    allowed = {"input", "output", "log", "threads", "params.order[file]", "params.out", "params.what"}
    allowed |= {"params.code", "params.mirror", "params.scale", "resources.gpu_percent"}
    allowed |= {"wildcards.paper", "wildcards.table", "wildcards.figure", "log.benchmark", "log.messages"}
    for path in (ROOT / "pipeline" / "rules").glob("*.smk"):
        text = path.read_text()
        commands = re.findall(r'shell:((?:\n\s+".*")+)', text)
        assert len(commands) == text.count("shell:"), path.name
        for command in commands:
            assert set(re.findall(r"\{([^{}]+)\}", command)) <= allowed, (path.name, command)


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def keywords(node: ast.Call) -> dict[str, str]:
    return {item.arg or "**": ast.unparse(item.value) for item in node.keywords}


def verdict(path: Path, node: ast.Call) -> str:
    """Say what is wrong with a call; empty if nothing is."""
    name, given = called(node), keywords(node)
    if name in {"eval", "exec", "os.system", "os.popen", "yaml.load", "yaml.full_load", "yaml.unsafe_load"}:
        return name
    if name in {
        "pickle.load",
        "pickle.loads",
        "marshal.loads",
        "shelve.open",
        "joblib.load",
        "pd.read_pickle",
    }:
        return name
    if name == "torch.load" and given.get("weights_only") != "True":
        return "torch.load without weights_only"
    if name in {"np.load", "numpy.load"} and given.get("allow_pickle") != "False":
        return "np.load that may unpickle"
    if (
        name.endswith((".extractall", ".extract")) and not name.endswith(".str.extract")
    ) or name == "shutil.unpack_archive":
        return "an archive that names its own paths"
    if "shell" in given:
        return "a shell"
    if name.endswith("Environment") and "autoescape" not in given and "pathlib" not in name:
        return "templates that don't escape"
    if given.get("verify") == "False":
        return "a certificate that isn't checked"
    return ""


def test_no_call_executes_what_a_file_says(record_property: Record) -> None:
    calls = [
        (path, node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    record_property("trials", len(calls))
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {what}"
        for path, node in calls
        if (what := verdict(path, node))
    ]
    assert wrong == []
    assert sum(called(node) in {"np.load", "torch.load", "yaml.safe_load"} for _, node in calls) >= 9


@pytest.mark.parametrize(
    "bad",
    [
        "eval(x)",
        "yaml.load(x)",
        "torch.load(x)",
        "torch.load(x, weights_only=False)",
        "np.load(x)",
        "np.load(x, allow_pickle=True)",
        "pickle.load(x)",
        "archive.extractall(x)",
        "subprocess.run(x, shell=True)",
        "requests.get(x, verify=False)",
        "jinja2.Environment()",
    ],
)
def test_such_calls_would_be_found(bad: str) -> None:
    (node,) = [node for node in ast.walk(ast.parse(bad)) if isinstance(node, ast.Call)]
    assert verdict(ROOT, node)


def test_pickles_are_read_by_one_class_alone() -> None:
    using = [path.relative_to(ROOT).as_posix() for path in SOURCES if "pickle." in path.read_text()]
    assert using == ["fedcore/data/readers.py"]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a/b/../../../x"])
def test_no_name_leads_out_of_the_data_folder(path: str, tmp_path: Path, record_property: Record) -> None:
    record_property("trials", 3)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "x").write_bytes(b"abc")
    source = Source(tmp_path / "data", str(tmp_path / "mirror"), offline=True)
    with pytest.raises(DataError, match="leads out of"):
        inside(tmp_path / "data", path)
    declaration = inventory.entry("mnist").declaration
    for file in (File(path), File(path, forms=(Form("x"),))):
        with pytest.raises(DataError, match="leads out of"):
            obtain_file(declaration, "full", file, source)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["mirror", "x"]


def test_a_link_in_the_data_folder_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "out").symlink_to(tmp_path)
    with pytest.raises(DataError, match="leads out of"):
        inside(tmp_path / "data", "out/x")


def test_declared_addresses_and_names_are_plain(record_property: Record) -> None:
    files = [
        file
        for entry in inventory.entries().values()
        for edition in entry.declaration.editions.values()
        for file in (*edition.files, *edition.extras)
    ]
    record_property("trials", len(files))
    for file in files:
        assert SAFE.fullmatch(file.path), file.path
        assert ".." not in file.path
        for form in file.forms:
            assert all(url.startswith(("https://", "http://")) for url in form.urls), form
            assert file.sha256 or form.digest or file.rows or not form.urls, "unverified"


def test_an_order_is_data_and_no_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    flow = Workflow(params())
    items = [{"out": "$(touch hacked)"}]
    job = SimpleNamespace(rule=SimpleNamespace(name="table"), wildcards_dict={})
    job.params = {"order": {"file": "logs/order.json", "told": items}}
    dag = SimpleNamespace(needrun_jobs=lambda exclude_finished: [job])
    flow.snakemake = SimpleNamespace(dag=dag, scheduler=SimpleNamespace(), persistence=None)
    flow.begin()
    assert json.loads(Path("logs/order.json").read_text()) == items
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
