"""All pages and their data, as texts and plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedcore.execution.machine import commit
from pipeline.fidelity.reference import REFERENCE
from pipeline.fidelity.scoreboard import scoreboard
from pipeline.reports import captions, style
from pipeline.site import board, paper_page, run_page
from pipeline.site.survey import MEANING, Evidence, Survey, TargetStatus
from pipeline.site.words import outcome, rendered

THUMBS = (("png", ".small.png"), ("svg", ".svg"))
RUN = ("paper", "scale", "algorithm", "dataset", "setting", "seed")
Page = tuple[str, str | Mapping[str, Any]]
Choices = dict[str, tuple[str, list[tuple[str, str]]]]


def every(found: Survey, root: Path) -> Iterator[Page]:
    """Yield (path below the site, page or data) of everything but assets and copies.

    Raises:
        DataError: a report can't be read, or a run's history or partition is not as it was written.
    """
    shared = _shared(found)
    unmarked = {**shared, "watermark": ""}
    yield _page("index", "index", shared, answer=_answer(found, root), **_overview(found))
    for key, paper in found.papers.items():
        blocks, data = paper_page.page(found, key, root)
        yield f"data/{key}.js", data
        own = {"charts": bool(data["charts"]), "data": f"data/{key}.js"}
        marked = unmarked if paper.is_study else shared
        yield _page("paper", key, marked, key=key, paper=paper, blocks=blocks, **own)
    yield _page("fidelity", "fidelity", shared, **board.page(found, root))
    yield "data/runs.js", {"runs": [_listed(one) for one in found.finished]}
    yield _page("runs", "runs", shared, data="data/runs.js", choices=_run_choices(found))
    for one in {one.run.partition: one for one in found.finished}.values():
        if picture := run_page.picture(one.run, root):
            yield run_page.picture_name(one.run), rendered("partition.svg", {"picture": picture})
    for one in found.finished:
        page = run_page.page(one, root)
        marked = unmarked if found.papers[one.run.paper].is_study else shared
        yield f"runs/{one.name}.js", {"charts": {"run": page["charts"]}}
        yield _page("run", f"runs/{one.name}", marked, root="../", data=f"runs/{one.name}.js", **page)


def _page(template: str, path: str, shared: Mapping[str, Any], **own: Any) -> Page:
    return f"{path}.html", rendered(f"{template}.html", {**shared, "here": f"{path}.html", **own})


def _shared(found: Survey) -> dict[str, Any]:
    warnings = [] if found.kept else [captions.watermark(scale) for scale in found.scales]
    pages = [("index.html", "Overview"), *((f"{key}.html", key) for key in found.papers)]
    said = [f"Repository at commit {at}." if (at := commit()) else ""]
    said.append(f"Newest run finished {found.newest}." if found.newest else "")
    return {
        "root": "",
        "watermark": " ".join(filter(None, warnings)),
        "pages": [*pages, ("runs.html", "Runs"), ("fidelity.html", "Fidelity")],
        "footer": " ".join(filter(None, said)),
    }


def _answer(found: Survey, root: Path) -> list[dict[str, Any]]:
    """Return how far the kept results agree with each paper's, one line per reading of a paper."""
    kept = [paper for paper in found.papers if any(paper == own for own, _ in found.kept)]
    return scoreboard(root / REFERENCE, kept).to_dict("records") if kept else []  # type: ignore[return-value]


def _overview(found: Survey) -> dict[str, Any]:
    cards = [_card(shown, found) for shown in found.targets]
    states = {card["state"] for card in cards}
    return {
        "papers": found.papers,
        "studies": sum(paper.is_study for paper in found.papers.values()),
        "cards": cards,
        "kept": len(found.kept),
        "made": sum(card["state"] == "made" for card in cards),
        "finished": len(found.finished),
        "needed": sum(not one.kept for one in found.evidence.values()),
        "scales": found.scales,
        "choices": {
            "paper": ("Paper", [(key, key) for key in found.papers]),
            "state": ("State", [(state, state) for state in MEANING if state in states]),
            **_names(found),
        },
    }


def _card(shown: TargetStatus, found: Survey) -> dict[str, Any]:
    algorithms = sorted({run.algorithm for run in shown.runs})
    datasets = sorted({run.dataset for run in shown.runs})
    labels = [*map(style.label, algorithms), *(shown.declared.datasets.get(name, name) for name in datasets)]
    about = shown.about
    words = [shown.paper, shown.name, about.published, about.title, shown.state, shown.scale]
    return {
        "paper": shown.paper,
        "name": shown.name,
        "anchor": shown.anchor,
        "heading": found.heading(shown),
        "title": about.title,
        "state": shown.state,
        "meaning": MEANING[shown.state],
        "numbers": shown.numbers if shown.kept else "",
        "scale": shown.scale if shown.scaled else "",
        "reduced": bool(captions.watermark(shown.scale)),
        "finished": shown.finished,
        "needed": len(shown.runs),
        "what": about.needs,
        "algorithms": algorithms,
        "datasets": datasets,
        "thumb": next(
            (f"{shown.folder}/{shown.name}{end}" for form, end in THUMBS if form in shown.files), ""
        ),
        "text": " ".join([*words, *algorithms, *datasets, *labels]).lower(),
    }


def _listed(one: Evidence) -> dict[str, Any]:
    """Return a run in the words of the list of all runs."""
    about = {name: getattr(one.run, name) for name in RUN}
    return {"name": one.name, **about, **outcome(one.facts), "targets": one.used}


def _names(found: Survey) -> Choices:
    """Return the algorithms and data sets of all targets, for choosing."""
    pairs = [(shown.declared.datasets, run) for shown in found.targets for run in shown.runs]
    algorithms = {run.algorithm: style.label(run.algorithm) for _, run in pairs}
    datasets = {run.dataset: printed.get(run.dataset, run.dataset) for printed, run in pairs}
    return {
        "algorithm": ("Algorithm", sorted(algorithms.items(), key=lambda one: one[1].lower())),
        "dataset": ("Data set", sorted(datasets.items(), key=lambda one: one[1].lower())),
    }


def _run_choices(found: Survey) -> Choices:
    targets = dict.fromkeys(target for one in found.finished for target in one.used)
    statuses = sorted({str(one.facts["status"]) for one in found.finished})
    return {
        "paper": ("Paper", [(key, key) for key in found.papers]),
        "targets": ("Table or figure", [(name, name) for name in targets]),
        **_names(found),
        "status": ("Status", [(name, name) for name in statuses]),
    }
