"""Figure 1: the training loss of mixtures of two models, which start from different draws or from one."""

from __future__ import annotations

from fedcore.base.lazy import pd
from pipeline.catalogue.targets import Query
from pipeline.reports import figures
from pipeline.reports.drawings import Inputs, Picture, drawing, line
from pipeline.reports.results import RunFacts

PANELS = {"own": "different starts", "same": "one start"}
ROWS = {
    "mean": "mean of the two models",
    "parents": "better of the two models",
    "mixture": "mixture theta w + (1 - theta) w'",
}
OBSERVED = ("evaluation.observe.between.points", 57)  # 40 a unit, so that 0, 1/2 and 1 are among them


def losses(facts: RunFacts) -> pd.Series[float] | None:
    """Return the loss by weight theta of the first model; None if the run diverged."""
    if not facts.final:
        return None
    kept = facts.table("between.csv")
    return pd.Series(kept["train_loss"].to_numpy(), index=kept["weight"].round(6))


@drawing(
    title="Loss on all training rows of mixtures of two clients' models",
    published="Figure 1",
    queries=lambda params: {
        ("mixture", panel): Query(
            "averaging",
            "mnist_2nn",
            "iid",
            "oneshot",
            (("algorithm.same_start", panel == "same"), ("participation.cohorts", ((0, 1),)), OBSERVED),
        )
        for panel in PANELS
    },
    rows=lambda params: ROWS,
)
def averaging(inputs: Inputs) -> Picture:
    """Draw the mean loss over seeds by theta, and that of the better parent."""
    lines = []
    figure, panels = figures.panels(PANELS, 2.8, across=2)
    for panel, axes in panels.items():
        runs = [losses(facts) for facts in inputs.cells["mixture", panel]]
        known = [own for own in runs if own is not None]
        missing = [None] * (len(runs) - len(known))
        parents = [min(own[0.0], own[1.0]) for own in known]
        lines.append(line("mean", panel, [*(own[0.5] for own in known), *missing]))
        lines.append(line("parents", panel, [*parents, *missing]))
        axes.set_xlabel("weight theta of the first model")
        if not known:
            axes.text(0.5, 0.5, "diverged", ha="center", transform=axes.transAxes)
            continue
        curve = pd.DataFrame([own.to_list() for own in known], columns=known[0].index)
        for theta, values in zip(known[0].index.to_list(), curve.T.to_numpy(), strict=True):
            lines.append(line("mixture", panel, [*values, *missing], weight=theta, round=round(100 * theta)))
        axes.plot(curve.columns, curve.mean(), color="#0072B2")
        axes.axhline(sum(parents) / len(parents), color="0.4", linewidth=0.8, linestyle="--")
    panels["own"].set_ylabel("training loss")
    sentences = (
        "Left and right have axes of their own; dashed: the better of the two models, at theta 0 and 1.",
        "In the numbers a mixture's round is its weight in per cent.",
    )
    return Picture(pd.DataFrame(lines), figure, sentences)
