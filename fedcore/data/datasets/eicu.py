"""eICU: death in hospital from the variables behind APACHE scores, by hospital.

Tables come in three layouts: the credentialed database's own APACHE tables, the first-day cohort of the open
demo (no hospital ids), and a small part of the open demo with hospital ids.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from fedcore.base.errors import DataError
from fedcore.base.lazy import DataFrame, pd
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Options, Plugin, Rows, Size, Source
from fedcore.data.download import Entry, cache, declared, fetch
from fedcore.data.readers import read_npz, read_table, whole
from fedcore.data.standardise import SCALINGS

RULES = {"full": (100, 0.2)}
TEST_SHARE = 0.2
HOSPITALS = 164  # in all data under the rules above: RADFed, section IV-B
DECLARATION = declared(__file__)["eicu"]
ID, DAY = "patientunitstayid", 24 * 60
PATIENT = (ID, "hospitalid", "hospitaldischargestatus")
VARIABLES = {file.name: list(file.variables) for each in DECLARATION.editions.values() for file in each.files}
PHYSIOLOGY, HISTORY = VARIABLES["apacheApsVar.csv"], VARIABLES["apachePredVar.csv"]
FIRST_DAY, LABS = VARIABLES["yaib_mortality24_dyn.parquet"], VARIABLES["pyhealth_lab.csv"]


class EicuOptions(Options):
    """How stays become samples.

    Attributes:
        min_admissions: hospitals need more stays than this (None: 100 for ``full``, no rule else).
        max_mortality: hospitals with a larger share of deaths are left out (None: .2 for ``full``).
        block: stays per block, where blocks stand in for hospitals (``cohort`` and ``demo``).
        scaling: by all training rows, or ``by_client``, which leaves it to whoever knows the clients.
            Missing values become the training rows' mean before.
        pool: train rows are all rows, for a split by hospital; a fixed fifth of the rows are test rows.
    """

    edition: Literal["full", "cohort", "hospitals", "demo", "demo_hospitals"] = "full"
    min_admissions: NonNegativeInt | None = None
    max_mortality: Annotated[float, Field(ge=0, le=1)] | None = None
    block: PositiveInt = 40
    scaling: Literal["as_shipped", "minmax", "standard", "by_client"] = "standard"
    pool: bool = False


@dataclass(frozen=True)
class Stays:
    """Stays in order of their ids: variables x [n, d] (nan is missing), died [n], place [n], their names."""

    x: NDArray[np.float32]
    died: NDArray[np.int64]
    place: NDArray[np.int64]
    names: tuple[str, ...]


def stays(edition: str, source: Source) -> Stays:
    """Return the stays of an edition, missing values as nan."""
    if edition.startswith("demo"):
        path = fetch.demo_file(source, f"eicu/{edition}.npz")
        x, died, place, names = read_npz(path, "x", "died", "place", "names")
    else:
        paths = fetch.obtain(DECLARATION, edition, source)
        arrays = cache.derived(source, f"eicu-{edition}-1", paths, lambda: _parse(edition, paths))
        x, died, place, names = (arrays[name] for name in ("x", "died", "place", "names"))
    return Stays(x, died.astype(np.int64), place.astype(np.int64), tuple(map(str, names)))


def _parse(edition: str, paths: Mapping[str, Path]) -> dict[str, NDArray[Any]]:
    parsed = {"full": credentialed, "cohort": first_day, "hospitals": with_hospitals}[edition](paths)
    return {**vars(parsed), "names": np.array(parsed.names, str)}


def size(options: EicuOptions) -> Size:
    """Return how large an edition is; of the full one, which is not handed on, about."""
    rows = DECLARATION.editions[options.edition].counts.get("stays", 136_000)
    return Size(rows, (45,), 2, clients(options) or 100)


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the numbers of stays, deaths and, where they are known, hospitals."""
    data = stays(edition, source)
    hospitals = {"hospitals": len(data.names)} if data.names else {}
    return {"stays": len(data.died), "deaths": int(data.died.sum())} | hospitals


def eligible(
    died: NDArray[np.int64], place: NDArray[np.int64], min_admissions: int, max_mortality: float
) -> NDArray[np.int64]:
    """Return the hospitals of more than ``min_admissions`` stays and no more deaths per stay than allowed."""
    admissions = np.bincount(place)
    deaths = np.bincount(place, weights=died)
    return np.flatnonzero((admissions > min_admissions) & (deaths <= max_mortality * admissions))


def build(options: EicuOptions, source: Source) -> Dataset:
    """Load the stays: x float32 [n, d], y 1 for death, one group per hospital (or block)."""
    data = stays(options.edition, source)
    place, names = data.place, data.names
    if not names:
        place = place // options.block
        names = tuple(f"block{block}" for block in range(place[-1] + 1))
    admissions, mortality = RULES.get(options.edition, (0, 1.0))
    admissions = admissions if options.min_admissions is None else options.min_admissions
    mortality = mortality if options.max_mortality is None else options.max_mortality
    kept = eligible(data.died, place, admissions, mortality)
    if not len(kept):
        raise DataError(f"eicu: no hospital has over {admissions} stays and {mortality:.0%} deaths or fewer")
    rows = np.flatnonzero(np.isin(place, kept))
    held_out = Streams(0).get("eicu/test").permutation(len(rows)) < round(TEST_SHARE * len(rows))
    train = np.ones(len(rows), np.bool_) if options.pool else ~held_out
    x = scaled(data.x[rows].astype(np.float64), train, options.scaling).astype(np.float32)
    all_rows = Rows(x, data.died[rows], np.searchsorted(kept, place[rows]))
    return DECLARATION.dataset(
        options.edition,
        all_rows.take(train),
        all_rows.take(held_out),
        group_names=tuple(names[index] for index in kept),
        standardise_by_client=options.scaling == "by_client",
    )


def scaled(x: NDArray[np.float64], train: NDArray[np.bool_], scaling: str) -> NDArray[np.float64]:
    """Put the training rows' mean for missing values (0 where a column has none), then scale."""
    known = ~np.isnan(x)
    mean = np.where(known[train], x[train], 0.0).sum(axis=0) / np.maximum(known[train].sum(axis=0), 1)
    filled = np.where(known, x, mean)
    return SCALINGS[scaling](filled[train], filled)[1]


def clients(options: EicuOptions) -> int | None:
    """Return the number of hospitals or blocks: RADFed's 164 of all data; None under rules of one's own."""
    if (options.min_admissions, options.max_mortality) != (None, None):
        return None
    totals = DECLARATION.edition(options.edition).counts
    return totals.get("hospitals") or (math.ceil(totals["stays"] / options.block) if totals else HOSPITALS)


def credentialed(paths: Mapping[str, Path]) -> Stays:
    """Join ``patient``, ``apacheApsVar`` and ``apachePredVar``; -1 is missing; died: in hospital."""
    patient = read_table(paths["patient.csv"], PATIENT)
    aps = read_table(paths["apacheApsVar.csv"], (ID, *PHYSIOLOGY))
    history = read_table(paths["apachePredVar.csv"], (ID, *HISTORY))
    patient = patient[patient.hospitaldischargestatus.isin(("Alive", "Expired"))]
    joined = patient.merge(aps, on=ID).merge(history, on=ID).sort_values(ID)
    numbers = _numbers(joined, (*PHYSIOLOGY, *HISTORY))
    return _stays(joined, numbers.mask(numbers == -1))


def first_day(paths: Mapping[str, Path]) -> Stays:
    """Reduce the hourly values of the first day to their lowest and highest; died: in the ICU.

    Hospitals are not in these tables: ``place`` is the stay's rank by id, to be cut into blocks.
    """
    fixed = read_table(paths["yaib_mortality24_sta.parquet"], ("stay_id", "age", "sex", "height", "weight"))
    label = read_table(paths["yaib_mortality24_outc.parquet"], ("stay_id", "label"))
    hourly = read_table(paths["yaib_mortality24_dyn.parquet"], ("stay_id", "urine", *FIRST_DAY))
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
    patient = read_table(paths["pyhealth_patient.csv"], (*PATIENT, "age", "gender"))
    lab = read_table(paths["pyhealth_lab.csv"], (ID, "labname", "labresult", "labresultoffset"))
    exam = read_table(paths["pyhealth_physicalExam.csv"], (ID, "physicalexampath"))
    dx = read_table(paths["pyhealth_admissionDx.csv"], (ID, "admitdxpath"))
    patient = patient[patient.hospitaldischargestatus.isin(("Alive", "Expired"))].sort_values(ID)
    lab = lab[lab.labname.isin(LABS) & lab.labresultoffset.between(-DAY // 4, DAY)]
    low, high = (
        lab.pivot_table("labresult", ID, "labname", how).reindex(columns=LABS) for how in ("min", "max")
    )
    scores = exam.physicalexampath.str.extract(r"GCS/(?P<part>Eyes|Motor|Verbal) Score/(?P<score>\d)$")
    scores = scores.assign(score=scores.score.astype(float), stay=exam[ID])
    worst = scores.pivot_table("score", "stay", "part", "min").reindex(columns=["Eyes", "Motor", "Verbal"])
    operated = dx[dx.admitdxpath.str.contains(r"\|Operative", regex=True)][ID].unique()
    by_stay = patient.set_index(ID)
    male, operated = by_stay.gender == "Male", by_stay.index.isin(operated)
    features = by_stay[["age"]].assign(male=male.astype(float), operated=operated.astype(float))
    features = features.join(low.add_suffix("_low")).join(high.add_suffix("_high")).join(worst)
    return _stays(patient, _numbers(features, features.columns))


def _numbers(frame: DataFrame, columns: Any) -> DataFrame:
    """Turn columns into numbers: "> 89" years are 90, sexes 1 and 0, anything else nan."""
    words = {"> 89": 90, "Male": 1, "Female": 0}
    return frame[list(columns)].apply(lambda column: pd.to_numeric(column.replace(words), errors="coerce"))  # type: ignore[no-any-return]


def _stays(patient: DataFrame, numbers: DataFrame) -> Stays:
    if not len(patient):
        raise DataError("eicu: the tables have no stay in common")
    names, index = np.unique(patient.hospitalid.to_numpy(), return_inverse=True)
    died = (patient.hospitaldischargestatus == "Expired").to_numpy().astype(np.int64)
    return Stays(numbers.to_numpy(np.float32), died, index.astype(np.int64), tuple(map(str, names)))


PLUGIN = Plugin(
    "eicu",
    EicuOptions,
    build,
    "death in hospital from APACHE variables, by hospital",
    "Pollard et al. 2018; RADFed, IV-B",
    clients=clients,
    size=size,
)
ENTRY = Entry(DECLARATION, counts)
