"""What any registered algorithm must do: give equal bytes again, resume exactly, count its bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedcore.base.errors import SpecError
from fedcore.base.options import keys_of
from fedcore.base.registry import find, plugins
from fedcore.execution.integrity import CHECKPOINT
from fedcore.execution.runner import Settings, run
from fedcore.spec import parse

NAMES = sorted(plugins("algorithm"))
FILES = ("history.csv", "summary.json")


def specification(base: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a short run of an algorithm with its defaults; one round where it allows no more."""
    learnable = name == "fedavgr"
    model = {"name": "rff_linear", "features": 32, "learnable": True} if learnable else base["model"]
    few = {"redistributions": 3} if "redistributions" in keys_of(find("algorithm", name).options) else {}
    spec = {**base, "algorithm": {"name": name, **few}, "model": model}
    try:
        parse(spec)
    except SpecError:
        spec["training"] = {**spec["training"], "rounds": 1}
    return spec


@pytest.mark.parametrize("name", NAMES)
def test_equal_bytes_again_and_after_an_interruption(name: str, spec: dict[str, Any], tmp_path: Path) -> None:
    spec = specification(spec, name)
    result = run(spec, tmp_path / "whole")
    assert result.summary["status"] == "completed"
    expected = [(tmp_path / "whole" / file).read_bytes() for file in FILES]

    class Stop(Exception):
        pass

    def stop(done: int, total: int, row: Any) -> None:
        if done == min(3, total):
            raise Stop

    with pytest.raises(Stop):
        run(spec, tmp_path / "cut", Settings(checkpoint_seconds=0.0), stop)
    assert (tmp_path / "cut" / CHECKPOINT).exists()
    rounds: list[int] = []
    run(spec, tmp_path / "cut", progress=lambda done, *_: rounds.append(done))
    assert rounds[0] == min(3, spec["training"]["rounds"])
    assert [(tmp_path / "cut" / file).read_bytes() for file in FILES] == expected


@pytest.mark.parametrize("name", NAMES)
def test_learns_from_iid_clients_and_counts_its_traffic(name: str, spec: dict[str, Any]) -> None:
    iid = {**spec, "partition": {"name": "iid", "clients": 5}}
    result = run(specification(iid, name))
    first, last = result.rows[0], result.rows[-1]
    assert last["train_loss"] < first["train_loss"]
    if name != "centralised":
        model = result.summary["parameters"] * 4
        assert result.summary["bytes_up"] >= model
        assert result.summary["bytes_down"] >= model
    assert result.summary["bytes_up"] == sum(row["bytes_up"] for row in result.rows)


def test_every_algorithm_that_the_papers_name_is_there() -> None:
    named = """
    fedavg fedprox scaffold fednova qfedavg fedavgm slowmo fedadagrad fedadam fedyogi prox_adam prox_adagrad
    prox_yogi scaf_adam scaf_adagrad scaf_yogi nova_adam nova_adagrad nova_yogi rfedavg rfedavg_plus oneshot
    fl_hc fedavgr dl_u dl_opt fedomw radfed radfed_p radfed_m radfed_a radfed_i fedasync fedadapt centralised
    moon fedadc mime vrl_sgd feddc
    """.split()  # noqa: SIM905
    assert set(named) <= set(NAMES)
