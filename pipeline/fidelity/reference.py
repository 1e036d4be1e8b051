"""Results kept in git: what was measured at the papers' own scale, compact, and its origin.

    reports/reference/<paper>/<target>.csv, .md or .svg  a report, as far as its runs were made; a figure's
                                                         caption is in <target>.caption.md
    reports/reference/<paper>/*.parquet                  the runs, as ``pipeline.reports.kept`` describes

A reference is gathered in several sittings and on several machines: a table keeps the numbers of runs that
are not here, as long as params.yaml still asks for them, figures are drawn from kept runs too, and a run that
is not here keeps its line.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedcore.base.errors import DataError
from fedcore.base.files import read_object, sha256_file, write_text
from fedcore.base.lazy import DataFrame, pd
from fedcore.execution.integrity import HISTORY, PROVENANCE, SUMMARY, TIMING
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import PlannedRun, Sources
from pipeline.reports.kept import HISTORIES, REFERENCE, RUNS, WORK, add_histories, add_runs, read_kept
from pipeline.reports.render import md_table
from pipeline.reports.results import RunFacts, earlier_cells, is_made, read_history, read_tidy, refuse_changed

HASHES = ("spec_sha256", "data_sha256", "partition_sha256")
COMMIT = re.compile(r"\b[Cc]ommit [0-9a-f]+\+?")
MACHINE = ("commit", "machine", "processor", "device", "torch", "numpy", "seconds", "finished")


@dataclass(frozen=True)
class Kept:
    """What was written, and the reports that were not, with the reason."""

    written: tuple[Path, ...]
    left: Mapping[str, str]


def keep(catalogue: Catalogue, names: Iterable[str], root: Path = Path(), folder: Path = REFERENCE) -> Kept:
    """Write reports, named ``<paper>/<target>``, as far as their runs exist, and a line for each of these.

    The catalogue is at the scale that is kept; ``root`` holds results/. A changed result raises DataError.
    """
    written: list[Path] = []
    left: dict[str, str] = {}
    runs: dict[str, dict[str, PlannedRun]] = {}
    for name in names:
        paper, target = name.split("/")
        sources = catalogue.sources(paper, target, root, folder / paper / f"{target}.csv")
        partitions, kept_folder = sources.target.needs == "partitions", sources.kept_folder
        ended = [run for run in sources.runs if is_made(run, root, partitions, kept_folder)]
        if sources.target.kind == "curves":
            ended = [run for run in ended if RunFacts(run, root, kept_folder).has_history]
        if not partitions:
            refuse_changed(ended, root)
            for run in ended:
                if (root / run.folder / SUMMARY).exists():
                    runs.setdefault(paper, {})[run.folder] = run
        try:
            _refuse_lacking(sources, {run.folder for run in ended})
            written += _report(sources, folder)
        except DataError as error:
            left[name] = str(error)
    for paper, by_folder in runs.items():
        lines = pd.DataFrame([line(run, root) for run in by_folder.values()])
        histories = [history(name, root / name) for name in by_folder]
        written.append(add_runs(lines, folder / paper / RUNS))
        written.append(add_histories(histories, folder / paper / HISTORIES))
    return Kept(tuple(written), left)


def _refuse_lacking(sources: Sources, folders: set[str]) -> None:
    """Refuse a report of which too few runs, with these folders, have ended: raise DataError."""
    cells, kind = sources.cells, sources.target.kind
    if not sources.target.kept:
        raise DataError("holds no measurement")
    if sources.runs and not folders:
        raise DataError("no run of it was made")
    bare = sum(folders.isdisjoint(run.folder for run in runs) for runs in cells.values())
    if kind == "curves" and bare:
        raise DataError(f"{bare} of {len(cells)} curves have no run")
    if kind == "drawing" and len(folders) < len(sources.runs):
        raise DataError(f"a figure needs all of its {len(sources.runs)} runs, {len(folders)} are here")


def _report(sources: Sources, folder: Path) -> list[Path]:
    """Write a report unless the same one, but for its drawing and the commit that it names, is there."""
    target = sources.target
    with TemporaryDirectory() as scratch:
        outputs = target.paths(Path(scratch), sources.name)
        sources.build(outputs)
        texts = {form: outputs[form].read_text(encoding="utf-8") for form in target.kept}
    paths = target.paths(folder / sources.paper, sources.name)
    kept = {form: path.read_text(encoding="utf-8") for form in texts if (path := paths[form]).exists()}
    if _lasting(kept) == _lasting(texts):
        return []
    if "csv" in kept and (target.drawn or target.needs == "partitions"):  # other tables keep numbers on
        before, now = pd.concat(map(_counts, (kept["csv"], texts["csv"])), axis=1, join="inner").to_numpy().T
        if (now < np.minimum(before, 1 if target.kind == "drawing" else np.inf)).any():
            what = "figure" if target.drawn else "table"
            raise DataError(f"the {what} that is kept is of more {target.needs}")
    for form, text in texts.items():
        write_text(paths[form], text)
    return [paths[form] for form in texts]


def _counts(text: str) -> DataFrame:
    """Return of how many runs, or partitions, the lines of each row and column of a report are."""
    cell = ["row", "column"]
    return pd.read_csv(StringIO(text)).reindex(columns=[*cell, "n"]).groupby(cell).sum()


def _lasting(texts: Mapping[str, str]) -> dict[str, str]:
    return {form: "" if form == "svg" else COMMIT.sub("", text) for form, text in texts.items()}


def kept_specs(paper: str, target: str, folder: Path = REFERENCE) -> frozenset[str]:
    """Return the first digits of the specifications whose runs a kept table holds; none of a figure's."""
    cells = earlier_cells(folder / paper / f"{target}.csv").values()
    return frozenset(spec for cell in cells for spec in cell["specs"].split())


def line(run: PlannedRun, root: Path) -> dict[str, Any]:
    """Return what is kept of a run: its folder, its last and best numbers, hashes, and where it was made.

    It raises DataError if the run is missing, or another specification's.
    """
    summary = RunFacts(run, root).summary
    if summary is None:
        raise DataError(f"{run.folder}/{SUMMARY}: missing")
    folder = root / run.folder
    provenance, timing = (read_object(folder / name) for name in (PROVENANCE, TIMING))
    return {
        "run": run.folder,
        "status": summary["status"],
        "rounds": summary["rounds"],
        **(summary["final"] or {}),
        "best_round": (summary["best"] or {}).get("round"),
        "best_test_accuracy": (summary["best"] or {}).get("test_accuracy"),
        "data": summary["data_note"],
        "data_state": summary["data_state"],
        **{name: summary.get(name) for name in WORK},
        **{name: summary[name] for name in HASHES},
        "code": provenance["code"],
        **({"files": run.files} if run.files and provenance["code"] == run.code else {}),
        "summary_sha256": sha256_file(folder / SUMMARY),
        "history_sha256": sha256_file(folder / HISTORY),
        **{name: timing.get(name) for name in MACHINE},
    }


def history(run: str, folder: Path) -> DataFrame:
    """Return a run's history as it is kept, with the kind of processor that made it where that is known.

    It raises as ``read_history`` does.
    """
    processor = read_object(folder / TIMING).get("processor", "")
    return read_history(folder / HISTORY).assign(run=run, processor=processor)


def contents(folder: Path) -> str:
    """Return what a reference holds as Markdown: its reports, and each paper's runs and hours."""
    runs = [_paper_line(path, folder) for path in sorted(folder.rglob(RUNS))]
    reports = [_report_line(path, folder) for path in sorted(folder.glob("*/**/*.csv"))]
    headings = ("Paper", "Runs:", "On a GPU:", "CPU hours:", "Days")
    return "\n".join((md_table(headings, runs), md_table(("Report", "Numbers:", "Of:"), reports)))


def _report_line(path: Path, folder: Path) -> tuple[str, ...]:
    kept = read_tidy(path)
    counts = [int(kept[name].sum()) for name in ("n", "seeds")] if "seeds" in kept else [len(kept)] * 2
    form = ".md" if path.with_suffix(".md").exists() else ".svg"
    name = path.relative_to(folder).with_suffix("").as_posix()
    return f"[{name}]({name}{form})", *(f"{count:,}" for count in counts)


def _paper_line(path: Path, folder: Path) -> tuple[str, ...]:
    kept = read_kept(path)
    of_gpu = kept["device"] == "cuda"
    days = sorted({str(moment)[:10] for moment in kept["finished"]})
    return (
        path.parent.relative_to(folder).as_posix(),
        f"{len(kept):,}",
        f"{of_gpu.sum():,}",
        f"{kept['seconds'][~of_gpu].sum() / 3600:.2f}",
        " to ".join(dict.fromkeys((days[0], days[-1]))),
    )


def decided(folder: Path, report: str) -> str:
    """Return what a report in words says of the kept benchmarks, as Markdown for a page in docs/."""
    return "\n".join(
        path.read_text(encoding="utf-8").replace("](", f"](../{REFERENCE}/{path.parent.name}/")
        for path in sorted(folder.glob(f"*/{report}.md"))
    )


def inserted(page: str, name: str, part: str) -> str:
    """Put a part between a page's ``<!-- name -->`` and ``<!-- end of name -->``; DataError without these."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    head, _, rest = page.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise DataError(f"expected the marks {begin} and {end}")
    return f"{head}{begin}\n\n{part}\n{end}{tail}"
