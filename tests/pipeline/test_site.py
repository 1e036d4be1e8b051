"""The site: true to what exists, harmless whatever texts hold, usable in a real browser without network."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from project import HOME, parameters, seal, seal_partition

from fedcore.base.errors import DataError
from fedcore.base.files import canonical_json, sha256_text
from pipeline import site as building
from pipeline.catalogue.params import EDITIONS
from pipeline.catalogue.targets import PlannedRun
from pipeline.claims.ledger import ledger
from pipeline.fidelity.scoreboard import scoreboard
from pipeline.papers import build_catalogue, published
from pipeline.reports.kept import HISTORIES, REFERENCE, RUNS, read_kept
from pipeline.reports.results import read_history
from pipeline.site import charts, pages
from pipeline.site.format import with_std
from pipeline.site.survey import read_csv, survey
from pipeline.site.tables import LEVELS, distance

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

PAPER = "fedomw"
NAN = float("nan")
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
CONFIG = parameters(PAPER) | {"primary_paper": PAPER}


def write(root: Path, run: PlannedRun) -> None:
    """Pretend a finished run; its accuracy follows from its specification."""
    spec = sha256_text(canonical_json(run.spec))
    accuracy = int(spec[:4], 16) / 0xFFFF
    files = {
        "summary.json": {
            "status": "completed",
            "final": {"test_accuracy": accuracy, "test_loss": 1.0, "train_loss": 1.0},
            "spec_sha256": spec,
            "data_note": f"2 rows of {run.dataset} {HOSTILE}",
            "data_state": "subset",
            "data_sha256": "d" * 64,
            "partition_sha256": "b" * 64,
        },
        "timing.json": {"seconds": 1.5, "finished": "2026-01-02T03:04:05Z", "device": "cpu", "commit": "abc"},
    }
    folder = root / run.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    lines = [f"{r},{1 / (r + 1)},{2 / (r + 1)},{accuracy * r / 4},{r}" for r in range(5)]
    (folder / "history.csv").write_text(
        "\n".join(["round,train_loss,test_loss,test_accuracy,bytes_up", *lines])
    )
    (folder / "clients.csv").write_text("client,test_accuracy\n0,0.25\n1,0.75\n")
    seal(folder, run.spec, note=f"# {HOSTILE}\n", code=run.code)
    statistics = {
        "clients": 2,
        "empty_clients": [],
        "sizes": {"min": 3, "max": 9, "mean": 6.0},
        "c_score": 0.5,
        "label_counts": [[3, 0], [4, 5]],
    }
    (root / run.partition).mkdir(parents=True, exist_ok=True)
    (root / run.partition / "stats.json").write_text(json.dumps(statistics))
    seal_partition(root / run.partition)


def project(root: Path) -> Path:
    """Make results and reports: a table and a figure built, a table half run, the rest not begun."""
    catalogue = build_catalogue(CONFIG)
    for run in (*catalogue.needed(PAPER, "table3"), *catalogue.needed(PAPER, "table2")[:3]):
        write(root, run)
    folder = root / "reports" / PAPER
    folder.mkdir(parents=True)
    for target in ("table3", "fig1"):
        catalogue.sources(PAPER, target, root).build(catalogue.target(PAPER, target).paths(folder, target))
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project, its site built."""
    root = project(tmp_path_factory.mktemp("site"))
    building.build(CONFIG, root)
    return root


@pytest.fixture(scope="module")
def site(made: Path) -> Path:
    return made / "reports" / "site"


class Links(HTMLParser):
    """Collects what a page points at and what can be pointed at in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.targets += [value for name in ("href", "src") if (value := known.get(name))]
        self.ids |= {known["id"] or ""} if "id" in known else set()


def test_states_say_what_exists(made: Path) -> None:
    found = survey(CONFIG, made)
    states = {shown.name: (shown.state, shown.finished) for shown in found.targets}
    assert states["table3"] == ("made", 36)
    assert states["fig1"] == ("made", 6)
    assert states["table2"] == ("partly", 3)
    assert states["table4"] == ("missing", 0)
    assert states["table3_released"] == ("missing", 0)
    assert "3 of 24 runs" in (made / "reports/site/own/index.html").read_text()


def test_a_table_of_other_parameters_is_outdated(made: Path) -> None:
    changed = json.loads(json.dumps(CONFIG))
    changed["papers"][PAPER]["algorithms"]["fedprox"]["per"]["satimage"]["mu"] = 0.123
    states = {shown.name: shown.state for shown in survey(changed, made).targets}
    assert states["table3"] == states["fig1"] == "outdated"


def test_every_link_leads_somewhere_and_none_leaves_the_site(site: Path) -> None:
    links_of = {path: Links(path) for path in site.rglob("*.html") if "files" not in path.parts}
    assert {path.relative_to(site).as_posix() for path in links_of} == {
        *("index.html", "404.html", f"papers/{PAPER}.html", "own/index.html", f"own/{PAPER}.html"),
        *("results/board.html", "results/run.html", "results/runs.html"),
    }
    for path, links in links_of.items():
        for target in links.targets:
            address, _, place = target.partition("#")
            if path.name == "404.html" or address.startswith("data:"):
                continue
            assert not re.match(r"\w+:|//", address), f"{path}: {target}"
            linked = (path.parent / address).resolve() if address else path
            assert linked.is_file(), f"{path}: {target}"
            assert linked.is_relative_to(site)
            if place and "=" not in place:
                assert place in links_of[linked].ids, f"{path}: {target}"


def test_what_was_built_at_a_reduced_scale_has_its_own_place_which_says_so(site: Path) -> None:
    for name in ("own/index.html", f"own/{PAPER}.html"):
        assert "Demo scale: not a reproduction." in (site / name).read_text(), name
    for name in ("index.html", f"papers/{PAPER}.html"):
        assert "Demo scale" not in (site / name).read_text(), name


def test_the_full_scale_has_no_warning(tmp_path: Path) -> None:
    building.build(CONFIG | {"scale": "paper"}, tmp_path)
    for path in (tmp_path / "reports/site").rglob("*.html"):
        assert "not a reproduction" not in path.read_text()
    assert "Nothing was built here yet" in (tmp_path / "reports/site/own/index.html").read_text()


def test_texts_can_not_become_markup(site: Path) -> None:
    pages_and_data = [*site.rglob("*.html"), *(site / "data").rglob("*.js")]
    assert sum("window.hacked" in path.read_text() for path in pages_and_data) > 3
    for path in pages_and_data:
        assert not re.search(r"<(script>window|img src=x)", path.read_text()), path


def test_equal_results_give_equal_bytes(made: Path, site: Path) -> None:
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    building.build(CONFIG, made)
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_a_failure_leaves_the_old_site(made: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (site / "index.html").read_bytes()

    def fails(*arguments: Any) -> None:
        raise DataError("made to fail")

    monkeypatch.setattr(pages.Page, "whole", fails)
    with pytest.raises(DataError, match="made to fail"):
        building.build(CONFIG, made)
    assert (site / "index.html").read_bytes() == before
    assert [path.name for path in (made / "reports").iterdir() if path.name.startswith(".site")] == []


def test_the_old_site_comes_back_if_the_new_one_can_not_take_its_place(
    made: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rename = (site / "index.html").read_bytes(), os.rename

    def refuses_the_new_one(source: Path, target: Path) -> None:
        if source.name == "site" and target == site.resolve():
            raise PermissionError("made to fail")
        rename(source, target)

    def empty(config: Any) -> None:
        Path(config.site_dir).mkdir()

    monkeypatch.setattr(building, "mkdocs_build", SimpleNamespace(build=empty))
    monkeypatch.setattr(os, "rename", refuses_the_new_one)
    with pytest.raises(PermissionError, match="made to fail"):
        building.build(CONFIG, made)
    assert (site / "index.html").read_bytes() == before


def test_a_damaged_run_is_shown_as_such(tmp_path: Path) -> None:
    (run, *_) = build_catalogue(CONFIG).needed(PAPER, "table3")
    write(tmp_path, run)
    (tmp_path / run.folder / "summary.json").write_text('{"status": "comp')
    found = survey(CONFIG, tmp_path)
    assert str(found.evidence[run.folder].facts["status"]).startswith("damaged: ")
    assert not any(evidence.finished for evidence in found.evidence.values())


@pytest.mark.parametrize(
    ("mean", "published", "std", "unit", "level"),
    [
        (50.0, 51.0, NAN, "percent", 0),
        (50.0, 51.01, NAN, "percent", -1),
        (50.0, 53.0, 1.5, "percent", 0),
        (55.9, 50.9, NAN, "percent", 1),
        (56.0, 50.9, NAN, "percent", 2),
        (60.0, 50.0, 6.0, "percent", 0),
        (1049.0, 1000.0, NAN, "bytes", 0),
        (1051.0, 1000.0, NAN, "bytes", 1),
        (700.0, 1000.0, NAN, "bytes", -2),
    ],
)
def test_near_and_far(mean: float, published: float, std: float, unit: str, level: int) -> None:
    apart = distance({"mean": mean, "published_mean": published, "published_std": std}, unit)
    assert apart is not None
    assert (apart.kind, apart.mark) == LEVELS[level][:2]
    assert distance({"mean": mean, "published_mean": NAN, "published_std": std}, unit) is None


def handed(site: Path, name: str) -> dict[str, Any]:
    """Return what a page's script is handed."""
    text = (site / "data" / f"{name}.js").read_text()
    data: dict[str, Any] = json.loads(text.partition(" = ")[2].rstrip(";\n"))
    assert text.startswith(f'(window.SITE ??= {{}})["{name}"] = ')
    return data


def test_a_cell_leads_to_its_runs(site: Path) -> None:
    data = handed(site, f"own/{PAPER}")
    cells = build_catalogue(CONFIG).cells(PAPER, "table3")
    for cell, ((row, column), runs) in zip(data["cells"]["table3"], cells.items(), strict=True):
        behind = [data["runs"][place] for place in cell["runs"]]
        assert [run["spec"] for run in behind] == [sha256_text(canonical_json(r.spec))[:12] for r in runs]
        assert [run["seed"] for run in behind] == [run.seed for run in runs]
        assert {(run["data"], run["partition"], run["commit"]) for run in behind} == {
            ("d" * 12, "b" * 12, "abc")
        }
        assert f"--row {row} --column {column}" in cell["command"]


def test_long_histories_are_thinned_to_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("round,test_accuracy\n" + "".join(f"{r},{r / 1000}\n" for r in range(1001)))
    (chart,) = charts.of_history(read_history(path), "fedavg")
    (trace,) = chart["traces"]
    assert 200 < len(trace["x"]) < 300
    assert (trace["x"][0], trace["x"][-1]) == (0, 1000)
    assert trace["mean"][-1] == 100.0


def test_the_board_has_every_published_cell_and_claim(site: Path) -> None:
    text = (site / "results/board.html").read_text()
    with published(PAPER).open(encoding="utf-8", newline="") as handle:
        printed = len(list(csv.DictReader(handle)))
    assert text.count("<tr data-text=") >= printed > 50
    assert text.count('data-verdict="not_built"') == printed
    assert all(str(escape(claim.text)) in text for claim in ledger(PAPER))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of which one table was built here, beside the paper's kept results; its site."""
    root = project(tmp_path_factory.mktemp("kept"))
    shutil.copytree(HOME / REFERENCE / PAPER, root / REFERENCE / PAPER)
    (root / "data").mkdir()
    shutil.copy(HOME / EDITIONS, root / EDITIONS)
    building.build(CONFIG, root)
    return root / "reports" / "site"


@pytest.mark.slow
def test_kept_results_come_before_those_that_were_built_here(kept: Path) -> None:
    found = survey(CONFIG, kept.parents[1])
    states = [(shown.name, shown.state, shown.scale) for shown in (*found.reference, *found.own.values())]
    assert {("table3", "kept", "paper"), ("table3", "made", "demo"), ("table4", "kept", "paper")} <= {*states}
    assert ("table4", "missing", "demo") not in states
    assert not any(evidence.kept and evidence.finished for evidence in found.evidence.values())
    text = (kept / f"papers/{PAPER}.html").read_text()
    built = re.findall(r'class="own">([^<]*)<', text[text.index('id="table3"') : text.index('id="table4"')])
    frame = found.own[PAPER, "table3"].frame
    assert frame is not None
    assert built == [with_std(mean, std) for mean, std in frame[["mean", "std"]].to_numpy()]
    lines = read_csv(HOME / REFERENCE / PAPER / "table3_released.csv")
    cell = lines[(lines["row"] == "fedomw") & (lines["column"] == "usps")].iloc[0]
    shown = text[text.index('id="table3_released"') :]
    assert f"{cell['mean']:.2f}" in shown.replace("<b>", "")
    assert (kept / "files" / "kept" / PAPER / "table3.csv").read_bytes() == (
        HOME / REFERENCE / PAPER / "table3.csv"
    ).read_bytes()


def test_results_at_the_paper_s_scale_stand_beside_the_kept_ones(tmp_path: Path) -> None:
    shutil.copytree(HOME / REFERENCE / PAPER, tmp_path / REFERENCE / PAPER)
    shutil.copytree(HOME / REFERENCE / PAPER, tmp_path / "reports" / PAPER)
    found = survey({**CONFIG, "scale": "paper"}, tmp_path)
    rows = [(item.folder, item.begun) for item in (*found.reference, *found.targets) if item.name == "table3"]
    assert rows == [(f"files/kept/{PAPER}", False), (f"files/own/{PAPER}", True)]
    assert all(len(record.used) == len({*record.used}) for record in found.evidence.values())


def test_what_is_not_measured_is_built_by_its_paper_s_name(site: Path) -> None:
    text = (site / f"papers/{PAPER}.html").read_text()
    built = re.findall(r"fedcore build (\S+) --scale paper", text)
    assert built
    assert {name.partition("/")[0] for name in built} == {PAPER}


def test_a_kept_cell_names_its_runs(kept: Path) -> None:
    data = handed(kept, f"papers/{PAPER}")
    cell = next(cell for cell in data["cells"]["table3_released"] if cell["title"] == "FedOMW, usps")
    runs = [data["runs"][place] for place in cell["runs"]]
    assert [run["seed"] for run in runs] == [0, 1, 2]
    known = pd.read_parquet(HOME / REFERENCE / PAPER / RUNS).set_index("spec_sha256")
    for run in runs:
        line = known[known.index.str.startswith(run["spec"])].iloc[0]
        assert run["accuracy"] == f"{100 * line['test_accuracy']:.2f}"
        assert (run["commit"], run["page"]) == (line["commit"], None)


def test_a_figure_has_the_caption_that_it_was_drawn_with(kept: Path) -> None:
    text = (kept / f"papers/{PAPER}.html").read_text()
    section = text[text.index('id="theorem1"') : text.index('id="theorem2"')]
    for paragraph in (HOME / REFERENCE / PAPER / "theorem1.caption.md").read_text().split("\n\n"):
        assert str(escape(paragraph.replace("\\", "").strip())) in section
    assert "theorem1.caption.md" in section
    mine = (kept / f"own/{PAPER}.html").read_text()
    assert '<p class="said"> Test accuracy of federated learning on satimage.</p>' not in mine
    assert '<p class="said">Test accuracy of federated learning on satimage.</p>' in mine
    assert mine.count("Demo scale: not a reproduction.") == 1, "once, above"


def test_many_claims_do_not_fill_the_page(kept: Path) -> None:
    text = (kept / f"papers/{PAPER}.html").read_text()
    section = text[text.index('id="table3"') : text.index('id="table4"')]
    assert section.partition("<summary>4 more claims</summary>")[0].count('class="badge') == 1 + 3
    assert section.count('class="badge') == 1 + len(
        [claim for claim in ledger(PAPER) if claim.target == "table3"]
    )


def test_the_front_page_and_the_board_say_how_far_the_kept_numbers_hold(kept: Path) -> None:
    line = scoreboard(HOME / REFERENCE, [PAPER]).set_index("reading").loc["released"]
    front = " ".join((kept / "index.html").read_text().split())
    assert "Do the papers' numbers hold?" in front
    assert f"{line['near']} near, {line['measured'] - line['near']} not near" in front
    assert re.search(rf'mostly near</span> <a href="#{PAPER}">{PAPER}</a>.</p>', front)
    assert "mostly near" in front
    assert f"{line['near']} of {line['measured']} measured cells are near" in front
    board = (kept / "results/board.html").read_text()
    assert f'href="../papers/{PAPER}.html#table3_released"' in board
    assert "not_tested_at" not in board


# In a browser.


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH: install one (Debian: chromium) to test the site as readers see it")
    api = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


# One page of each kind; the long ones take a browser's checks half a minute each.
SHORT = ("index", "own/index", "results/run")
LONG = (f"papers/{PAPER}", f"own/{PAPER}", "results/board", "results/runs")


def a_run(site: Path) -> str:
    return "#" + min(path.stem for path in (site / "data/runs").iterdir())


def opened(browser: Browser, path: Path, width: int = 1280, place: str = "") -> tuple[Page, list[str]]:
    """Open a page without network; complaints of its scripts end up in the list."""
    context = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
    page = context.new_page()
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.goto(path.as_uri() + place)
    return page, complaints


RULES = {"resultTypes": ["violations"], "preload": False}
COLOURS = {**RULES, "runOnly": ["color-contrast"]}  # a scheme changes nothing else


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_pages_are_sound_readable_and_fit_a_phone(browser: Browser, kept: Path, name: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe-playwright-python"
    ).Axe()
    page, complaints = opened(
        browser, kept / f"{name}.html", 390, a_run(kept) if name.endswith("/run") else ""
    )
    page.wait_for_function("!document.querySelector('#run') || document.querySelector('#run .facts')")
    for scheme, rules in (("default", RULES), ("slate", COLOURS)):
        page.evaluate("scheme => document.body.setAttribute('data-md-color-scheme', scheme)", scheme)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.evaluate("document.querySelectorAll('article details').forEach(one => { one.open = true; })")
        violations = axe.run(page, options=rules).response["violations"]
        failures = [f"{rule['id']}: {node['html'][:200]}" for rule in violations for node in rule["nodes"]]
        assert failures == [], scheme
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.wait_for_function(
        "[...document.querySelectorAll('.chart')].every(one => one.querySelector('.main-svg'))"
    )
    assert complaints == []
    assert page.evaluate("window.hacked") is None
    page.context.close()


def asked_for(page: Page) -> set[Path]:
    """Return the files that a page asks for when it is opened again."""
    urls: list[str] = []

    def listen(request: Request) -> None:
        urls.append(request.url)

    page.on("request", listen)
    page.reload()
    return {Path(unquote(urlparse(url).path)) for url in urls if url.startswith("file:")}


@pytest.mark.parametrize(
    "name", [SHORT[0], LONG[0], *(pytest.param(n, marks=pytest.mark.slow) for n in (*SHORT[1:], *LONG[1:]))]
)
def test_a_page_is_light_and_has_folds(browser: Browser, kept: Path, name: str) -> None:
    page, _ = opened(browser, kept / f"{name}.html")
    loaded = asked_for(page)
    assert len(loaded) > 5
    assert not any(file.name == "plotly.min.js" for file in loaded)
    weight = sum(len(gzip.compress(file.read_bytes())) for file in loaded if "search" not in file.parts)
    assert weight < 300_000, f"{weight:,} bytes"
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height <= 6 * 800, f"{height} pixels"
    page.set_viewport_size({"width": 390, "height": 844})
    height = page.evaluate("document.documentElement.scrollHeight")
    assert height <= 6 * 844, f"{height} pixels on a phone"
    page.context.close()


@pytest.mark.parametrize(
    "name",
    ["index", *(pytest.param(name, marks=pytest.mark.slow) for name in LONG[:3])],
)
def test_a_printed_page_is_whole(browser: Browser, kept: Path, name: str, tmp_path: Path) -> None:
    """On A4: no navigation, folds open, no table wider than the paper, dark text whatever the scheme."""
    page, complaints = opened(browser, kept / f"{name}.html", 703)
    page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
    page.emulate_media(media="print")
    for gone in (".md-header", ".md-tabs", ".md-sidebar", ".md-footer", ".filters", ".contents"):
        assert not any(element.is_visible() for element in page.locator(gone).all()), gone
    folded = page.locator("article details :is(td, p:not(.downloads))")
    assert folded.evaluate_all("all => all.filter(e => !e.checkVisibility()).map(e => e.textContent)") == []
    wide = "[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
    assert max(page.evaluate(wide), default=0) <= 1
    colour = page.locator("article p").first.evaluate("e => getComputedStyle(e).color")
    assert max(map(int, re.findall(r"\d+", colour)[:3])) < 120
    pdf = tmp_path / "page.pdf"
    page.pdf(path=pdf, format="A4")
    assert pdf.stat().st_size > 10_000
    assert complaints == []
    page.context.close()


def test_tables_and_curves_are_there(browser: Browser, site: Path) -> None:
    page, _ = opened(browser, site / f"own/{PAPER}.html")
    table = page.locator("#table3 + .results")
    table.locator("summary").first.click()
    assert table.locator("tbody .cell").count() == 18
    assert table.locator(".legend").count() == 0, "at a reduced scale nothing is judged"
    assert table.locator(".mark").count() == 0
    table.locator(".cell").nth(4).hover()
    assert re.search(r"n = 2 of 2; sd [\d.]+; published [\d.]+", page.locator("#tip").inner_text())
    figure = page.locator("#fig1 + .results")
    figure.locator("summary").first.click()
    figure.locator("img").wait_for()
    assert page.evaluate("window.Plotly") is None, "curves are drawn when somebody asks for them"
    figure.get_by_text("Interactive curves").click()
    page.wait_for_selector("[data-drawn] .main-svg")
    chart = figure.locator(".chart")
    assert chart.evaluate("e => [Math.max(...e.data[0].x), e.layout.xaxis.dtick]") == [4, 1]
    look = "e => getComputedStyle(e).filter"
    assert chart.evaluate(look) == "none"
    page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
    assert chart.evaluate(look) != "none", "dark like the page"
    assert figure.locator(".scatterlayer .trace .lines path").count() >= 3
    button = page.get_by_role("button", name="FedProx", exact=True)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    visible = chart.evaluate("e => Object.fromEntries(e.data.map(t => [t.legendgroup, t.visible !== false]))")
    assert visible == {"FedAvg": True, "FedProx": False, "FedOMW": True}
    page.context.close()


def test_a_cell_is_reached_and_opened_by_keyboard(browser: Browser, site: Path) -> None:
    page, complaints = opened(browser, site / f"own/{PAPER}.html", place="#table3")
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#table3 + .results .cell')"):
            break
    focused = page.evaluate("document.activeElement.dataset.cell")
    assert focused == "0"
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert re.search(r"n = 2 of 2; sd \d", tip.inner_text())
    page.keyboard.press("Enter")
    dialog = page.locator("dialog[open]")
    text = dialog.inner_text()
    run = build_catalogue(CONFIG).cells(PAPER, "table3")["fedavg", "usps"][0]
    for expected in (sha256_text(canonical_json(run.spec))[:12], "d" * 12, "b" * 12, "demo", HOSTILE):
        assert expected in text, expected
    dialog.get_by_text("Curves of all methods in this column").click()
    page.wait_for_selector("dialog .main-svg")
    drawn = dialog.locator(".chart").evaluate("e => e.data.map(t => t.name)")
    assert sorted(drawn) == sorted(["FedAvg", "FedProx", "FedOMW"] * 2)
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.dataset.cell") == focused
    page.keyboard.press("Enter")
    page.locator("dialog a").first.click()
    page.wait_for_url("**/results/run.html#*")
    page.wait_for_selector("#run .facts")
    assert "seed 0" in page.locator("#which").inner_text()
    page.wait_for_selector(".holds .main-svg")
    shares, sizes = page.locator(".holds").evaluate("e => [e.data[0].z, e.data[1].y]")
    assert shares == pytest.approx(np.array([[1, 4 / 9], [0, 5 / 9]])), "classes of clients"
    assert sizes == [3, 9]
    assert complaints == []
    page.context.close()


@pytest.mark.slow
def test_kept_histories_are_drawn_beside_those_of_the_column_s_other_methods(
    browser: Browser, kept: Path
) -> None:
    histories = read_kept(HOME / REFERENCE / PAPER / HISTORIES)
    data = handed(kept, f"papers/{PAPER}")
    known = {run["curves"] for run in data["runs"]} - {None}
    assert known == {run.removeprefix("results/").replace("/", ".") for run in histories["run"]}
    target, at = next(
        (target, at)
        for target, cells in data["cells"].items()
        for at, cell in enumerate(cells)
        if any(data["runs"][place]["curves"] for place in cell["runs"])
    )
    column = data["cells"][target][at]["column"]
    cells = [cell for cell in data["cells"][target] if cell["column"] == column]
    behind = {place for cell in cells for place in cell["runs"]}
    expected = [data["runs"][place]["method"] for place in behind if data["runs"][place]["curves"]]
    page, complaints = opened(browser, kept / f"papers/{PAPER}.html", place=f"#{target}")
    page.evaluate("document.querySelectorAll('article details').forEach(one => { one.open = true; })")
    page.locator(f"[data-target={target}][data-cell='{at}']").first.click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_text("Curves of all methods in this column").click()
    page.wait_for_selector("dialog .main-svg")
    traces = dialog.locator(".chart").evaluate("e => e.data.map(t => [t.name, Math.max(...t.y)])")
    assert sorted(name for name, _ in traces) == sorted(expected)
    best = histories["test_accuracy"].max()
    assert all(1 < most <= 100 * best + 1e-2 for _, most in traces), "in per cent"
    assert complaints == []
    page.context.close()


def test_kept_numbers_are_shown_with_their_distances_and_others_on_demand(
    browser: Browser, kept: Path
) -> None:
    page, complaints = opened(browser, kept / f"papers/{PAPER}.html", place="#table3")
    table = page.locator("#table3 + .results")
    assert table.locator(".legend > *").count() == 6
    assert table.locator(".mark").count() == 18
    first = table.locator(".cell").first
    lines = read_csv(HOME / REFERENCE / PAPER / "table3.csv").iloc[0]
    assert first.inner_text().startswith(f"{lines['mean']:.2f}")
    table.get_by_label("published").check()
    assert first.inner_text().startswith(f"{lines['published_mean']:g}")
    table.get_by_label("built here (demo scale)").check()
    assert first.inner_text() == first.locator(".own").inner_text() != ""
    assert table.get_by_text("reproduced").first.is_visible(), (
        "a claim stands beside the table that decides it"
    )
    page.goto((kept / f"papers/{PAPER}.html").as_uri() + "#table3_released")
    page.locator("#table3_released + .results .cell.near").first.click()
    assert "published" in page.locator("dialog[open]").inner_text()
    assert complaints == []
    page.context.close()


def test_a_folded_part_of_the_board_opens_by_its_address_and_by_filters(browser: Browser, kept: Path) -> None:
    page, complaints = opened(browser, kept / "results/board.html", place=f"#{PAPER}-table3")
    assert page.locator("#board details[open]").count() == 1
    assert page.locator(f"#{PAPER}-table3 tbody tr").first.is_visible()
    assert page.locator(f"#{PAPER}-table4 tbody tr").first.is_hidden()
    page.locator(".filters").get_by_label("Search").fill("letter")
    assert page.locator(f"#{PAPER}-table4 tbody tr:visible").count() == 4
    assert complaints == []
    page.context.close()


@pytest.mark.slow
def test_all_runs_are_listed_filtered_and_sorted(browser: Browser, site: Path, kept: Path) -> None:
    page, _ = opened(browser, site / "results/runs.html", place=f"#targets={PAPER}/fig1")
    rows = page.locator("#listed tr")
    rows.first.wait_for()
    assert rows.count() == 6
    page.locator(".filters").get_by_label("Search").fill("fedprox")
    assert rows.count() == 2
    page.context.close()
    page, _ = opened(browser, kept / "results/runs.html")
    rows = page.locator("#listed tr")
    rows.first.wait_for()
    known = len(pd.read_parquet(HOME / REFERENCE / PAPER / RUNS))
    assert re.fullmatch(r"100 of (\d+) shown", count := page.locator("output").inner_text())
    assert int(count.split()[2]) > 0.9 * known
    page.get_by_role("button", name="Accuracy").click()
    shown = [float(text) for text in page.locator("#listed td:nth-child(9)").all_inner_texts()]
    assert shown == sorted(shown)
    page.get_by_label("Verdict").select_option("agrees")
    assert {*page.locator("#listed td:nth-child(10)").all_inner_texts()} == {"agrees"}
    page.context.close()
