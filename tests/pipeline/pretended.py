"""Finished runs without any training, and drawings of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from project import parameters, seal

from fedcore.base.files import canonical_json, sha256_text
from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import PlannedRun
from pipeline.fidelity.board import by_table
from pipeline.papers import build_catalogue
from pipeline.reports.agreement import agreements, ordering, within_interval
from pipeline.reports.drawings import Drawing, Inputs
from pipeline.reports.results import read
from pipeline.reports.significance import CONFIDENCE

MODEL, CLIENTS = 1000, 10


def catalogue(paper: str, scale: str = "demo") -> Catalogue:
    return build_catalogue(parameters(paper) | {"primary_paper": paper, "scale": scale})


def finish(run: PlannedRun, root: Path, accuracy: float | None, **columns: list[float]) -> None:
    """Pretend a finished run, with the history's other columns given; without an accuracy it diverged."""
    folder = root / run.folder
    folder.mkdir(parents=True, exist_ok=True)
    summary: dict[str, object] = {
        "status": "completed" if accuracy else "diverged",
        "rounds": 2,
        "best": accuracy and {"round": 2, "test_accuracy": accuracy},
        "data_sha256": "d",
        "partition_sha256": "p",
        "final": accuracy and {"test_accuracy": accuracy, "test_loss": 1.0, "train_loss": 1.0},
        "spec_sha256": sha256_text(canonical_json(run.spec)),
        "parameters": MODEL,
        "clients": CLIENTS,
        "empty_clients": [],
        "data_note": "made up",
        "data_state": "synthetic",
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    history = {"round": [0, 1, 2], "test_accuracy": [0.1, (accuracy or 0) / 2, accuracy]} | columns
    pd.DataFrame(history).to_csv(folder / "history.csv", index=False)
    seal(folder, run.spec, code=run.code)


def drawn(made: Catalogue, paper: str, target: str, root: Path) -> pd.DataFrame:
    drawing = made.target(paper, target)
    assert isinstance(drawing, Drawing)
    cells = made.cells(paper, target)
    frame, *_ = drawing.draw(Inputs(made.params.papers[paper], read(cells, root)))
    return frame.set_index(["row", "column"])


def one_line(frame: pd.DataFrame, *key: str) -> pd.Series[Any]:
    """Return the one line of a frame under a key of its index."""
    ((_, line),) = frame.loc[[key if len(key) > 1 else key[0]]].iterrows()
    return line


def summary(frame: pd.DataFrame, confidence: float = CONFIDENCE) -> pd.DataFrame:
    """Return what the board says of each table of a frame that has ours beside the published numbers."""
    inside = within_interval(frame, confidence)
    verdicts = [agreement.verdict for agreement in agreements(frame)]
    marked = frame.assign(verdict=verdicts, within_interval=inside, variant="paper")
    return by_table(marked.merge(ordering(frame), on=["paper", "target", "column"]))
