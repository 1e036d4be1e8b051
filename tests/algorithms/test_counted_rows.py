"""The rows that a run says it worked on are those that went through its model, counted one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from fedcore.base.errors import SpecError
from fedcore.base.options import keys_of
from fedcore.base.registry import find, plugins
from fedcore.engines import train
from fedcore.engines.autograd import Autograd
from fedcore.engines.sample_gradients import squared_norms as norms
from fedcore.execution import simulation
from fedcore.execution.metrics import measure
from fedcore.execution.runner import Settings, prepare, run
from fedcore.parts import select
from fedcore.spec import parse

MODELS = {"fedavgr": {"name": "rff_linear", "features": 32, "learnable": True}}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("mime", {"lite": True}),
    ("scaffold", {"option": 2}),
    ("radfed_i", {"score": "batch", "scored_start": True}),
    ("fedomw", {"steps_p": 0}),
    ("moon", {"mu": 0.0}),
    ("centralised", {"equal_steps": True}),
    ("rfedavg", {"variant": "released"}),
    ("rfedavg_plus", {"variant": "released"}),
]
CASES = [*((name, {}) for name in sorted(plugins("algorithm"))), *VARIANTS]


class Counter:
    """Counts rows that pass a model: within a gradient, or alone; nothing while it is off."""

    def __init__(self) -> None:
        self.gradient, self.forward, self.within, self.off = 0, 0, False, False

    @contextmanager
    def switched(self, name: str) -> Iterator[None]:
        before = getattr(self, name)
        setattr(self, name, True)
        yield
        setattr(self, name, before)

    def add(self, rows: int) -> None:
        if not self.off:
            self.gradient += rows * self.within
            self.forward += rows * (not self.within)


def specification(base: dict[str, Any], name: str, options: dict[str, Any]) -> dict[str, Any]:
    keys = keys_of(find("algorithm", name).options)
    few = {"redistributions": 3} if "redistributions" in keys else {}
    hyper = {key: value for key, value in options.items() if key != "variant"}
    spec = {
        **base,
        "algorithm": {"name": name, **few, **hyper},
        "model": MODELS.get(name, base["model"]),
        "training": {"rounds": 4, "local_steps": 5, "batch_size": 16, "lr": 0.05},
        "evaluation": {"count_rows": True},
        "engine": "autograd",
        **({"variant": options["variant"]} if "variant" in options else {}),
    }
    try:
        parse(spec)
    except SpecError:
        spec["training"]["rounds"] = 1
    return spec


@pytest.mark.parametrize(("name", "options"), CASES)
def test_counts_are_those_of_rows_that_pass_the_model(
    name: str, options: dict[str, Any], spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = parse(specification(spec, name, options))
    counter, prepared = Counter(), prepare(parsed, Settings())[0]
    model, bind = type(prepared.problem.model), Autograd.bind
    features = model.features

    def counted(self: Any, p: Any, x: Any) -> Any:
        probe = len(x) == 1 and not counter.within  # what is asked for the width of features alone
        counter.add(0 if probe else len(x))
        return features(self, p, x)

    def bound(self: Any, w: Any, out: Any, terms: Any) -> Any:
        gradient = bind(self, w, out, ())
        with_terms = bind(self, w, out, terms)

        def called(x: Any, *rest: Any) -> None:
            with counter.switched("within"):
                gradient(x, *rest)
            before = counter.forward
            with_terms(x, *rest)
            counter.forward = before + max(0, counter.forward - before - len(x))

        return called if terms else _within(gradient)

    def _within(gradient: Any) -> Any:
        def called(*given: Any) -> None:
            with counter.switched("within"):
                gradient(*given)

        return called

    def measured(*given: Any, **named: Any) -> Any:
        with counter.switched("off"):
            return measure(*given, **named)

    def scored(problem: Any, w: Any, block: Any) -> Any:
        with counter.switched("within"):
            counter.add(len(block))
        with counter.switched("off"):
            return norms(problem, w, block)

    monkeypatch.setattr(model, "features", counted)
    monkeypatch.setattr(Autograd, "bind", bound)
    monkeypatch.setattr(simulation, "measure", measured)
    monkeypatch.setattr(select, "squared_norms", scored)
    summary = run(parsed).summary
    assert summary["status"] == "completed"
    assert (summary["rows_gradient"], summary["rows_forward"]) == (counter.gradient, counter.forward)
    assert counter.gradient > 0


def test_nothing_is_counted_unless_it_is_asked_for(spec: dict[str, Any]) -> None:
    assert not {"rows_gradient", "rows_forward"} & set(run(spec).summary)


def test_counts_survive_an_interruption(spec: dict[str, Any], tmp_path: Any) -> None:
    counted = {**spec, "algorithm": {"name": "mime"}, "evaluation": {"count_rows": True}}
    summary = run(counted).summary

    class Stop(Exception):
        pass

    def stop(done: int, *rest: Any) -> None:
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        run(counted, tmp_path, Settings(checkpoint_seconds=0.0), stop)
    rounds: list[int] = []
    again = run(counted, tmp_path, progress=lambda done, *_: rounds.append(done)).summary
    assert rounds[0] == 3
    assert {key: again[key] for key in summary} == summary


@pytest.mark.parametrize("size", [1, 7, 16, 50, "full"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 4, 9])
def test_rows_of_steps_are_those_of_the_batches(size: Any, drop_last: bool, steps: int) -> None:
    n, drawn = 30, train.batch_rows(30, size, drop_last, np.random.default_rng(0))
    sizes = [n if rows is None else len(rows) for rows, _ in zip(drawn, range(steps), strict=False)]
    assert train.rows_of_steps(n, size, drop_last, steps) == sum(sizes)


def test_centralised_training_takes_the_steps_of_the_cohort(spec: dict[str, Any]) -> None:
    training = {"rounds": 3, "local_steps": 4, "batch_size": 8, "lr": 0.05}
    counted = {**spec, "training": training, "evaluation": {"count_rows": True}}
    federated = run(counted).summary["rows_gradient"]
    pooled = {**counted, "algorithm": {"name": "centralised", "equal_steps": True}}
    assert run(pooled).summary["rows_gradient"] == federated == 3 * 3 * 4 * 8
    plain = {**counted, "algorithm": {"name": "centralised"}}
    assert run(plain).summary["rows_gradient"] == 3 * 4 * 8
