"""Tables of words: every form holds every word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pandas as pd
import pytest
from project import parameters

from pipeline.catalogue import Catalogue
from pipeline.catalogue.targets import Column
from pipeline.papers import build_catalogue
from pipeline.reports.listings import Listing

FORMS = ("csv", "md", "html", "tex", "standalone")
ODD = "50% & <b>_x_</b>"
WORDS = MappingProxyType({"a": "plain", "b": ODD})


def catalogue(listing: Listing, scale: str = "demo") -> Catalogue:
    """Return a catalogue in which ComFed's Table I is the given listing."""
    comfed = build_catalogue(parameters("comfed") | {"primary_paper": "comfed", "scale": scale})
    paper = comfed.papers["comfed"]
    comfed.papers = {"comfed": replace(paper, targets={**paper.targets, "table1": listing})}
    return comfed


def listing(words: Mapping[str, str] = WORDS, scaled: bool = True) -> Listing:
    return Listing(
        title="What is said",
        published="Table I",
        columns=lambda params: (Column("a", "First"), Column("b", "Second")),
        rows=lambda params: {"fedavg": "FedAvg"},
        word=lambda params, row, column: words[column],
        heading="Algorithm",
        note="A note.",
        scaled=scaled,
    )


def built(listing: Listing, folder: Path) -> dict[str, str]:
    outputs = {form: folder / f"table1.{form}" for form in FORMS}
    catalogue(listing).sources("comfed", "table1").build(outputs)
    return {form: path.read_text() for form, path in outputs.items()}


def test_every_form_holds_every_word_and_none_is_markup(tmp_path: Path) -> None:
    texts = built(listing(), tmp_path)
    frame = pd.read_csv(tmp_path / "table1.csv").set_index(["row", "column"])
    assert frame["value"].to_dict() == {("fedavg", "a"): "plain", ("fedavg", "b"): ODD}
    assert all("plain" in text and "A note." in text for form, text in texts.items() if form != "csv")
    assert "<b>" not in texts["html"]
    assert r"50\% \&" in texts["tex"]
    assert r"\begin{document}" in texts["standalone"]
    assert r"\begin{document}" not in texts["tex"]


@pytest.mark.parametrize("scaled", [True, False])
def test_only_words_that_change_with_the_scale_are_watermarked(tmp_path: Path, scaled: bool) -> None:
    text = built(listing(scaled=scaled), tmp_path)["md"]
    assert ("Demo scale: not a reproduction" in text) == scaled
    assert ("Scale: demo" in text) == scaled
