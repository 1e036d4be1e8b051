"""`fedcore benchmark`: the study of all methods, worked on over many sittings, and your own among them."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.base import core_yaml
from fedcore.base.errors import DataError, SpecError, say
from fedcore.base.lazy import DataFrame, pd
from fedcore.base.registry import contributed, find, of_module
from fedcore.cli.options import Json, Mirror, Root, show
from fedcore.data import Source
from fedcore.execution.runner import Settings
from pipeline.catalogue import Catalogue
from pipeline.catalogue.params import configuration, load, require_known
from pipeline.catalogue.schema import StudyParams
from pipeline.catalogue.targets import PlannedRun
from pipeline.cli.names import ALGORITHMS, PARAMS
from pipeline.papers import build_catalogue
from pipeline.reports import write_partial
from pipeline.reports.search import OWN
from pipeline.reports.trials import FINALS, TRIALS
from pipeline.workflow.sitting import done, needed, sit

WHOLE, SMALL = (Path(f"studies/benchmark/benchmark{size}.yaml") for size in ("", "_small"))
Small = Annotated[bool, typer.Option("--small", help="The small level: six small data sets, four trials.")]
Study = Annotated[Path | None, typer.Option(help="A study with a section benchmark, as wider rates.")]
Minutes = Annotated[float, typer.Option(min=0, help="How long it may take; the same command goes on.")]
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
    study = core_yaml.read(file, "study", quick=True)
    name, config = file.stem, configuration(PARAMS)
    params = load(config | {"studies": {str(file): study}}).papers[name]
    for workload in only:
        require_known("--only", workload, params.datasets)
    if not isinstance(params, StudyParams) or not params.benchmark:
        raise SpecError(f"{file}: has no section benchmark; `fedcore build {file}` makes its runs")
    study = with_method(study, method) if method else study
    planned = partial(build_catalogue, config | {"studies": {str(file): study}})
    if method and method not in params.algorithms:
        _checked(lambda: needed(planned(), name, TRIALS), file, method)
    section = study["benchmark"]
    through = _through(planned(), name, method) if method else set()
    if method and not through:
        raise SpecError(f"{file}: no workload is through; expected one after `fedcore benchmark work`")

    def wanted(run: PlannedRun) -> bool:
        if method:
            return run.algorithm == method and run.setting in through
        return not only or run.dataset in only

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
    board = pd.read_csv(f"reports/{name}/board.csv").set_index("row")
    board.loc[section["base"], "effect"] = 0.0
    families = section["families"].values()
    board["tests"] = board.index.map({name: len(family) for family in families for name in family})
    return board.loc[board.index.isin([section["base"], method, *chain(*families)])], written


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
    listed = core_yaml.read(WHOLE, "study", quick=True)["algorithms"]
    entry = listed.get(method) or {"tune": _ranges(method, study["tune"]["over"])}
    families = {**section["families"], "ranked": [method]}
    return {**study, "algorithms": {**known, method: entry}, "benchmark": {**section, "families": families}}


def _checked(plan: Callable[[], object], file: Path, method: str) -> None:
    """Plan a study that is right but for a contributed method, or blame the method's file."""
    try:
        plan()
    except SpecError as error:
        path, _ = _declared(method)
        if path is None:
            raise
        raise SpecError(f"{path}: TUNE: {str(error).removeprefix(f'{file}: ')}") from None


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
