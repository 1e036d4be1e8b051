"""eICU tables -> variables that APACHE scores are made of, one row a stay; missing values are nan.

Three layouts: the credentialed database's own APACHE tables, the first-day cohort of the open demo
(no hospital ids), and a small part of the open demo with hospital ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import pd
from fedcore.data.download import declared
from fedcore.data.readers import read_parquet, read_table, whole

ID = "patientunitstayid"
VARIABLES = {
    file.name: list(file.variables)
    for edition in declared(str(Path(__file__).with_name("eicu.py")))["eicu"].editions.values()
    for file in edition.files
}
PHYSIOLOGY, HISTORY = VARIABLES["apacheApsVar.csv"], VARIABLES["apachePredVar.csv"]
FIRST_DAY, LABS = VARIABLES["yaib_mortality24_dyn.parquet"], VARIABLES["pyhealth_lab.csv"]
DAY = 24 * 60


@dataclass(frozen=True)
class Stays:
    """Stays in order of their ids: variables x [n, d] (nan is missing), died [n], place [n], their names."""

    x: NDArray[np.float32]
    died: NDArray[np.int64]
    place: NDArray[np.int64]
    names: tuple[str, ...]


def credentialed(paths: Mapping[str, Path]) -> Stays:
    """Join ``patient``, ``apacheApsVar`` and ``apachePredVar``; -1 is missing; died: in hospital."""
    patient = read_table(paths["patient.csv"], (ID, "hospitalid", "hospitaldischargestatus"))
    aps = read_table(paths["apacheApsVar.csv"], (ID, *PHYSIOLOGY))
    history = read_table(paths["apachePredVar.csv"], (ID, *HISTORY))
    patient = patient[patient.hospitaldischargestatus.isin(("Alive", "Expired"))]
    joined = (
        patient[[ID, "hospitalid", "hospitaldischargestatus"]]
        .merge(aps[[ID, *PHYSIOLOGY]], on=ID)
        .merge(history[[ID, *HISTORY]], on=ID)
        .sort_values(ID)
    )
    numbers = _numbers(joined, (*PHYSIOLOGY, *HISTORY))
    return _stays(joined, numbers.mask(numbers == -1), "hospitalid")


def first_day(paths: Mapping[str, Path]) -> Stays:
    """Reduce the hourly values of the first day to their lowest and highest; died: in the ICU.

    Hospitals are not in these tables: ``place`` is the stay's rank by id, to be cut into blocks.
    """
    fixed = read_parquet(paths["yaib_mortality24_sta.parquet"], ("stay_id", "age", "sex", "height", "weight"))
    label = read_parquet(paths["yaib_mortality24_outc.parquet"], ("stay_id", "label"))
    hourly = read_parquet(paths["yaib_mortality24_dyn.parquet"], ("stay_id", "urine", *FIRST_DAY))
    by_stay = hourly.groupby("stay_id")[FIRST_DAY]
    joined = (
        fixed.assign(male=(fixed.sex == "Male").astype(float))
        .merge(label, on="stay_id")
        .merge(by_stay.min().add_suffix("_low"), on="stay_id")
        .merge(by_stay.max().add_suffix("_high"), on="stay_id")
        .merge(hourly.groupby("stay_id").urine.sum(min_count=1), on="stay_id")
        .sort_values("stay_id")
        .reset_index(drop=True)
    )
    columns = [name for name in joined.columns if name not in {"stay_id", "sex", "label"}]
    x = _numbers(joined, columns).to_numpy(np.float32)
    died = whole(paths["yaib_mortality24_outc.parquet"], joined.label.to_numpy())
    return Stays(x, died, np.arange(len(died)), ())


def with_hospitals(paths: Mapping[str, Path]) -> Stays:
    """Take the first day's lowest and highest laboratory values and the coma scale; died: in hospital."""
    patient = read_table(
        paths["pyhealth_patient.csv"], (ID, "age", "gender", "hospitalid", "hospitaldischargestatus")
    )
    lab = read_table(paths["pyhealth_lab.csv"], (ID, "labname", "labresult", "labresultoffset"))
    exam = read_table(paths["pyhealth_physicalExam.csv"], (ID, "physicalexampath", "physicalexamvalue"))
    dx = read_table(paths["pyhealth_admissionDx.csv"], (ID, "admitdxpath"))
    patient = patient[patient.hospitaldischargestatus.isin(("Alive", "Expired"))].sort_values(ID)
    lab = lab[lab.labname.isin(LABS) & lab.labresultoffset.between(-DAY // 4, DAY)]
    low, high = (
        lab.groupby([ID, "labname"]).labresult.agg(how).unstack().reindex(columns=LABS)
        for how in ("min", "max")
    )
    gcs = exam.physicalexampath.str.extract(r"GCS/(Eyes|Motor|Verbal) Score/(\d)$")
    scores = exam.assign(part=gcs[0], score=gcs[1].astype(float)).dropna(subset=["part"])
    worst = scores.groupby([ID, "part"]).score.min().unstack().reindex(columns=["Eyes", "Motor", "Verbal"])
    operated = dx[dx.admitdxpath.str.contains(r"\|Operative", regex=True)][ID].unique()
    known = patient.set_index(ID)
    age = known.age.astype(str).str.replace("> 89", "90", regex=False)
    male, operated = known.gender == "Male", known.index.isin(operated)
    features = known[[]].assign(age=age, male=male.astype(float), operated=operated.astype(float))
    features = features.join(low.add_suffix("_low")).join(high.add_suffix("_high")).join(worst)
    return _stays(patient, _numbers(features, features.columns), "hospitalid")


def _numbers(frame: pd.DataFrame, columns: Any) -> pd.DataFrame:
    """Turn columns into numbers: "> 89" years are 90, sexes 1 and 0, anything else nan."""
    words = {"> 89": 90, "Male": 1, "Female": 0}
    return frame[list(columns)].apply(lambda column: pd.to_numeric(column.replace(words), errors="coerce"))  # type: ignore[no-any-return]


def _stays(patient: pd.DataFrame, numbers: pd.DataFrame, place: str) -> Stays:
    if not len(patient):
        raise DataError("eicu: the tables have no stay in common")
    names, index = np.unique(patient[place].to_numpy(), return_inverse=True)
    died = (patient.hospitaldischargestatus == "Expired").to_numpy().astype(np.int64)
    return Stays(
        numbers.to_numpy(np.float32), died, index.astype(np.int64), tuple(str(name) for name in names)
    )
