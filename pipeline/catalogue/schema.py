"""params.yaml as pydantic models: the one place where a key is defined, described and refused.

The models generate params.schema.json (for editors) and docs/params.md (for people); a test holds all
three together. Plug-in sections (data, model, splits, algorithms) are checked further by fedcore, which
knows each plug-in's own keys.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, StringConstraints

from fedcore.base.options import Options

Key = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class PluginSection(Options):
    """A plug-in's name and its own keys, which `fedcore describe NAME` lists."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = Field(description="The plug-in's registered name.")


class TrainingParams(Options):
    """Local training. A key set in a later layer wins: regime, data set, algorithm, then its `per`."""

    rounds: PositiveInt | None = Field(default=None, description="Communication rounds.")
    local_steps: PositiveInt | None = Field(
        default=None, description="Gradient steps of a client in a round (E)."
    )
    local_epochs: PositiveInt | None = Field(
        default=None, description="Passes over a client's data in a round, in place of `local_steps`."
    )
    batch_size: PositiveInt | Literal["full"] | None = Field(
        default=None, description="Rows per gradient step, or `full`."
    )
    lr: PositiveFloat | None = Field(default=None, description="Local learning rate.")
    optimizer: Literal["sgd", "momentum", "rmsprop"] | None = Field(
        default=None, description="Local optimizer; plain SGD unless set."
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = Field(default=None, description="Local momentum.")
    weight_decay: NonNegativeFloat | None = Field(default=None, description="Local L2 weight decay.")
    lr_schedule: dict[str, Any] | None = Field(
        default=None, description="How the local rate changes over rounds, as in a run's specification."
    )
    drop_last: bool | None = Field(default=None, description="Leave out a client's last incomplete batch.")


class EvaluationParams(Options):
    """When and how the global model is measured; a key that a regime leaves out keeps `common`'s value."""

    every: PositiveInt | None = Field(
        default=None, description="Rounds between two measurements on the test data."
    )
    train_every: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Rounds between two measurements of the loss on all training data; 0: never.",
    )
    clients: bool | None = Field(
        default=None, description="Also write each client's test accuracy at the end."
    )
    precision: Literal["fp32", "bf16"] | None = Field(
        default=None, description="Arithmetic of features when the model is measured."
    )


class RegimeParams(Options):
    """How a federation is run: how many clients there are and how many take part in a round."""

    clients: PositiveInt = Field(description="Clients (N); a split may set another number.")
    fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="Fraction of the clients that take part in a round (SR)."
    )
    training: TrainingParams = Field(default=TrainingParams(), description="Local training in this regime.")
    precision: Literal["fp32", "bf16"] | None = Field(
        default=None, description="Arithmetic in this regime; that of `common` unless set."
    )
    evaluation: EvaluationParams = Field(
        default=EvaluationParams(),
        description="What of `common.evaluation` this regime does otherwise.",
    )


class DatasetParams(Options):
    """One data set of a paper: its data, model and local training, and the ways it is split."""

    data: PluginSection = Field(description="Data plug-in, such as `{name: mnist, edition: full}`.")
    model: PluginSection = Field(description="Model plug-in, such as `{name: cnn}`.")
    training: TrainingParams = Field(default=TrainingParams(), description="Local training on this data set.")
    splits: dict[Key, PluginSection] = Field(
        min_length=1, description="Partition plug-ins by a name of your choice, such as `sim0`."
    )


class PerParams(Options):
    """What an algorithm changes for one data set, split or regime: its own keys, and `training`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    training: TrainingParams = Field(
        default=TrainingParams(), description="Local training, for this case only."
    )


class AlgorithmParams(PerParams):
    """An algorithm with its hyperparameters, which are the keys that the algorithm itself defines."""

    name: str | None = Field(default=None, description="Registered name; the entry's own key unless set.")
    options_of: tuple[Key, ...] = Field(
        default=(),
        description="Entries whose options hold here too, their `per` included, as far as this algorithm has "
        "such options; of two entries the later counts, and what is written here goes first.",
    )
    per: dict[Key, PerParams] = Field(
        default={}, description="Changes by data set, split or regime name, applied in the order written."
    )


class PaperParams(Options):
    """One paper: every value that defines its runs."""

    seeds: Seeds = Field(description="One run of each setting and algorithm for each seed.")
    variant: Literal["paper", "released"] = Field(
        default="paper",
        description="`paper` follows the text; `released` the authors' code where it is known to differ.",
    )
    equal_trainings: bool = Field(
        default=False,
        description="Clients train equally often under all algorithms: `rounds` counts synchronous rounds, "
        "and an algorithm in whose round clients train more or less often gets fewer or more rounds.",
    )
    regimes: dict[Key, RegimeParams] = Field(min_length=1, description="Regimes by name.")
    datasets: dict[Key, DatasetParams] = Field(min_length=1, description="Data sets by name.")
    algorithms: dict[Key, AlgorithmParams] = Field(
        min_length=1, description="Algorithms by name; each is a row of the paper's tables."
    )

    def __hash__(self) -> int:
        return id(self)  # it holds mappings


class CommonParams(Options):
    """What all runs of all papers share."""

    dtype: Literal["float32", "float64"] = Field(
        default="float32", description="Numbers that models are made of."
    )
    precision: Literal["fp32", "bf16"] = Field(
        default="fp32", description="Arithmetic of forward and backward passes."
    )
    engine: Literal["auto", "autograd", "analytic", "stacked"] = Field(
        default="auto", description="What runs local steps; all agree within floating-point tolerance."
    )
    evaluation: EvaluationParams = Field(
        default=EvaluationParams(),
        description="When and how the model is measured; unset: every round, everything in fp32, no clients.",
    )


class DataParams(Options):
    """Where data files may come from."""

    mirror: str | None = Field(
        default=None,
        description="Folder or URL that holds the upstream files (compressed or not), tried before upstream; "
        "the environment variable FEDCORE_MIRROR where this is null.",
    )


class ScaleParams(Options):
    """What a scale reduces. A key left out keeps the paper's value."""

    seeds: Seeds | None = Field(default=None, description="Seeds of every paper at this scale.")
    one_process: bool = Field(
        default=False,
        description="Train all seeds of a setting and algorithm in one process, which pays where a run takes "
        "seconds; results are the same bytes. Needs `seeds`.",
    )
    common: dict[str, Any] = Field(default={}, description="Keys of `common` with their value at this scale.")
    papers: dict[Key, dict[str, Any]] = Field(
        default={}, description="Keys of `papers.<paper>` with their value at this scale."
    )


class Params(Options):
    """All that defines the results. Cores, devices and clusters are the business of profiles/."""

    primary_paper: Key = Field(description="The paper whose targets are also at the top of reports/.")
    scale: Key = Field(default="demo", description="The scale in use: a key of `scales`.")
    data: DataParams = Field(default=DataParams(), description="Where data files may come from.")
    common: CommonParams = Field(default=CommonParams(), description="What all runs share.")
    papers: dict[Key, PaperParams] = Field(
        min_length=1, description="Papers by name, with the papers' values."
    )
    scales: dict[Key, ScaleParams] = Field(min_length=1, description="Scales by name: what each reduces.")
