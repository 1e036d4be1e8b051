"""Results beside each other: what differs, last numbers, means over seeds."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.base.errors import SpecError
from fedcore.base.files import canonical_json
from fedcore.base.lazy import Axes, DataFrame, pd
from fedcore.execution.result import Result, flat, html_table, line_plot, load

SEED = "seed"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several runs beside each other; a notebook shows the frame.

    Attributes:
        frame: a row for each specification, runs that differ in their seed alone being one: what differs
            between the rows by key, the numbers of ``runs`` and of those that ``diverged``, the most
            ``rounds``, the means over the runs of the last ``test_accuracy`` (a fraction) and ``test_loss``,
            the sample standard deviation of the accuracy, and the mean of ``seconds``. A row with a diverged
            run has no accuracy or loss.
        histories: the histories below each other; ``method`` says what differs.
    """

    frame: DataFrame
    histories: DataFrame

    def plot(self, measure: str = "test_accuracy", axes: Axes | None = None) -> Axes:
        """Draw a column of ``histories`` over the rounds, on a new figure unless axes are given.

        Lines are means and bands ± one sample standard deviation over seeds. Methods with a diverged run have
        a place in the legend and no line. DataError: there is no such column.
        """
        return line_plot(
            self.histories[~self.histories["diverged"]],
            measure,
            axes,
            hue="method",
            hue_order=self.histories["method"].unique().tolist(),
            palette="colorblind",
            errorbar="sd",
            err_kws={"alpha": 0.15},
        )

    def _repr_html_(self) -> str:
        return html_table(self.frame)


def compare(results: Iterable[Result | Path | str] | Path | str) -> Comparison:
    """Put runs beside each other: results, or folders of finished runs; one folder is a table of one run.

    Raises:
        DataError: a folder holds no finished run, or its files are changed or damaged.
        SpecError: there is no run, or two have the same specification and the same seed.
    """
    given = [results] if isinstance(results, str | Path) else results
    runs = [result if isinstance(result, Result) else load(result) for result in given]
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
    lines, rows = [], []
    for spec, group in zip(specs, groups.values(), strict=True):
        lines.append({key: value for key, value in spec.items() if _differs(specs, key)} | _numbers(group))
        diverged = lines[-1]["diverged"]
        name = _label(specs, spec) + (f" ({diverged} of {len(group)} diverged)" if diverged else "")
        rows += [run.history.assign(method=name, seed=run.spec[SEED], diverged=diverged > 0) for run in group]
    return Comparison(pd.DataFrame(lines), pd.concat(rows, ignore_index=True))


def _numbers(group: list[Result]) -> dict[str, Any]:
    last = pd.DataFrame([run.summary["final"] or {} for run in group], columns=["test_accuracy", "test_loss"])
    mean, std = last.astype(float).mean(skipna=False), last.astype(float).std(skipna=False)
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
