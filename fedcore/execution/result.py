"""What a run gives, as a Python session has it, from the run or its folder, and shows it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base import core_yaml
from fedcore.base.errors import DataError, plain, reason
from fedcore.base.files import read_object
from fedcore.base.lazy import Axes, DataFrame, matplotlib, pd, seaborn
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


@dataclass(frozen=True, repr=False)
class Result:
    """What a run gives; a notebook shows it as a small table.

    Attributes:
        spec: the specification with all defaults, as spec.yaml holds it.
        rows: what was measured, one row per measured round, round 0 being the initial model.
        summary: what summary.json holds.
        parameters: the final model's arrays (and fixed buffers) by name; with clusters, the first one's.
        clients: one row per client with data at the end, if ``evaluation.clients`` asks for it, else empty.
        tables: rows of the algorithm's and observers' own tables, by name.
        arrays: the algorithm's and observers' own arrays, by the name of their .npz file, then by their own.
        timing: seconds, machine and versions; never part of a comparison.
    """

    spec: dict[str, Any]
    rows: list[dict[str, float]]
    summary: dict[str, Any]
    parameters: dict[str, NDArray[np.floating]]
    clients: list[dict[str, Any]]
    tables: dict[str, list[dict[str, float]]]
    arrays: dict[str, dict[str, NDArray[np.generic]]]
    timing: dict[str, Any]

    @property
    def history(self) -> DataFrame:
        """What was measured, a new frame: history.csv has the same columns (accuracies are fractions)."""
        return pd.DataFrame(self.rows)

    def plot(self, measure: str = "test_accuracy", axes: Axes | None = None) -> Axes:
        """Draw a column of ``history`` over rounds, on new or given axes; DataError: no such column."""
        return line_plot(self.history, measure, axes)

    def __repr__(self) -> str:
        return f"<Result {', '.join(f'{key}: {value}' for key, value in self._facts().items() if value)}>"

    def _repr_html_(self) -> str:
        return html_table(pd.DataFrame([self._facts() | {"time": f"{self.timing['seconds']:.1f} s"}]))

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


def line_plot(frame: DataFrame, measure: str, axes: Axes | None, **looks: Any) -> Axes:
    """Draw a column of a frame over its rounds, on a new figure unless axes are given."""
    measures = [name for name in frame.columns if name not in {"round", "method", "seed", "diverged"}]
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


def html_table(frame: DataFrame) -> str:
    """Return a frame as a notebook shows it."""
    with pd.option_context("display.max_colwidth", None):
        return frame.to_html(index=False, na_rep="", float_format="{:.4g}".format)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested keys, each with its path, such as ``training.lr``."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def _rows(path: Path) -> list[Any]:
    return pd.read_csv(path, dtype={"name": str}, keep_default_na=False, na_values=[""]).to_dict("records")


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)
