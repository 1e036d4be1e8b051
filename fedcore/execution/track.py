"""What a run measures, also sent to TensorBoard, Weights & Biases or MLflow, which changes nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedcore.base.errors import SpecError, reason, say, shown
from fedcore.base.lazy import optional
from fedcore.base.options import suggestion
from fedcore.execution.notebook import flat

Row = Mapping[str, float]
Send = Callable[[Row], None]
Opened = AbstractContextManager[Send]


@contextmanager
def tracking(targets: Sequence[str], name: str, values: Mapping[str, Any]) -> Iterator[Send]:
    """Yield a function to call with each row of a run's history.

    The first row opens the targets, so that a run that is refused is not seen. One that fails later gets no
    more rows, and standard error says so.

    Args:
        targets: such as ``tensorboard:DIR``, ``wandb:PROJECT`` or ``mlflow:DIR``; all may go without place.
        name: what the run is called there.
        values: its specification.

    Raises:
        SpecError: there is no such target, or, from the function, it can't be opened.
        MissingPackage: its package is not installed.
    """
    makers = {target: _maker(target) for target in targets}
    opened: dict[str, Send] = {}
    with ExitStack() as stack:

        def send(row: Row) -> None:
            while makers:
                target, make = makers.popitem()
                try:
                    opened[target] = stack.enter_context(make(name, values))
                except Exception as error:
                    raise SpecError(f"track: {target}: {reason(error)}") from None
            for target, told in [*opened.items()]:
                try:
                    told(row)
                except Exception as error:
                    del opened[target]
                    say(f"track: {target}: {reason(error)}; it gets no more of this run", error=True)

        yield send


def _maker(target: str) -> Callable[[str, Mapping[str, Any]], Opened]:
    kind, _, place = target.partition(":")
    if kind not in TARGETS:
        raise SpecError(f"track: got {shown(target)}, expected a name before ':'{suggestion(kind, TARGETS)}")
    package = optional(kind, f"track: {target}", "install fedrepro[track]")
    return lambda name, values: TARGETS[kind](package, place, name, values)


@contextmanager
def _tensorboard(package: Any, place: str, name: str, values: Mapping[str, Any]) -> Iterator[Send]:
    made = import_module("torch.utils.tensorboard").SummaryWriter(str(Path(place or "runs", name)))
    with made as writer:
        writer.add_text("specification", "  \n".join(f"{key}: {value}" for key, value in flat(values)))

        def send(row: Row) -> None:
            for key, value in row.items():
                writer.add_scalar(key, value, int(row["round"]))
            writer.flush()

        yield send


@contextmanager
def _wandb(package: Any, place: str, name: str, values: Mapping[str, Any]) -> Iterator[Send]:
    settings = package.Settings(console="off", silent=True)
    with package.init(project=place or "fedcore", name=name, config=dict(values), settings=settings) as run:
        yield lambda row: run.log(dict(row), step=int(row["round"]))


@contextmanager
def _mlflow(package: Any, place: str, name: str, values: Mapping[str, Any]) -> Iterator[Send]:
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        package.set_tracking_uri(f"sqlite:///{Path(place).absolute()}/mlflow.db")
    package.set_experiment("fedcore")
    with package.start_run(run_name=name, nested=True):
        package.log_params(dict(flat(values)))
        yield lambda row: package.log_metrics(dict(row), step=int(row["round"]))


TARGETS: Mapping[str, Callable[[Any, str, str, Mapping[str, Any]], Opened]] = MappingProxyType(
    {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}
)
