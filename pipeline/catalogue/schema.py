"""params.yaml as pydantic models: the one place where a key is defined, described and refused.

The models generate params.schema.json (for editors) and docs/params.md (for people); a test holds all
three together. Plug-in sections (data, model, splits, algorithms) are checked further by fedcore, which
knows each plug-in's own keys.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    create_model,
    field_validator,
    model_validator,
)

from fedcore.base.options import Options
from fedcore.base.registry import NAME
from fedcore.spec import Evaluation, Precision, Training

MEASURING = ("every", "train_every", "clients", "stop_at", "precision", "count_rows")
LENGTHS = frozenset({"local_steps", "local_epochs"})
DIMENSIONS = 8  # of a Sobol' sequence
Key = Annotated[str, Field(pattern=NAME)]


def _each_once(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len({*seeds}) < len(seeds):
        raise ValueError(f"got {[*seeds]}, expected each seed once")
    return seeds


Seeds = Annotated[tuple[NonNegativeInt, ...], Field(min_length=1), AfterValidator(_each_once)]


class Section(Options, use_attribute_docstrings=True):
    """A section of params.yaml. The text below a key is what the documentation and editors say of it."""


class PluginSection(Section, extra="allow"):
    """A plug-in's name and its own keys, which `fedcore describe NAME` lists."""

    name: str
    """The plug-in's registered name."""


def _optional(model: type[Options], *keys: str) -> Any:
    """Return a model of some keys of ``model``, or of all, none of which has to be given."""
    kinds = get_type_hints(model, include_extras=True)
    texts = {key: model.model_fields[key].description for key in keys or model.model_fields}
    fields: dict[str, Any] = {key: (kinds[key] | None, Field(None, description=texts[key])) for key in texts}
    return create_model(model.__name__, __base__=Options, **fields)  # a Section would look for its source


class TrainingParams(_optional(Training), Section):  # type: ignore[misc]
    """Local training. A key set in a later layer wins: regime, data set, algorithm, then its `per`."""

    lr_schedule: dict[str, Any] | None = None
    """How the local rate changes over rounds, as in a run's specification."""


class EvaluationParams(_optional(Evaluation, *MEASURING), Section):  # type: ignore[misc]
    """When and how the global model is measured; a key that a regime leaves out keeps `common`'s value."""


class RegimeParams(Section):
    """How a federation is run: how many clients there are and how many take part in a round."""

    clients: PositiveInt
    """Clients (N) unless a split says how many; `natural` without a number takes all that the data name."""
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Fraction of the clients that take part in a round (SR)."""
    training: TrainingParams = TrainingParams()
    """Local training in this regime."""
    precision: Precision | None = None
    """Arithmetic in this regime; that of `common` unless set."""
    evaluation: EvaluationParams = EvaluationParams()
    """Keys of `common.evaluation` that differ in this regime."""


class Range(Section):
    """Values between two ends, which are among them."""

    low: float
    """The smallest value."""
    high: float
    """The largest value."""
    log: bool = False
    """Whether values are spread evenly over orders of magnitude, not over the range."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not (0 if self.log else -math.inf) < self.low < self.high:
            positive = " and more than 0" if self.log else ""
            raise ValueError(f"low: got {self.low:g}, expected less than high{positive}")
        return self


Tried = Mapping[str, Range | Annotated[tuple[Any, ...], Field(min_length=1)]]


class DatasetParams(Section):
    """One data set of a paper: its data, model and local training, and the ways it is split."""

    data: PluginSection
    """Data plug-in, such as `{name: mnist, edition: full}`."""
    model: PluginSection
    """Model plug-in, such as `{name: cnn}`."""
    training: TrainingParams = TrainingParams()
    """Local training on this data set."""
    splits: dict[Key, PluginSection] = Field(min_length=1)
    """Partition plug-ins by a name of your choice, such as `sim0`."""
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    """Fraction of the clients that take part in a round here, in place of the regime's."""
    tune: Tried = Field(default={})
    """Values to try here, in place of those of `tune.over`."""


class TuneParams(Section):
    """How values are searched for: on held-out rows, never on test rows, with one budget for all methods."""

    how: Literal["grid", "random", "quasirandom", "sobol"] = "grid"
    """`grid`: all lists and evenly spaced points of ranges; `random` and `quasirandom` (Halton): draws;
    `sobol` (for a `benchmark`): a scrambled sequence for each data set, which all methods share."""
    columns: tuple[str, ...] = ()
    """Keys with a column of the `sobol` sequence of their own: methods that have such a key try the same
    shares of its range in the same trials. A method's other keys take the remaining columns."""
    trials: PositiveInt | None = None
    """Candidates of each method in each setting, at most; a `grid` of lists needs none."""
    held_out: Annotated[float, Field(gt=0, lt=1)] | Literal["clients", "selection"] = 0.2
    """Share of each client's rows that candidates are scored on; `clients`: whole ones, where splits have a
    `fold`; `selection`: the rows that splits hold out for all runs by this key, so that what trains on
    validation rows has no advantage."""
    over: Tried = Field(default={})
    """Values to try of every method, by key of a run's specification: a list, or a range
    `{low: 0.001, high: 1.0, log: true}`. A method's own are at its entry."""

    @model_validator(mode="after")
    def _has_columns(self) -> Self:
        if self.columns and (self.how != "sobol" or len(self.columns) > DIMENSIONS):
            found = f"got {len(self.columns)} with 'how: {self.how}'"
            raise ValueError(f"columns: {found}, expected at most {DIMENSIONS}, with 'how: sobol'")
        return self


class ChosenParams(Section):
    """Values that a search chose, as `fedcore chosen` writes them; they win over declared ones."""

    of: Key | None = None
    """The algorithm's entry; all unless set."""
    at: str
    """Where they hold: a data set, a split, a regime, or a setting (a column of the search)."""
    values: dict[str, Any]
    """Values by key of a run's specification."""
    source: str
    """What they were chosen from."""

    @field_validator("values")
    @classmethod
    def _none_is_a_run_s_own(cls, values: dict[str, Any]) -> dict[str, Any]:
        if "seed" in values:
            raise ValueError("got the key 'seed', expected keys that runs with other seeds share")
        return values


class PerParams(Section, extra="allow"):
    """What an algorithm changes for one data set, split or regime: its own keys, and `training`."""

    training: TrainingParams = TrainingParams()
    """Local training, for this case only."""


class AlgorithmParams(PerParams):
    """An algorithm with its hyperparameters, which are the keys that the algorithm itself defines."""

    name: str | None = None
    """Registered name; the entry's own key unless set."""
    options_of: tuple[Key, ...] = ()
    """Entries whose options hold here too, their `per` included, as far as this algorithm has such options;
    an option of this entry overrides theirs, and a later one of them an earlier one."""
    per: dict[Key, PerParams] = Field(default={})
    """Changes by data set, split or regime name, applied in the order written."""
    tune: Tried = Field(default={})
    """Values to try in a search, by key of a run's specification; see the paper's `tune`."""
    once: bool = False
    """One round of all clients, in which each trains as long as on average in all rounds of other methods."""


class ReadingsParams(Section):
    """Readings of a table: its runs over combinations of what the paper leaves open."""

    of: Key | None = None
    """The table; by default the one whose name the entry has."""
    points: Annotated[tuple[Key, ...], Field(min_length=1)]
    """Open points, by their names in the paper's `readings.yaml`, each with all alternatives that can run."""
    most: PositiveInt = 32
    """Most combinations; of more, as few are run as hold every pair of alternatives of two points."""
    seeds: PositiveInt = 1
    """How many of the paper's seeds each reading runs with, the first ones; all of fewer than three."""
    again: tuple[str, ...] = ()
    """Readings that run with all seeds, by the names that the report gives them."""
    rows: tuple[str, ...] = ()
    """Rows of the table that run; all by default."""
    columns: tuple[str, ...] = ()
    """Columns of the table that run; all by default."""
    changes: dict[str, Any] = Field(default={})
    """What all its runs change, such as `training.rounds: 20`: keys of a specification with their values."""


class PaperParams(Section):
    """One paper: every value that defines its runs."""

    seeds: Seeds
    """One run of each setting and algorithm for each seed."""
    variant: Literal["paper", "released"] = "paper"
    """`paper` follows the text; `released` the authors' code where it is known to differ."""
    equal_trainings: bool = False
    """Clients train equally often under all algorithms: `rounds` counts synchronous rounds, and an algorithm
    in whose round clients train more or less often gets fewer or more rounds."""
    measurements: PositiveInt | None = None
    """How often each run is measured, at equal distances, in place of `evaluation.every`."""
    regimes: dict[Key, RegimeParams] = Field(min_length=1)
    """Regimes by name."""
    datasets: dict[Key, DatasetParams] = Field(min_length=1)
    """Data sets by name."""
    algorithms: dict[Key, AlgorithmParams] = Field(min_length=1)
    """Algorithms by name; each is a row of the paper's tables."""
    tune: TuneParams = TuneParams()
    """How values are searched for."""
    chosen: tuple[ChosenParams, ...] = ()
    """What searches chose; of two entries that hold for a run the later counts."""
    readings: dict[Key, ReadingsParams] = Field(default={})
    """Tables that are also measured under other readings of the paper: each is one more report,
    `<name>_readings`."""

    def __hash__(self) -> int:
        return id(self)  # it holds mappings


class CommonParams(Section):
    """What all runs of all papers share."""

    dtype: Literal["float32", "float64"] = "float32"
    """Numbers that models are made of."""
    precision: Precision = "fp32"
    """Arithmetic of forward and backward passes."""
    engine: Literal["auto", "autograd", "analytic", "stacked", "fused", "compiled"] = "auto"
    """What runs local steps; all agree within floating-point tolerance. `auto` never takes the last two."""
    evaluation: EvaluationParams = EvaluationParams()
    """When and how the model is measured; unset: every round, everything in fp32, no clients."""


Grid = Annotated[dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]], Field(default={})]
Variants = Annotated[dict[Key, dict[str, Any]], Field(default={})]
Shown = Literal["table", "curves", "ranks", "cost", "partitions"]


class StudyAlgorithm(AlgorithmParams):
    """A method of a study, with values to try of its own."""

    grid: Grid
    """Values to try of this method, by key of `algorithm`, `training`, or `dtype` and `precision`; each
    combination is a row."""
    variants: Variants
    """Named settings of such keys, in place of the study's; each is a row."""


class HeadlineParams(Section):
    """What a paper shows first: its method ahead of others, on data sets of its own."""

    method: Key
    """The paper's method."""
    above: Annotated[tuple[Key, ...], Field(min_length=1)]
    """Methods that it is shown ahead of."""
    ground: tuple[str, ...]
    """Names of the paper's data sets; those of the benchmark that aren't among them are others' ground."""


class TimesParams(Section):
    """A number of a run, as a multiple of what it is otherwise."""

    times: Annotated[float, Field(gt=0)]
    """By what the number is multiplied; whole numbers stay whole, and at least 1."""


class ReportParams(Section):
    """What a study reports."""

    metric: Literal["accuracy", "f1", "auc", "loss"] = "accuracy"
    """What is measured on the test rows."""
    target: Annotated[float, Field(gt=0)] | None = None
    """What the cost is counted up to, such as an accuracy of `0.8`; where unset, what FedAvg (or the first
    method of a study without it) has after its last round at the same seed."""
    diverged: Literal["left_out", "untrained"] = "left_out"
    """How a diverged run counts in the table: not at all, or as the model was before its first round."""
    test: Literal["t", "wilcoxon", "none"] = "t"
    """Paired test of the methods against the best of a column."""
    margin: Annotated[float, Field(gt=0)] | None = None
    """A difference that does not matter: the caption names what is surely nearer to FedAvg than that."""
    show: Annotated[tuple[Shown, ...], Field(min_length=1)] = get_args(Shown)
    """Which reports there are."""
    labels: dict[Key, Annotated[str, Field(pattern=r"^[^$]*$")]] = Field(default={})
    """Names in print of methods, data sets, splits and regimes, without `$`; their keys unless given."""
    controls: dict[Key, dict[str, bool | int | float | str | TimesParams]] = Field(default={})
    """Rows beside a benchmark's methods, in no family: its base under changes of runs, by key of a
    specification, such as `{evaluation.tested_on: test}` for trials that are chosen by test rows, or
    `{training.rounds: {times: 0.5}}` for half of a setting's rounds. A `draw` of the trials gives others."""
    headlines: dict[Key, HeadlineParams] = Field(default={})
    """Headlines that a benchmark tests on the papers' own ground and on that of others, by paper."""
    contrasts: dict[Key, dict[Key, Annotated[tuple[Key, ...], Field(min_length=1)]]] = Field(default={})
    """Further comparisons on the ground of a paper that has a headline, by paper: methods, and what each is
    tested to be ahead of, such as `{fedomw: {dl_opt: [dl_u]}}`. They are no part of the protocol."""
    always: Key | None = None
    """A method of the families that a benchmark's advice must beat, as its base, on data sets left out."""
    factorial: dict[Key, dict[Key, Key]] = Field(default={})
    """Methods of a benchmark by their client's side and their server, such as `{plain: {mean: fedavg, adam:
    fedadam}, prox: {mean: fedprox, adam: prox_adam}}`; others are compared with the first of each."""
    without: dict[Key, tuple[str, ...]] = Field(default={})
    """Names of data that a benchmark's `sensitivity` leaves out together, by what they have in common."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if len({tuple(servers) for servers in self.factorial.values()}) > 1:
            raise ValueError("factorial: expected the same servers for each client's side")
        if bare := self.contrasts.keys() - self.headlines.keys():
            raise ValueError(f"contrasts: expected papers that have a headline, got '{min(bare)}'")
        if self.target is not None and self.target > 1 and self.metric != "loss":
            raise ValueError(f"target: got {self.target:g}, expected a share of 1 at most, such as 0.8")
        return self


class BenchmarkParams(Section):
    """A benchmark: all methods are tuned with one budget on each data set, and compared over data sets.

    A score is the mean over the measurements of a run's last rounds. It ranks the trials of `tune` at one
    seed; the best run again at further seeds, and the one with the best mean at the study's own seeds.
    """

    base: Key
    """The method that others are compared with."""
    seed: NonNegativeInt = 100
    """Seed of all trials."""
    seeds: Seeds = (101, 102)
    """Further seeds of the best ones."""
    best: PositiveInt = 4
    """How many trials run again at these."""
    late: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the rounds, the last ones, whose measurements make the score."""
    margin: Annotated[float, Field(gt=0)] = 0.5
    """Points that matter: an effect's interval beyond them is better or worse, within them equivalent."""
    families: dict[Key, tuple[Key, ...]] = Field(min_length=1)
    """Methods whose tests are corrected together (Holm), by a name of the family; others are shown aside."""
    omit: dict[Key, tuple[Key, ...]] = Field(default={})
    """Methods that can't differ from another one there, by data set of the study."""
    kinds: dict[Key, tuple[Key, ...]] = Field(default={})
    """Data sets of the study by a kind of skew, for effects within each."""

    @model_validator(mode="after")
    def _has_further_seeds(self) -> Self:
        if self.seed in self.seeds:
            raise ValueError(f"seeds: got {self.seed}, the seed of all trials, expected others")
        return self


class StudyParams(PaperParams):
    """A study: what a paper's section has, what is tried, and what is reported."""

    title: Annotated[str, Field(min_length=1)]
    """What the study asks, in one line."""
    common: CommonParams = CommonParams()
    """What all runs share; `common` and `scale` of params.yaml count for papers alone."""
    algorithms: dict[Key, StudyAlgorithm] = Field(min_length=1)  # type: ignore[assignment]
    """Methods by name; each is a row, or several with a `grid` or `variants`."""
    grid: Grid
    """Values to try, by key of a run's specification: `algorithm` and `training` give rows (of the methods
    that have the key), `data`, `partition`, `model`, `participation`, `dtype` and `precision` columns."""
    variants: Variants
    """Named settings of such keys, all of rows or all of columns, combined with the grid."""
    report: ReportParams = ReportParams()
    """What is reported."""
    benchmark: BenchmarkParams | None = None
    """Makes a benchmark of the study, with reports of its own."""

    __hash__ = PaperParams.__hash__


class DataParams(Section):
    """Where data files may come from."""

    mirror: str | None = None
    """Folder or URL that holds the upstream files (compressed or not), tried before upstream; the environment
    variable FEDCORE_MIRROR where this is null."""


class Layout(Section):
    """How tables and figures are printed. No number and no run depends on it."""

    columns: Literal[1, 2] = 1
    """Columns of the page: 1 as in LaTeX's `article`, 2 as in the classes of IEEE and ACM, where what is wide
    spans both."""
    published: bool = True
    """Published numbers: in tables below ours, in figures as open diamonds where the paper prints numbers."""
    captions: bool = False
    """Captions in the pictures too, not only in files of their own."""


class ScaleParams(Section):
    """What a scale reduces. A key left out keeps the paper's value."""

    seeds: Seeds | None = None
    """Seeds of every paper at this scale."""
    one_process: bool = False
    """Train all seeds of a setting and algorithm in one process, which pays where a run takes seconds;
    results are the same bytes. Needs `seeds`."""
    common: dict[str, Any] = Field(default={})
    """Keys of `common` with their value at this scale."""
    papers: dict[Key, dict[str, Any]] = Field(default={})
    """Keys of `papers.<paper>` with their value at this scale."""


class Params(Section):
    """All that defines the results. Cores, devices and clusters are the business of profiles/."""

    primary_paper: Key
    """The paper whose targets are also at the top of reports/."""
    scale: Key = "demo"
    """The scale in use: a key of `scales`."""
    layout: Layout = Layout()
    """How tables and figures are printed."""
    data: DataParams = DataParams()
    """Where data files may come from."""
    common: CommonParams = CommonParams()
    """What all runs share."""
    papers: dict[Key, PaperParams] = Field(min_length=1)
    """Papers by name, with the papers' values."""
    scales: dict[Key, ScaleParams] = Field(min_length=1)
    """Scales by name: what each reduces."""
