"""All pages and their data, as texts and plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from fedcore.base.files import read_or_empty
from fedcore.base.lazy import jinja2
from fedcore.execution.machine import commit
from pipeline.reports import captions, style
from pipeline.site import fidelity_page, paper_page, partitions, run_page
from pipeline.site.survey import MEANING, Evidence, Survey, TargetStatus
from pipeline.site.words import accuracy, heading

TEMPLATES = Path(__file__).parent / "templates"
SHORT = 12
Page = tuple[str, str | Mapping[str, Any]]


def every(found: Survey, root: Path) -> Iterator[Page]:
    """Yield (path below the site, page or data) of everything but assets and copies.

    Raises:
        DataError: a report can't be read.
    """
    shared = _shared(found)
    yield "index.html", _render("index", shared, here="index.html", **_overview(found))
    for key, paper in found.papers.items():
        blocks, data = paper_page.page(found, key, root)
        drawn = bool(data["charts"])
        yield f"data/{key}.js", data
        own = {"key": key, "paper": paper, "blocks": blocks, "charts": drawn, "data": f"data/{key}.js"}
        yield f"{key}.html", _render("paper", shared, here=f"{key}.html", **own)
    yield (
        "fidelity.html",
        _render("fidelity", shared, here="fidelity.html", **fidelity_page.page(found, root)),
    )
    listed = [_listed(one) for one in found.finished]
    yield "data/runs.js", {"runs": listed}
    choices = _run_choices(found)
    yield "runs.html", _render("runs", shared, here="runs.html", data="data/runs.js", choices=choices)
    for path, statistics in _divisions(found, root):
        if statistics.get("label_counts"):
            yield path, _svg(statistics)
    for one in found.finished:
        page, curves = run_page.page(one, root)
        own = {"root": "../", "charts": curves, "data": f"runs/{one.name}.js"}
        yield f"runs/{one.name}.js", {"charts": {"run": curves}}
        yield f"runs/{one.name}.html", _render("run", shared | own, here="", **page)


def _shared(found: Survey) -> dict[str, Any]:
    warnings = [captions.watermark(scale) for scale in found.scales]
    pages = [("index.html", "Overview"), *((f"{key}.html", key) for key in found.papers)]
    said = [f"Repository at commit {at}." if (at := commit()) else ""]
    said.append(f"Newest run finished {found.newest}." if found.newest else "")
    return {
        "root": "",
        "watermark": " ".join(filter(None, warnings)),
        "pages": [*pages, ("runs.html", "Runs"), ("fidelity.html", "Fidelity")],
        "footer": " ".join(filter(None, said)),
    }


def _overview(found: Survey) -> dict[str, Any]:
    cards = [_card(shown) for shown in found.targets]
    return {
        "papers": found.papers,
        "cards": cards,
        "made": sum(card["state"] == "made" for card in cards),
        "finished": len(found.finished),
        "needed": len(found.evidence),
        "scales": found.scales,
        "choices": {
            "paper": [(key, key) for key in found.papers],
            "state": [(state, state) for state in MEANING if any(card["state"] == state for card in cards)],
            **_names(found),
        },
    }


def _card(shown: TargetStatus) -> dict[str, Any]:
    algorithms = sorted({run.algorithm for run in shown.runs})
    datasets = sorted({run.dataset for run in shown.runs})
    title, published = shown.about.title, shown.about.published
    labels = [*map(style.label, algorithms), *(shown.declared.datasets.get(name, name) for name in datasets)]
    words = [
        shown.paper,
        shown.name,
        published,
        title,
        shown.state,
        shown.scale,
        *algorithms,
        *datasets,
        *labels,
    ]
    return {
        "paper": shown.paper,
        "name": shown.name,
        "heading": heading(shown),
        "title": title,
        "state": shown.state,
        "meaning": MEANING[shown.state],
        "scale": shown.scale if shown.scaled else "",
        "reduced": bool(captions.watermark(shown.scale)),
        "finished": shown.finished,
        "needed": len(shown.runs),
        "what": shown.about.needs,
        "algorithms": algorithms,
        "datasets": datasets,
        "thumb": f"files/{shown.paper}/{shown.name}.small.png" if "png" in shown.files else "",
        "text": " ".join(words).lower(),
    }


def _listed(one: Evidence) -> dict[str, Any]:
    """Return a run in the words of the list of all runs."""
    run = one.run
    return {
        "name": one.name,
        "paper": run.paper,
        "scale": run.scale,
        "algorithm": run.algorithm,
        "dataset": run.dataset,
        "setting": run.setting,
        "seed": run.seed,
        "status": one.facts.get("status"),
        "accuracy": accuracy(one.facts),
        "finished": one.facts.get("finished"),
        "spec": str(one.facts.get("spec", ""))[:SHORT],
        "targets": list(one.used),
    }


def _divisions(found: Survey, root: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    runs = {one.run.partition: one.run for one in found.finished}
    for partition, run in runs.items():
        yield run_page.picture(run), read_or_empty(root / partition / "stats.json")


def _svg(statistics: Mapping[str, Any]) -> str:
    picture = partitions.picture(statistics["label_counts"])
    return _environment().get_template("partition.svg.j2").render(picture=picture)


def _names(found: Survey) -> dict[str, list[tuple[str, str]]]:
    """Return the algorithms and data sets of all targets, for choosing."""
    runs = [run for shown in found.targets for run in shown.runs]
    algorithms = {run.algorithm: style.label(run.algorithm) for run in runs}
    datasets = {
        run.dataset: shown.declared.datasets.get(run.dataset, run.dataset)
        for shown in found.targets
        for run in shown.runs
    }
    return {
        "algorithm": sorted(algorithms.items(), key=lambda one: one[1].lower()),
        "dataset": sorted(datasets.items(), key=lambda one: one[1].lower()),
    }


def _run_choices(found: Survey) -> dict[str, list[tuple[str, str]]]:
    runs = found.finished
    targets = dict.fromkeys(target for one in runs for target in one.used)
    statuses = sorted({str(one.facts["status"]) for one in runs})
    return {
        "paper": [(key, key) for key in found.papers],
        "targets": [(name, name) for name in targets],
        "status": [(name, name) for name in statuses],
        **_names(found),
    }


def _render(name: str, shared: Mapping[str, Any], **own: Any) -> str:
    return _environment().get_template(f"{name}.html.j2").render({**shared, **own})


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    made.trim_blocks = made.lstrip_blocks = True
    made.filters["breakable"] = lambda text: escape(text).replace("/", Markup("/<wbr>"))
    return made
