"""Results in a Python session: as frames, pictures and small tables, read back from folders, and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base import core_yaml
from fedcore.base.errors import DataError, SpecError, plain, reason
from fedcore.base.files import canonical_json, read_object
from fedcore.base.lazy import Axes, matplotlib, pd, seaborn
from fedcore.execution.integrity import PROVENANCE, SPEC, SUMMARY, TIMING, changed, read_sealed

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
}
SIZE = (6.4, 3.6)
SEED = "seed"


@dataclass(frozen=True, repr=False)
class Result:
    """What a run gives; a notebook shows it as a small table.

    Attributes:
        spec: the specification with all defaults, as spec.yaml holds it.
        rows: what was measured, one row a measured round, round 0 being the initial model.
        summary: what summary.json holds.
        parameters: the final model's arrays (and fixed buffers) by name.
        clients: one row per client at the end if ``evaluation.clients`` asks for it, else empty.
        tables: rows of the algorithm's and observers' own tables, by name.
        arrays: the observers' own arrays, by the name of their file.
        timing: seconds, machine and versions; never part of a comparison.
    """

    spec: dict[str, Any]
    rows: list[dict[str, float]]
    summary: dict[str, Any]
    parameters: dict[str, NDArray[np.floating]]
    clients: list[dict[str, float]]
    tables: dict[str, list[dict[str, float]]]
    arrays: dict[str, dict[str, NDArray[np.generic]]]
    timing: dict[str, Any]

    @property
    def history(self) -> pd.DataFrame:
        """What was measured, a new frame: history.csv has the same columns (accuracies are fractions)."""
        return pd.DataFrame(self.rows)

    def plot(self, measure: str = "test_accuracy", axes: Axes | None = None) -> Axes:
        """Draw a column of ``history`` over the rounds, on a new figure unless axes are given."""
        return _drawn(self.history, measure, axes)

    def __repr__(self) -> str:
        return f"<Result {', '.join(f'{key}: {value}' for key, value in self._facts().items() if value)}>"

    def _repr_html_(self) -> str:
        return _html(pd.DataFrame([self._facts() | {"time": f"{self.timing['seconds']:.1f} s"}]))

    def _facts(self) -> dict[str, str]:
        final = self.summary["final"]
        return {
            "method": plain(self.spec["algorithm"]["name"]),
            "data": plain(f"{self.spec['data']['name']} ({self.summary['data_note']})"),
            "rounds": plain(self.summary["rounds"]),
            "test accuracy": f"{100 * final['test_accuracy']:.2f}%" if final else "",
            "test loss": f"{final['test_loss']:.4f}" if final else "",
            "status": plain(self.summary["status"]),
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several runs beside each other; a notebook shows the frame.

    Attributes:
        frame: a row for each specification, runs that differ in their seed alone being one: what differs
            between the rows by key, the numbers of ``runs`` and of those that ``diverged``, the rounds, the
            means over the runs of the last ``test_accuracy`` (a fraction) and ``test_loss``, the sample
            standard deviation of the accuracy, and the mean of ``seconds``. A row with a diverged run has no
            accuracy or loss.
        histories: the histories below each other; ``method`` says what differs.
    """

    frame: pd.DataFrame
    histories: pd.DataFrame

    def plot(self, measure: str = "test_accuracy", axes: Axes | None = None) -> Axes:
        """Draw a column of ``histories`` over the rounds, on a new figure unless axes are given.

        Lines are means and bands ± one sample standard deviation over seeds. Methods with a diverged run have
        a place in the legend and no line.
        """
        names = self.histories["method"].unique().tolist()
        return _drawn(
            self.histories[~self.histories["diverged"]],
            measure,
            axes,
            hue="method",
            hue_order=names,
            palette="colorblind",
            errorbar="sd",
            err_kws={"alpha": 0.15},
        )

    def _repr_html_(self) -> str:
        return _html(self.frame)


def load(folder: Path | str) -> Result:
    """Read a finished run back from its folder; ``parameters`` are empty unless the model was saved.

    Raises:
        DataError: the folder holds no finished run, or its files are changed or damaged.
    """
    place = Path(folder)
    if problem := changed(place):
        raise DataError(f"{place}: {problem}; expected the folder of a finished run")
    try:
        names = list(read_sealed(place / PROVENANCE)["files"])
        tables = {name[:-4]: _rows(place / name) for name in names if name.endswith(".csv")}
        arrays = {name[:-4]: _arrays(place / name) for name in names if name.endswith(".npz")}
        return Result(
            core_yaml.read(place / SPEC),
            tables.pop("history"),
            read_object(place / SUMMARY),
            arrays.pop("model", {}),
            tables.pop("clients", []),
            tables,
            arrays,
            read_sealed(place / TIMING),
        )
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{place}: {reason(error)}; expected the folder of a finished run") from None


def compare(results: Iterable[Result | Path | str]) -> Comparison:
    """Put runs beside each other: results, or folders of finished runs.

    Raises:
        DataError: a folder holds no finished run, or its files are changed or damaged.
        SpecError: there is no run, or two have the same specification and the same seed.
    """
    runs = [result if isinstance(result, Result) else load(result) for result in results]
    if not runs:
        raise SpecError("compare: got no run, expected at least one")
    groups: dict[str, list[Result]] = {}
    for run in runs:
        others = groups.setdefault(canonical_json({**run.spec, SEED: None}), [])
        if any(run.spec[SEED] == other.spec[SEED] for other in others):
            method = f"{run.spec['algorithm']['name']}, seed {run.spec[SEED]}"
            raise SpecError(f"compare: got two runs of one specification ({method}), expected one of each")
        others.append(run)
    specs = [dict(flat(first.spec)) for first, *_ in groups.values()]
    lines, histories = [], []
    for spec, group in zip(specs, groups.values(), strict=True):
        lines.append({key: value for key, value in spec.items() if _differs(specs, key)} | _numbers(group))
        diverged = lines[-1]["diverged"]
        name = _label(specs, spec) + (f" ({diverged} of {len(group)} diverged)" if diverged else "")
        histories += [
            run.history.assign(method=name, seed=run.spec[SEED], diverged=diverged > 0) for run in group
        ]
    return Comparison(pd.DataFrame(lines), pd.concat(histories, ignore_index=True))


def _numbers(group: list[Result]) -> dict[str, Any]:
    final = pd.DataFrame(
        [run.summary["final"] or {} for run in group], columns=["test_accuracy", "test_loss"]
    )
    mean, std = final.astype(float).mean(skipna=False), final.astype(float).std(skipna=False)
    return {
        "runs": len(group),
        "diverged": sum(run.summary["final"] is None for run in group),
        "rounds": max(run.summary["rounds"] for run in group),
        "test_accuracy": mean["test_accuracy"],
        "test_accuracy_std": std["test_accuracy"],
        "test_loss": mean["test_loss"],
        "seconds": float(np.mean([run.timing["seconds"] for run in group])),
    }


def _differs(specs: list[dict[str, Any]], key: str) -> bool:
    """Whether a key but the seed differs, or is in some of the specifications alone."""
    return key != SEED and any(spec.get(key, specs) != specs[0].get(key, specs) for spec in specs)


def _label(specs: list[dict[str, Any]], spec: dict[str, Any]) -> str:
    """Say which plug-ins differ, and which options differ among those that share the plug-in."""
    pieces = []
    for key, value in spec.items():
        section, _, option = key.partition(".")
        name = f"{section}.name"
        alike = specs if option == "name" else [other for other in specs if other.get(name) == spec.get(name)]
        if _differs(alike, key):
            pieces.append(str(value) if option == "name" else f"{key.rpartition('.')[2]} {value}")
    return ", ".join(pieces) or str(spec["algorithm.name"])


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested keys, each with its path, such as ``training.lr``."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def _drawn(frame: pd.DataFrame, measure: str, axes: Axes | None, **looks: Any) -> Axes:
    measures = [name for name in frame.columns if name not in {"round", "method", SEED, "diverged"}]
    if measure not in measures:
        raise DataError(f"plot: got {measure!r}, expected one of {', '.join(measures)}")
    # A notebook's way to show figures is set up with the first one, and the context would take it back.
    figure = axes.figure if axes else matplotlib.pyplot.figure(figsize=SIZE, layout="constrained")
    with matplotlib.rc_context(STYLE):
        axes = axes or figure.subplots()
        seaborn.lineplot(frame, x="round", y=measure, ax=axes, **looks)
        axes.set(xlabel="communication round", ylabel=measure.replace("_", " "))
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator("auto", integer=True))
    return axes


def _html(frame: pd.DataFrame) -> str:
    with pd.option_context("display.max_colwidth", None):
        return frame.to_html(index=False, na_rep="", float_format="{:.4g}".format)


def _rows(path: Path) -> list[Any]:
    return pd.read_csv(path).to_dict("records")


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)
