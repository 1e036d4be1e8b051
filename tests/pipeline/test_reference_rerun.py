"""Runs that are kept in git, made again from their specification: the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from project import HOME

from fedcore.files import sha256_file
from pipeline.explain import catalogue_of
from pipeline.fidelity.reference import FOLDER, RUNS

CHEAP = 3


@pytest.mark.slow
@pytest.mark.skipif("FEDCORE_MIRROR" not in os.environ, reason="needs full data: FEDCORE_MIRROR is not set")
def test_a_kept_run_comes_out_again_byte_for_byte(tmp_path: Path) -> None:
    kept = pd.concat([pd.read_csv(path) for path in sorted((HOME / FOLDER).glob(f"*/{RUNS}"))])
    runs = catalogue_of(HOME / "params.yaml", "paper", HOME / "data/editions.yaml").index
    known = kept[kept["run"].isin(runs)].sort_values("seconds")
    known = known.assign(setting=known["run"].str.split("/").str[3]).drop_duplicates("setting").head(CHEAP)
    assert len(known) == CHEAP
    for place, line in enumerate(known.to_dict("records")):
        spec, out = tmp_path / f"{place}.yaml", tmp_path / str(place)
        spec.write_text(yaml.safe_dump(dict(runs[line["run"]].spec)), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("fedcore")), "run", str(spec), "--out", str(out)]
        subprocess.run(command, cwd=HOME, check=True, capture_output=True)
        assert sha256_file(out / "summary.json") == line["summary_sha256"], line["run"]
        assert sha256_file(out / "history.csv") == line["history_sha256"], line["run"]
