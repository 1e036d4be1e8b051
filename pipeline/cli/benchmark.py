"""`fedcore benchmark`: the study of all methods, worked on over many sittings, and your own among them."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base import core_yaml
from fedcore.base.errors import DataError, SpecError, say
from fedcore.base.lazy import DataFrame
from fedcore.base.registry import contributed, find, of_module
from fedcore.cli.options import Json, Mirror, Root, show
from fedcore.data import Source
from fedcore.execution.batch import execute
from fedcore.execution.integrity import finished
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import configuration, load, require_known
from pipeline.catalogue.schema import StudyParams
from pipeline.catalogue.targets import PlannedRun
from pipeline.cli.names import ALGORITHMS, PARAMS
from pipeline.papers import build_catalogue
from pipeline.reports import write_partial
from pipeline.reports.kept import line_of
from pipeline.reports.results import read_tidy
from pipeline.reports.search import OWN
from pipeline.reports.trials import AGAIN, FINALS, TRIALS
from pipeline.workflow.estimate import guesses
from pipeline.workflow.expected import stated

WHOLE, SMALL = (Path(f"studies/benchmark/benchmark{size}.yaml") for size in ("", "_small"))
Small = Annotated[bool, typer.Option("--small", help="The small level: six small data sets, four trials.")]
Study = Annotated[Path | None, typer.Option(help="A study with a section benchmark, as wider rates.")]
Minutes = Annotated[float, typer.Option(min=0, help="How long it may take; the same command goes on.")]
Wanted = Callable[[PlannedRun], bool]
benchmark = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="The study of all methods. Example: fedcore benchmark rank my_method --small",
)


@benchmark.command()
def work(
    small: Small = False,
    study: Study = None,
    minutes: Minutes = 60.0,
    only: Annotated[list[str] | None, typer.Option(help="A workload, as w10_a1a; repeatable.")] = None,
    root: Root = Path("data"),
    mirror: Mirror = None,
) -> None:
    """Make missing runs of the benchmark, the cheapest workload first; `fedcore reference` keeps them.

    Example: fedcore benchmark work --minutes 60
    """
    _sit(_chosen(small, study), minutes, Source(root, mirror), "", only or ())


@benchmark.command()
def rank(
    method: Annotated[
        str, typer.Argument(help="An algorithm, of fedcore or of FEDCORE_PLUGINS.", autocompletion=ALGORITHMS)
    ],
    small: Small = False,
    study: Study = None,
    minutes: Minutes = 60.0,
    root: Root = Path("data"),
    mirror: Mirror = None,
    as_json: Json = False,
) -> None:
    """Tune an algorithm as all others, on the workloads that are through; say and draw its place among them.

    Its file says what to try, besides the local rate, in ``TUNE``, by key of a run's specification.

    Example: fedcore benchmark rank my_method --small
    """
    file = _chosen(small, study)
    board, written = _sit(file, minutes, Source(root, mirror), method)
    if method not in board["sets"].dropna():
        raise DataError(f"reports/{file.stem}: another command wrote it meanwhile; the same command goes on")
    row = board.loc[method]
    as_many = (board["sets"] == row["sets"]) | (board["verdict"] == "base")
    equal = board[as_many].sort_values("effect", ascending=False)
    place = list(equal.index).index(method) + 1
    tests = f"corrected for {row['tests']:.0f} tests" if row["tests"] > 1 else "one test, so uncorrected"
    known = row.notna()
    p = f"p = {row['p']:.2g} ({tests}); " if known["p"] else ""
    interval = f" ({row['interval']})" if known["interval"] else ""
    lines = [
        f"{method}: {row['effect']:+.2f} points{interval} over {row['sets']:.0f} data "
        f"set{'s' if row['sets'] > 1 else ''}: {row['verdict']}; "
        f"{p}place {place} of the {len(equal)} on as many data sets",
        *(f"  {other['effect']:+7.2f}  {name}" for name, other in equal.iterrows()),
        f"wrote {written[0].parent}/: {', '.join(path.name for path in written)}",
    ]
    others = equal.reset_index(names="method")[["method", "effect"]].to_dict("records")
    keys = ("effect", "interval", "sets", "verdict", "p", "tests")
    result = {key: row[key] if known[key] else None for key in keys}
    show(as_json, {"method": method, **result, "place": place, "equal": others, "files": written}, lines)


def _chosen(small: bool, study: Path | None) -> Path:
    if small and study:
        raise SpecError(f"--small and --study {study}: two studies, expected one")
    return study or (SMALL if small else WHOLE)


def _sit(
    file: Path, minutes: float, source: Source, method: str, only: Collection[str] = ()
) -> tuple[DataFrame, list[Path]]:
    """Make missing runs: of some workloads ``only``, or of a method where the others' final ones are made.

    Returns the board, with how many ``tests`` each p is corrected for, and the files of board and figure.
    """
    study = core_yaml.read(file, "study")
    name, config = file.stem, configuration(PARAMS)
    params = load(config | {"studies": {str(file): study}}).papers[name]
    for workload in only:
        require_known("--only", workload, params.datasets)
    if not isinstance(params, StudyParams) or not params.benchmark:
        raise SpecError(f"{file}: has no section benchmark; `fedcore build {file}` makes its runs")
    study = with_method(study, method) if method else study
    planned = partial(build_catalogue, config | {"studies": {str(file): study}})
    section, through = study["benchmark"], set[str]()
    if method:
        try:
            through = _through(planned(), name, method)
        except SpecError as error:
            path, _ = _declared(method)
            if path is None or method in params.algorithms:
                raise
            raise SpecError(f"{path}: TUNE: {str(error).removeprefix(f'{file}: ')}") from None
        if not through:
            raise SpecError(f"{file}: no workload is through; expected one after `fedcore benchmark work`")

    def wanted(run: PlannedRun) -> bool:
        ranked = run.algorithm == method and run.setting in through
        return ranked if method else not only or run.dataset in only

    try:
        catalogue = sit(planned, name, 60 * minutes, Settings(None, source, "cpu"), wanted)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on", error=True)
        raise
    if catalogue is None:
        say("the time is over; the same command goes on", error=True)
        raise typer.Exit(3)
    reports = ("board", "effects") if method else ("board",)
    written = [path for report in reports for path in write_partial(catalogue.sources(name, report))]
    board = read_tidy(Path(f"reports/{name}/board.csv")).set_index("row")
    board.loc[section["base"], "effect"] = 0.0
    families = section["families"].values()
    board["tests"] = board.index.map({name: len(family) for family in families for name in family})
    return board.loc[board.index.isin([section["base"], method, *chain(*families)])], written


def sit(
    planned: Callable[[], Catalogue], name: str, seconds: float, settings: Settings, wanted: Wanted
) -> Catalogue | None:
    """Make a benchmark's wanted runs until the time is over, those of the cheapest workload first.

    ``planned`` returns the catalogue as the stages have come. Kept runs count as made. Each process takes
    a workload's runs in an order of its own, so that several seldom meet. Returns the catalogue once nothing
    is missing, and raises DataError if a run failed.
    """
    until, changed = time.monotonic() + seconds, [TRIALS, AGAIN]
    catalogue = planned()
    while True:
        for stage in changed:  # by its table the next stage is planned
            if any(Path(run.folder).exists() and done(run) for run in needed(catalogue, name, stage)):
                write_partial(catalogue.sources(name, stage))
                catalogue = planned()
        stage, runs = _next(catalogue, name, wanted)
        if not runs:
            return catalogue
        changed = [stage]
        say(f"{runs[0].setting}: {len(runs)} runs of {stage}", error=True)
        for run in random.sample(runs, len(runs)):
            if time.monotonic() >= until:
                return None
            if execute([{**run.order(), "partition": None}], settings, quiet=True):
                raise DataError(f"{run.folder}: failed, as said above")


def done(run: PlannedRun) -> bool:
    """Whether a run is kept, or ended here by the code of today."""
    return line_of(run, Path()) is not None or finished(Path(run.folder), stated(run))


def needed(catalogue: Catalogue, name: str, stage: str) -> list[PlannedRun]:
    """Return the runs of a stage; none as long as nothing is known of it."""
    return catalogue.needed(name, stage) if stage in catalogue.papers[name].targets else []


def _next(catalogue: Catalogue, name: str, wanted: Wanted) -> tuple[str, list[PlannedRun]]:
    """Return what is missing next: a stage, and its runs of one workload; no runs if all are made."""
    cost: dict[str, float] = defaultdict(float)
    guess = guesses(catalogue)
    for run in filter(wanted, needed(catalogue, name, TRIALS)):
        cost[run.setting] += guess(run).seconds
    for setting in sorted(cost, key=lambda setting: cost[setting]):
        for stage in (TRIALS, AGAIN, FINALS):
            workload = (run for run in needed(catalogue, name, stage) if run.setting == setting)
            if runs := [run for run in workload if wanted(run) and not done(run)]:
                return stage, runs
    return "", []


def _through(catalogue: Catalogue, name: str, method: str) -> set[str]:
    """Return the workloads on which all methods but one are through all stages."""
    trials, finals = (
        [run for run in needed(catalogue, name, stage) if run.algorithm != method]
        for stage in (TRIALS, FINALS)
    )
    tuned, chosen = ({(run.algorithm, run.setting) for run in runs} for runs in (trials, finals))
    lacking = {setting for _, setting in tuned - chosen}
    lacking |= {run.setting for run in (*trials, *finals) if not done(run)}
    return {run.setting for run in finals} - lacking


def with_method(study: dict[str, Any], method: str) -> dict[str, Any]:
    """Return a benchmark with a method in a family of its own, as in the whole one or with its file's ranges.

    It raises SpecError if there is no such algorithm, the others are compared with it, or its file has ranges
    of other keys than its own and those of all methods.
    """
    section, known = study["benchmark"], study["algorithms"]
    if method == section["base"]:
        raise SpecError(f"{method}: is what the others are compared with, expected another algorithm")
    if method in known:
        return study
    listed = core_yaml.read(WHOLE, "study")["algorithms"]
    entry = listed.get(method) or {"tune": _ranges(method, study["tune"]["over"])}
    families = {**section["families"], "ranked": [method]}
    return {**study, "algorithms": {**known, method: entry}, "benchmark": {**section, "families": families}}


def _ranges(method: str, shared: Collection[str]) -> Any:
    find("algorithm", method)
    path, ranges = _declared(method)
    for key in ranges if isinstance(ranges, Mapping) else ():
        if key in shared:
            say(f"{path}: TUNE has {key}, so {method} doesn't try the values that all others try", error=True)
        elif not key.startswith(OWN):
            expected = ", ".join([f"{OWN}*", *shared])
            raise SpecError(f"{path}: TUNE has the key {key!r}, expected one of {expected}")
    return ranges


def _declared(method: str) -> tuple[Path | None, Any]:
    """Return the file that contributes a method, if one does, and its ``TUNE``."""
    for path, module in contributed("algorithm").items():
        if any(plugin.name == method for plugin in of_module(module)):
            return path, getattr(module, "TUNE", {})
    return None, {}
