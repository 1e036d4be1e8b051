"""Sent140: sentiment of short messages, by user. The demo is a declared generator of word sequences."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from fedcore.data import Dataset, Source
from fedcore.datasets import sent140_demo
from fedcore.declaration import Declaration, Edition
from fedcore.options import Options
from fedcore.registry import Plugin

DECLARATION = Declaration(
    name="sent140",
    title="Sent140 message sentiment",
    papers=("rfedavg",),
    citation="Go, Bhayani, Huang: Twitter sentiment classification using distant supervision, 2009",
    licence="research use; the messages are under Twitter's terms",
    redistributable=False,
    shape="[25] word indices",
    classes=2,
    upstream="http://help.sentiment140.com/for-students",
    editions={
        "demo": Edition("synthetic", "synthetic two-topic word sequences in place of Sent140"),
    },
)


class Sent140Options(Options):
    """``length``: tokens a message. The rest is for the demo: ``messages`` is the mean of a user."""

    edition: Literal["full", "demo"] = "full"
    length: PositiveInt = 25
    users: Annotated[int, Field(ge=5)] = 200
    messages: Annotated[int, Field(ge=2)] = 12
    seed: Annotated[int, Field(ge=0)] = 0


def build(options: Sent140Options, source: Source) -> Dataset:
    """Load the messages as word indices: x int64 [n, length], labels 0 (negative) and 1 (positive).

    Train and test users are disjoint.

    Raises:
        DataError: files are missing or damaged.
    """
    edition = DECLARATION.edition(options.edition)
    made = sent140_demo.generate(options.users, options.messages, options.length, options.seed)
    return Dataset(
        "sent140",
        made.train,
        made.test,
        2,
        edition.state,
        edition.note,
        group_names=made.users,
        vocabulary=sent140_demo.VOCABULARY,
        embeddings=made.embeddings,
    )


PLUGIN = Plugin(
    "sent140", Sent140Options, build, "sentiment of short messages by user, 2 classes", "Go et al. 2009"
)
