"""All pages of results: Markdown with parts in HTML, and the data that their scripts ask for."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcore.base.files import canonical_json
from fedcore.base.lazy import DataFrame, pd
from fedcore.execution.machine import commit
from pipeline.claims.ledger import PAPERS
from pipeline.fidelity.scoreboard import NAMES, OUTCOMES, claims, claims_by_reading, scoreboard
from pipeline.reports import captions, style
from pipeline.reports.kept import REFERENCE
from pipeline.reports.render import rendered
from pipeline.site import board, charts, paper_page, run_page
from pipeline.site.format import TEMPLATES, outcome
from pipeline.site.survey import MEANING, Evidence, Survey, TargetStatus
from pipeline.workflow.estimate import NOTHING, Guesses, duration

FRONT, OWN = "index.md", "own/index.md"
# From which ``_nearness`` on a paper is called so.
VERDICTS = {2 / 3: "mostly near", 1 / 3: "partly near", 0: "mostly not near", -1: "too little measured"}
LEAST = 1 / 4  # of the published cells, to be measured
TOLD = re.compile(r"^\| .*?\(pipeline/papers/(\w+)/README\.md\).*? \| (.*) \| (.*) \|$", re.MULTILINE)
PART = re.compile(r'<div data-part="(\d+)"></div>')


@dataclass(frozen=True)
class Page:
    """A page: Markdown, in which an empty element stands for each of the parts, which are HTML."""

    text: str
    parts: tuple[str, ...]

    def whole(self, html: str) -> str:
        """Return what Markdown made of the text, with the parts in their places."""
        return PART.sub(lambda match: self.parts[int(match[1])], html)


@dataclass(frozen=True)
class Results:
    """What is shown of the results.

    Attributes:
        targets: those whose files the site has.
        pages: by their address in the documentation's sources.
        data: scripts and pictures, by their address on the site.
    """

    targets: tuple[TargetStatus, ...]
    pages: Mapping[str, Page]
    data: Mapping[str, str]


def every(survey: Survey, root: Path) -> Results:
    """Return all that is shown; raises DataError if a report can't be read, and as ``run_page.page`` does."""
    foot = f"Repository at commit {at}." if (at := commit()) else ""
    compared = board.page(survey, root)
    guess = Guesses()  # the time on one core of the machine that the kept runs had
    papers = dict.fromkeys(shown.paper for shown in survey.reference)
    scores, claimed = scoreboard(root / REFERENCE, papers), claims_by_reading(root / REFERENCE, papers)
    answers = {key: _answer(key, (scores, claimed), survey, root, guess) for key in papers}
    built = {key: [shown for shown in survey.own.values() if shown.paper == key] for key, _ in survey.own}
    others = [shown for shown in survey.targets if not shown.begun]
    overview = {"papers": built, "quiet": _quiet(survey.own.values()), "others": others, "meaning": MEANING}
    pages = {
        FRONT: _page("front", "", answers=answers, kept=survey.kept, foot=foot),
        "results/board.md": _page("board", "../", foot=foot, **compared),
        "results/runs.md": _page("runs", "../", "runs", foot=foot),
        "results/run.md": _page("run", "../", foot=foot),
        OWN: _page("own", "../", foot=foot, **overview),
    }
    data = dict(_runs(survey, root)) | {"data/runs.js": script("runs", _list(survey, compared))}

    def add(template: str, address: str, targets: Sequence[TargetStatus], **values: Any) -> None:
        blocks, page_data = paper_page.page(survey, targets)
        pages[f"{address}.md"] = _page(template, "../", address, **values, blocks=blocks, foot=foot)
        data[f"data/{address}.js"] = script(address, page_data)

    for key, answer in answers.items():
        measured = [shown for shown in survey.reference if shown.paper == key]
        judged = {target: frame.to_dict("records") for target, frame in answer["claims"].groupby("target")}
        decisive = (one.name for one in measured if one.target.needs == "runs" and one.name in judged)
        values = {"claims": judged, "first": next(decisive, ""), "readme": _readme(key)}
        add("paper", f"papers/{key}", measured, answer=answer, **values)
    for key, targets in built.items():
        add("own_paper", f"own/{key}", targets, key=key, paper=targets[0].declared, quiet=_quiet(targets))
    return Results((*survey.kept, *survey.own.values()), pages, data)


def script(name: str, data: Mapping[str, Any]) -> str:
    """Return a script that hands pages data under a name; it can't end a script element or start a tag."""
    harmless = canonical_json(data).replace("<", "\\u003c")
    return f'(window.SITE ??= {{}})["{name}"] = {harmless};\n'


def _page(template: str, root: str, data: str = "", /, **values: Any) -> Page:
    """Return a page; ``root`` leads from it to the site's folder, ``data`` names what its script loads."""
    parts: list[str] = []

    def part(html: str) -> str:
        parts.append(f'<div class="results" data-root="{root}" data-page="{data}">\n{html}\n</div>')
        return f'<div data-part="{len(parts) - 1}"></div>'

    text = rendered(f"{template}.md", {**values, "part": part, "root": root}, TEMPLATES)
    return Page(text, tuple(parts))


def _answer(
    key: str, measured: tuple[DataFrame, DataFrame], survey: Survey, root: Path, guess: Guesses
) -> dict[str, Any]:
    """Return what a paper's page says first, by the lines of the scoreboard and of claims by reading."""
    folder, (scores, claimed) = root / REFERENCE, measured
    lines = scores[scores["paper"] == key].to_dict("records")
    whole = lines[0]["published"]  # in the text's reading
    best = max(lines, key=lambda line: (_nearness(line, whole), line["measured"], line["near"]))
    judged = pd.concat([claims(key, line["reading"], folder) for line in lines])
    outcomes = Counter(claimed.loc[claimed["paper"] == key, "kind"].map(OUTCOMES))
    targets = [shown for shown in survey.reference if shown.paper == key]
    missing = [shown for shown in targets if not shown.kept]
    runs = {run.folder: run for shown in targets for run in shown.runs if shown.kept}
    known = [survey.evidence[folder].facts for folder in runs]
    times = [float(facts.get("seconds") or 0) for facts in known if facts.get("device") != "cuda"]
    of_gpu = f"; {len(known) - len(times):,} more used a GPU" if len(known) > len(times) else ""
    drawn = sorted(targets, key=lambda shown: shown.target.kind != "curves")
    return {
        "key": key,
        "paper": targets[0].declared,
        "best": best,
        "verdict": next(word for least, word in VERDICTS.items() if _nearness(best, whole) >= least),
        "lines": lines,
        "said": NAMES,
        "told": summaries().get(key),
        "claims": judged.drop_duplicates(["target", "id"]),
        "counts": {words: outcomes[words] for words in OUTCOMES.values() if outcomes[words]},
        "thumb": next((f"{shown.folder}/{shown.name}.svg" for shown in drawn if "svg" in shown.files), ""),
        "kept": len(targets) - len(missing),
        "missing": [{"shown": shown, **cost_of([shown], guess)} for shown in missing],
        "cost": cost_of(missing, guess),
        "took": f"{duration(sum(times))} on one core{of_gpu}",
        "runs": len(times),
        "built": any(paper == key for paper, _ in survey.own),
    }


def _nearness(line: Mapping[Any, Any], whole: int) -> float:
    """Return the share of measured cells that are near, -1 where too few of ``whole`` are measured."""
    return line["near"] / line["measured"] if line["measured"] >= max(1, LEAST * whole) else -1.0


def summaries() -> dict[str, tuple[str, str]]:
    """Return what holds of each paper and what does not, in the words of the project's README."""
    path = PAPERS.parents[1] / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {paper: (holds, fails) for paper, holds, fails in TOLD.findall(text)}


def cost_of(targets: Iterable[TargetStatus], guess: Guesses) -> dict[str, Any]:
    """Return how many runs targets need and the time on one core, the most where runs end at a target."""
    runs = {run.folder: run for shown in targets for run in shown.trained}
    time = duration(sum(map(guess, runs.values()), NOTHING).seconds)
    ends = any("stop_at" in run.spec["evaluation"] for run in runs.values())
    return {"needed": len(runs), "time": f"{'at most' if ends else 'about'} {time}"}


def _readme(key: str) -> list[tuple[str, str]]:
    _, *sections = (PAPERS / key / "README.md").read_text(encoding="utf-8").split("\n## ")
    return [(name, text.strip()) for name, _, text in (section.partition("\n") for section in sections)]


def _quiet(targets: Iterable[TargetStatus]) -> str:
    scales = sorted({shown.scale for shown in targets if shown.files and shown.scaled})
    return " ".join(filter(None, map(captions.watermark, scales)))


def _runs(survey: Survey, root: Path) -> Iterator[tuple[str, str]]:
    """Yield the data of each run that was made here, and the curves of those with a kept history."""
    for evidence in survey.evidence.values():
        if evidence.finished:
            content = run_page.page(evidence, root)
            counts = content["statistics"] and content["statistics"].label_counts
            html = rendered("run.html", content, TEMPLATES)
            data = {"html": html, "charts": {"run": content["charts"]}, "counts": counts}
        elif evidence.history is not None:
            drawn = charts.of_history(evidence.history, evidence.run.algorithm)
            data = {"charts": {"run": drawn[:1]}}
        else:
            continue
        yield f"data/runs/{evidence.name}.js", script(f"runs/{evidence.name}", data)


def _list(survey: Survey, compared: Mapping[str, Any]) -> dict[str, Any]:
    judged = {cell["keys"]: cell["verdict"] for cells in compared["cells"].values() for cell in cells}
    verdicts: dict[str, dict[str, None]] = {}
    for shown in survey.kept:
        for (row, column), runs in shown.cells.items():
            word = judged.get(f"{shown.paper}/{shown.name} {row} {column}")
            for run in runs if word else ():
                verdicts.setdefault(run.folder, {})[str(word)] = None
    known = [evidence for evidence in survey.evidence.values() if evidence.kept or evidence.finished]
    lines = [_listed(evidence, ", ".join(verdicts.get(evidence.run.folder, ()))) for evidence in known]
    return {"columns": [*(lines[0] if lines else ())], "lines": [[*line.values()] for line in lines]}


def _listed(evidence: Evidence, verdict: str) -> dict[str, Any]:
    run, result = evidence.run, outcome(evidence.facts)
    return {
        "paper": run.paper,
        "algorithm": style.label(run.algorithm),
        "dataset": run.dataset,
        "setting": run.setting,
        "partition": run.spec["partition"]["name"],
        "seed": run.seed,
        "scale": run.scale,
        "status": result["status"],
        "accuracy": result["accuracy"],
        "verdict": verdict,
        "finished": result["finished"],
        "targets": evidence.used,
        "name": "" if evidence.kept else evidence.name,
    }
