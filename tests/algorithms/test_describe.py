"""Lists, descriptions and ComFed's tables come from the recipes themselves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from typer.testing import CliRunner
from wording import one_line

from fedcore.algorithms import example
from fedcore.base.errors import SpecError
from fedcore.base.lazy import Tensor
from fedcore.base.options import keys_of
from fedcore.base.registry import PACKAGES, plugins
from fedcore.cli.describe import KINDS, changes, description, listing
from fedcore.cli.main import app
from fedcore.engines import Upload
from fedcore.execution.runner import Settings, prepare
from fedcore.execution.simulation import simulate
from fedcore.parts import Part, Plan, Run, State
from fedcore.spec import parse
from pipeline.papers.comfed.taxonomy import choices, combinations, reductions

TABLE_1 = {
    "FedAvg": ("log loss", "SGD", "averaging", "pseudo-SGD with learning rate 1"),
    "Moon": ("contrastive loss", "-", "-", "-"),
    "FedProx": ("regularized loss", "-", "-", "-"),
    "FedADC": ("-", "SGDm", "-", "server momentum"),
    "Mime": ("-", "corrected SGD", "-", "-"),
    "VRL-SGD": ("-", "corrected SGD", "-", "-"),
    "Scaffold": ("-", "corrected SGD", "-", "-"),
    "FedDC": ("regularized loss", "corrected SGD", "-", "-"),
    "FedNova": ("-", "-", "normalized averaging", "-"),
    "qFFL": ("-", "-", "exponentially averaging", "-"),
    "SlowMo": ("-", "-", "-", "server momentum"),
    "FedAvgM": ("-", "-", "-", "server momentum"),
    "FedAdam": ("-", "-", "-", "server momentum, adaptive learning rate"),
    "FedAdagrad": ("-", "-", "-", "server momentum, adaptive learning rate"),
    "FedYogi": ("-", "-", "-", "server momentum, adaptive learning rate"),
}
TABLE_2 = (
    ("Sgd", "log loss", "SGD", "averaging"),
    ("Prox", "regularized loss", "SGD", "averaging"),
    ("Scaf", "log loss", "corrected SGD", "averaging"),
    ("Nova", "log loss", "SGD", "normalized averaging"),
)
TABLE_3 = (
    ("Sgd", "FedAvg", "FedAdam", "FedAdagrad", "FedYogi"),
    ("Prox", "FedProx", "ProxAdam", "ProxAdagrad", "ProxYogi"),
    ("Scaf", "Scaffold", "ScafAdam", "ScafAdagrad", "ScafYogi"),
    ("Nova", "FedNova", "NovaAdam", "NovaAdagrad", "NovaYogi"),
)
ALGORITHMS = sorted(plugins("algorithm"))


def test_comfeds_tables() -> None:
    assert choices() == TABLE_1
    assert tuple((title, *words) for title, words in reductions().items()) == TABLE_2
    assert tuple((client, *words) for client, words in combinations().items()) == TABLE_3


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_description_names_every_part_and_key(name: str) -> None:
    text = description(name)
    plugin = plugins("algorithm")[name]
    assert all(part.label in text for part in example(name).parts())
    assert all(f"  {key} " in text for key in keys_of(plugin.options))
    assert plugin.source in text
    assert ("variant: released" in text) == bool(plugin.released)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_released_changes_is_declared(name: str) -> None:
    differs = list(changes(example(name), example(name, variant="released")))
    assert bool(differs) == bool(plugins("algorithm")[name].released)


def test_lists_hold_every_name() -> None:
    for title, kind in KINDS.items():
        text = listing(title)
        assert all(name in text for name in plugins(kind))


@dataclass(frozen=True)
class Listener(Part):
    """Notes what the messages of a round count, in numbers."""

    heard: dict[tuple[str, str], int] = field(default_factory=dict)

    def after(self, run: Run, state: State, plan: Plan, uploads: list[Upload], before: Tensor) -> None:
        for message in run.recipe.messages():
            self.heard[message.way, message.name] = message.size(run, state)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_message_has_a_name_and_numbers(name: str, spec: dict[str, Any]) -> None:
    """What a description names is what the traffic counts."""
    spec |= {"algorithm": {"name": name}}
    spec["training"] |= {"rounds": 1}
    spec["partition"] = {"name": "given", "validation": 0.2}
    run, _, _ = prepare(parse(spec), Settings(device="cpu"))
    listener = Listener()
    run = replace(run, recipe=replace(run.recipe, observers=(listener,)))
    state = State(round=0, models=run.problem.start.clone().unsqueeze(0))
    for _ in simulate(run, state):
        pass
    text = description(name)
    assert len(listener.heard) == len(run.recipe.messages())
    for (way, words), numbers in listener.heard.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {way}:"))
        assert words in line
        assert numbers > 0


@pytest.mark.parametrize(
    ("algorithm", "down", "up"),
    [
        ({"name": "fedavg"}, [], []),
        ({"name": "rfedavg"}, ["mean features delta_j of all N clients"], ["mean feature delta_k"]),
        (
            {"name": "rfedavg", "deltas_of": "cohort"},
            ["mean features delta_j of the round's clients"],
            ["mean feature delta_k"],
        ),
        (
            {"name": "rfedavg_plus"},
            ["the others' mean feature", "the new model, for the second synchronisation"],
            ["mean feature delta_k"],
        ),
        ({"name": "fedavgr"}, ["densities of all clients and their weights"], ["density parameters"]),
        ({"name": "fedavgr", "density": "mean"}, ["mean feature of all clients"], ["mean feature"]),
    ],
)
def test_what_travels_besides_models_in_words(
    algorithm: dict[str, Any], down: list[str], up: list[str], spec: dict[str, Any]
) -> None:
    messages = parse({**spec, "algorithm": algorithm}).recipe.messages()
    assert [message.name for message in messages if message.way == "down"] == down
    assert [message.name for message in messages if message.way == "up"] == up


def test_on_the_command_line() -> None:
    runner = CliRunner()
    assert "scaf_yogi" in runner.invoke(app, ["list", "algorithms"]).output
    everything = runner.invoke(app, ["list"]).output
    assert all(title.capitalize() in everything for title in KINDS)
    assert "control variate" in runner.invoke(app, ["describe", "scaffold"]).output
    text = runner.invoke(app, ["describe", "fedasync"]).output
    assert "`alpha`: share of a fresh update" in text
    assert not any("``" in description(name) for kind in PACKAGES for name in plugins(kind))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "algorithm"], "did you mean 'algorithms'?"),
        (["describe", "scafold"], "did you mean 'scaffold'?"),
        (["describe"], "expected a name"),
    ],
)
def test_wrong_names_are_one_line(arguments: list[str], message: str) -> None:
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, SpecError)
    assert message in str(error)
    one_line(error)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS.values() for name in sorted(plugins(kind))]
)
def test_everything_with_a_name_has_a_description(kind: str, name: str) -> None:
    text = description(name)
    assert f"{name} ({kind})" in text
    assert all(f"  {key} " in text for key in keys_of(plugins(kind)[name].options))
