"""What a run measures, also sent to TensorBoard, Weights & Biases or MLflow, which changes nothing in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from fedcore.base.errors import SpecError, reason, say, shown
from fedcore.base.lazy import optional
from fedcore.base.options import suggestion
from fedcore.execution.result import flat

Send = Callable[[Mapping[str, float]], None]


@contextmanager
def tracking(targets: Sequence[str], name: str, values: Mapping[str, Any]) -> Iterator[Send]:
    """Yield a function to call with each row of a run's history.

    The first row opens the targets (``tensorboard:DIR``, ``wandb:PROJECT``, ``mlflow:DIR``, or the names
    alone), so that a run that is refused is not seen there. A target that fails later gets no more rows, and
    standard error says so. There the run has this name, and the specification's ``values``. Raises SpecError:
    there is no such target, or, from the function, it can't be opened; and MissingPackage: its package is not
    installed.
    """
    openers = {target: _opener(target) for target in ([targets] if isinstance(targets, str) else targets)}
    opened: dict[str, Send] = {}
    with ExitStack() as stack:

        def send(row: Mapping[str, float]) -> None:
            for target, opener in [*openers.items()]:
                try:
                    if target not in opened:
                        opened[target] = opener(stack, name, dict(flat(values)))
                    opened[target](row)
                except Exception as error:
                    if target not in opened:
                        raise SpecError(f"track: {target}: {reason(error)}") from None
                    del openers[target]
                    say(f"track: {target}: {reason(error)}; it gets no more of this run", error=True)

        yield send


def _opener(target: str) -> Callable[[ExitStack, str, dict[str, Any]], Send]:
    kind, _, place = target.partition(":")
    if kind not in TARGETS:
        raise SpecError(f"track: got {shown(target)}, expected a name before ':'{suggestion(kind, TARGETS)}")
    return partial(TARGETS[kind], optional(kind, f"track: {target}", "install fedrepro[track]"), place)


def _tensorboard(package: Any, place: str, stack: ExitStack, name: str, values: dict[str, Any]) -> Send:
    board = import_module("torch.utils.tensorboard").SummaryWriter(str(Path(place or "runs", name)))
    writer = stack.enter_context(board)
    writer.add_text("specification", "  \n".join(f"{key}: {value}" for key, value in values.items()))

    def send(row: Mapping[str, float]) -> None:
        for key, value in row.items():
            writer.add_scalar(key, value, int(row["round"]))
        writer.flush()

    return send


def _wandb(package: Any, place: str, stack: ExitStack, name: str, values: dict[str, Any]) -> Send:
    settings = package.Settings(console="off", silent=True)
    session = package.init(project=place or "fedcore", name=name, config=values, settings=settings)
    run = stack.enter_context(session)
    return lambda row: run.log(dict(row), step=int(row["round"]))


def _mlflow(package: Any, place: str, stack: ExitStack, name: str, values: dict[str, Any]) -> Send:
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        package.set_tracking_uri(f"sqlite:///{Path(place).absolute()}/mlflow.db")
    package.set_experiment("fedcore")
    stack.enter_context(package.start_run(run_name=name, nested=True))
    package.log_params(values)
    return lambda row: package.log_metrics(dict(row), step=int(row["round"]))


TARGETS: Mapping[str, Callable[..., Send]] = {"tensorboard": _tensorboard, "wandb": _wandb, "mlflow": _mlflow}
