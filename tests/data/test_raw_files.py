"""Data sets from small files in their raw formats, brought from a mirror and checked as real ones are."""

from __future__ import annotations

import csv
import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from test_datasets import groups, load
from wording import one_line

from fedcore.base.errors import DataError, MissingPackage
from fedcore.data import Source
from fedcore.data.datasets import eicu, femnist, glove, mobilenetv2, sent140, shakespeare
from fedcore.data.download import File, Form

Handed = Callable[[ModuleType, str, Mapping[str, bytes]], Source]


@pytest.fixture
def handed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Handed:
    """Return what puts files of an edition into a mirror and declares their checksums in place of its own."""

    def hand(module: ModuleType, edition: str, contents: Mapping[str, bytes]) -> Source:
        declaration = module.DECLARATION
        original = declaration.editions[edition]
        paths = [file.path for file in original.files] if module is not femnist else [*contents]
        files = []
        for path, (ending, content) in zip(paths, contents.items(), strict=True):
            assert path.endswith(ending)
            place = tmp_path / "mirror" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            files.append(File(path, sha256(content).hexdigest(), len(content), forms=(Form(place.name),)))
        editions = declaration.editions | {edition: replace(original, files=tuple(files))}
        monkeypatch.setattr(module, "DECLARATION", replace(declaration, editions=editions))
        return Source(tmp_path / "data", str(tmp_path / "mirror"), offline=True)

    return hand


def leaf(users: Mapping[str, tuple[Sequence[Any], Sequence[Any]]]) -> bytes:
    """Return LEAF's json of users, each with x and y."""
    user_data = {user: {"x": list(x), "y": list(y)} for user, (x, y) in users.items()}
    counts = [len(rows["y"]) for rows in user_data.values()]
    return json.dumps({"users": list(users), "num_samples": counts, "user_data": user_data}).encode()


def parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pd.DataFrame(columns).to_parquet(out)
    return out.getvalue()


def table(**columns: Any) -> bytes:
    return pd.DataFrame(columns).to_csv(index=False).encode()


# -- GloVe -------------------------------------------------------------------------------------------------

WORDS = ("the", ",", "caf\u00e9", "\u0085", "n't")
NUMBERS = np.arange(len(WORDS) * glove.WIDTH).reshape(-1, glove.WIDTH) / 8 - 3


def vectors(words: Sequence[str] = WORDS, numbers: Any = NUMBERS) -> bytes:
    lines = (
        " ".join([word, *(f"{value:g}" for value in row)]) for word, row in zip(words, numbers, strict=True)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def test_words_and_their_vectors_keep_their_order(handed: Handed) -> None:
    source = handed(glove, "top40000", {"top40000.txt": vectors()})
    for _ in ("from the text", "from what was kept of it"):
        words, numbers = glove.vectors("top40000", source)
        assert tuple(words) == WORDS
        assert (str(numbers.dtype), numbers.shape) == ("float32", (5, 50))
        np.testing.assert_array_equal(numbers, NUMBERS)
    assert len(list((source.root / "fetched" / "derived").glob("glove-top40000-1-*.npz"))) == 1
    assert glove.counts("top40000", source) == {"words": 5}


@pytest.mark.parametrize(
    "content",
    [
        vectors() + b"short 1 2 3\n",
        vectors(numbers=NUMBERS[:, 1:]),
        vectors().replace(b" -3 ", b" three "),
        vectors().replace(b" -3 ", b" nan "),
        vectors() + b"\n",
        vectors().replace("\u00e9".encode(), b"\xe9"),
        b"",
    ],
    ids=["a short line", "49 numbers", "a word", "nan", "a blank line", "another encoding", "nothing"],
)
def test_word_vectors_of_another_shape_are_refused_in_one_line(handed: Handed, content: bytes) -> None:
    source = handed(glove, "top40000", {"top40000.txt": content})
    with pytest.raises(DataError, match=r"top40000\.txt: expected a word and 50 numbers a line") as error:
        glove.vectors("top40000", source)
    one_line(error.value)


# -- MobileNetV2 -------------------------------------------------------------------------------------------

WEIGHTS = {"features.0.0.weight": np.arange(6.0).reshape(2, 3), "classifier.1.bias": np.full(4, 0.5)}


def saved(edition: str, weights: Any) -> bytes:
    out = io.BytesIO()
    if edition == "tflite":
        np.savez(out, **weights)
    else:
        torch.save(weights, out)
    return out.getvalue()


@pytest.mark.parametrize(("edition", "name"), [("full", "b0353104.pth"), ("tflite", "ptq.npz")])
def test_weights_have_torchvision_s_names_in_either_form(handed: Handed, edition: str, name: str) -> None:
    weights = {key: np.asarray(value, np.float32) for key, value in WEIGHTS.items()}
    stored: Any = weights
    if edition == "full":
        stored = {key: torch.from_numpy(value) for key, value in weights.items()}
    source = handed(mobilenetv2, edition, {name: saved(edition, stored)})
    loaded = mobilenetv2.weights(edition, source)
    assert list(loaded) == list(WEIGHTS)
    for key, value in weights.items():
        assert loaded[key].dtype == np.float32
        np.testing.assert_array_equal(loaded[key], value)
    assert mobilenetv2.counts(edition, source) == {"arrays": 2, "numbers": 10}


def test_a_file_that_is_no_state_dict_is_refused_in_one_line(handed: Handed) -> None:
    for content in (b"<html>please log in</html>", saved("full", [1, 2]), saved("full", {"a": Path("b")})):
        source = handed(mobilenetv2, "full", {"b0353104.pth": content})
        with pytest.raises(DataError, match=r"b0353104\.pth: not a torch state_dict \(\w+\)") as error:
            mobilenetv2.weights("full", source)
        one_line(error.value)


# -- FEMNIST -----------------------------------------------------------------------------------------------


def image(shade: float) -> list[float]:
    """Return an image as LEAF writes it, white but for its first pixel."""
    return [shade] + [1.0] * 783


TRAIN = {"f0002_05": ([image(0.2), image(0.4)], [61, 3]), "f0001_41": ([image(0.0)], [0])}
TEST = {"f0003_10": ([image(0.6)], [7]), "f0001_41": ([image(0.8)], [10])}


def in_leaf_s_folder(
    root: Path, train: Mapping[str, Any] = TRAIN, test: Mapping[str, Any] = TEST
) -> tuple[Source, Path]:
    folder = root / "fetched" / "femnist" / "leaf"
    for use, users in (("train", train), ("test", test)):
        (folder / use).mkdir(parents=True, exist_ok=True)
        (folder / use / "all_data_0.json").write_bytes(leaf(users))
    return Source(root, offline=True), folder


@pytest.mark.parametrize("edition", ["full", "sample"])
def test_writers_with_training_rows_come_first(handed: Handed, tmp_path: Path, edition: str) -> None:
    source, _ = in_leaf_s_folder(tmp_path)
    if edition == "sample":
        source = handed(
            femnist,
            edition,
            {"femnist/train/a_train.json": leaf(TRAIN), "femnist/test/a_test.json": leaf(TEST)},
        )
    data = load("femnist", source, edition=edition, scaling="raw")
    assert data.group_names == ("f0001_41", "f0002_05")
    assert (data.train.y.tolist(), groups(data.train).tolist()) == ([0, 61, 3], [0, 1, 1])
    assert data.train.x.shape == (3, 1, 28, 28)
    assert data.train.x[:, 0, 0, 0].tolist() == [0, 51, 102], "shares of 255"
    assert (data.train.x[:, 0, 1:] == 255).all()
    assert (data.test.y.tolist(), groups(data.test).tolist()) == ([10], [0])
    all_writers = load("femnist", source, edition=edition, scaling="raw", unseen_writers=True)
    assert all_writers.group_names == ("f0001_41", "f0002_05", "f0003_10")
    assert (all_writers.test.y.tolist(), groups(all_writers.test).tolist()) == ([10, 7], [0, 2])
    assert femnist.counts(edition, source) == {"train": 3, "test": 2, "train_writers": 2, "test_writers": 2}


def test_a_file_that_moves_from_training_to_test_is_read_as_such(tmp_path: Path) -> None:
    source, folder = in_leaf_s_folder(tmp_path)
    (folder / "test" / "all_data_0.json").rename(folder / "test" / "all_data_2.json")
    (folder / "train" / "all_data_1.json").write_bytes(leaf({"f0001_41": ([image(1.0)], [9])}))
    assert load("femnist", source, edition="full").train.y.tolist() == [0, 9, 61, 3]
    (folder / "train" / "all_data_1.json").rename(folder / "test" / "all_data_1.json")
    data = load("femnist", source, edition="full")
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([0, 61, 3], [9, 10])


def test_without_leaf_s_files_the_message_says_how_to_get_them(tmp_path: Path) -> None:
    source, folder = in_leaf_s_folder(tmp_path)
    (folder / "test" / "all_data_0.json").unlink()
    with pytest.raises(DataError, match="no train and test json files") as error:
        load("femnist", source, edition="full")
    assert one_line(error.value).startswith(f"{folder}: ")
    assert one_line(error.value).endswith(femnist.DECLARATION.edition("full").how)


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"a": ([image(0.5)[1:]], [1])}, "an image does not have 784 numbers"),
        ({"a": ([image(0.5), [0.5] * 3], [1, 1])}, "an image does not have 784 numbers"),
        ({"a": ([image(0.5) * 2], [1])}, "an image does not have 784 numbers"),
        ({"a": ([["dark"] * 784], [1])}, "an image does not have 784 numbers"),
        ({"a": ([image(1.5)], [1])}, r"pixels outside \[0, 1\]"),
        ({"a": ([image(-0.1)], [1])}, r"pixels outside \[0, 1\]"),
        ({"a": ([image(float("nan"))], [1])}, r"pixels outside \[0, 1\]"),
        ({"a": ([image(0.5)], [62])}, "labels must be integers from 0 to 61"),
        ({"a": ([image(0.5)], [-1])}, "labels must be integers from 0 to 61"),
        ({"a": ([image(0.5)], [0.5])}, "labels must be integers from 0 to 61"),
        ({"a": ([image(0.5)], ["A"])}, "labels must be integers from 0 to 61"),
    ],
)
def test_wrong_images_and_labels_are_named_by_their_folder(
    tmp_path: Path, users: dict[str, Any], message: str
) -> None:
    source, folder = in_leaf_s_folder(tmp_path, train=users)
    with pytest.raises(DataError, match=message) as error:
        femnist.pixels("full", source)
    assert one_line(error.value).startswith(f"{folder / 'train'}: ")


# -- Shakespeare -------------------------------------------------------------------------------------------

SAID = "To be, or not to be: that is the question. "
MOBY = (
    "\tHAMLET\n\n\tDRAMATIS PERSONAE\n\nHAMLET\ta prince.\n\nACT I\n\nSCENE I\tA room.\n\n"
    "HAMLET\tWords, [Aside]\n\twords.\n\nTOM\tAy.\n"
)


def packed(roles: Mapping[str, str]) -> bytes:
    """Return LEAF's folder of texts, one per role, as a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for role, text in roles.items():
            info = tarfile.TarInfo(f"by_play_and_character/{role}.txt")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


@contextmanager
def archive(path: Path) -> Iterator[dict[str, Any]]:
    """Stand in for h5py.File, which isn't installed everywhere: groups and bytes from json."""
    roles = json.loads(path.read_text())
    yield {"examples": {role: {"snippets": [text.encode() for text in talk]} for role, talk in roles.items()}}


def spoken(symbols: Any) -> str:
    return "".join(shakespeare.ALPHABET[code] for code in symbols)


def test_leaf_s_texts_become_windows_of_the_roles_that_say_enough(handed: Handed) -> None:
    roles = {"HAMLET_TOM": SAID * 3, "HAMLET_ANN": "Ay.", "HAMLET_BOB": "No   more\r\n" * 11}
    source = handed(shakespeare, "full", {"by_play_and_character.tar": packed(roles)})
    assert shakespeare.counts("full", source) == {"roles": 3}
    data = load("shakespeare", source, edition="full", test_share=0.1)
    assert data.group_names == ("HAMLET_BOB", "HAMLET_TOM")
    assert spoken(data.train.x[0]) == ("No more " * 10)[:80]
    assert "2 speaking roles" in data.note


def test_a_role_that_says_too_little_is_said(handed: Handed) -> None:
    source = handed(shakespeare, "full", {"by_play_and_character.tar": packed({"HAMLET_ANN": "Ay."})})
    with pytest.raises(DataError, match="shakespeare: no role says more than 80 characters") as error:
        load("shakespeare", source, edition="full")
    one_line(error.value)


def test_the_moby_text_s_roles_and_plays_are_counted(handed: Handed) -> None:
    plays = {"comedies": "TWELFTH NIGHT", "histories": "KING JOHN", "tragedies": "HAMLET"}
    contents = {f"moby-{kind}.txt": MOBY.replace("HAMLET", play, 1).encode() for kind, play in plays.items()}
    source = handed(shakespeare, "moby", contents)
    assert shakespeare.counts("moby", source) == {"roles": 6, "plays": 3}
    assert spoken(shakespeare.texts("moby", source)["HAMLET: HAMLET"]) == "Words, words."


def test_tensorflow_federated_s_two_parts_of_a_role_are_joined(
    handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = {"PLAY_TOM": ["First", "second"], "PLAY_ANN": ["Ay"]}
    test = {"PLAY_TOM": ["third"], "PLAY_BOB": ["No"]}
    contents = {"_train.h5": json.dumps(train).encode(), "_test.h5": json.dumps(test).encode()}
    source = handed(shakespeare, "tff", contents)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingPackage, match=r"_train\.h5: needs the package h5py") as error:
        shakespeare.texts("tff", source)
    one_line(error.value)
    monkeypatch.setitem(sys.modules, "h5py", SimpleNamespace(File=archive))
    texts = {role: spoken(text) for role, text in shakespeare.texts("tff", source).items()}
    assert texts == {"PLAY_TOM": "First second third", "PLAY_ANN": "Ay", "PLAY_BOB": "No"}
    assert shakespeare.counts("tff", source) == {"roles": 3}


def samples(letters: str) -> tuple[list[str], list[str]]:
    return [(letter * 80) for letter in letters], list(letters.upper())


LEAF_NAMES = ("train_9.json", "test_9.json")


def test_leaf_s_own_sample_keeps_its_split(handed: Handed) -> None:
    train = {"PLAY_TOM": samples("ab"), "PLAY_ANN": samples("c")}
    test = {"PLAY_TOM": samples("d"), "PLAY_ANN": samples("ef")}
    source = handed(shakespeare, "leaf", dict(zip(LEAF_NAMES, (leaf(train), leaf(test)), strict=True)))
    assert shakespeare.counts("leaf", source) == {"roles": 2, "train": 3, "test": 3}
    data = load("shakespeare", source, edition="leaf")
    assert data.group_names == ("PLAY_TOM", "PLAY_ANN")
    assert [spoken(row) for row in data.train.x] == ["a" * 80, "b" * 80, "c" * 80]
    assert (spoken(data.train.y), spoken(data.test.y)) == ("ABC", "DEF")
    assert (groups(data.train).tolist(), groups(data.test).tolist()) == ([0, 0, 1], [0, 1, 1])
    pooled = load("shakespeare", source, edition="leaf", pool=True)
    assert (spoken(pooled.train.y), groups(pooled.train).tolist()) == ("ABCDEF", [0, 0, 1, 0, 1, 1])


@pytest.mark.parametrize(("x", "y"), [("a" * 79, "b"), ("a" * 80, "bc"), ("a" * 80, "")])
def test_a_sample_of_another_length_is_refused(handed: Handed, x: str, y: str) -> None:
    contents = dict(zip(LEAF_NAMES, (leaf({"TOM": samples("a")}), leaf({"TOM": ([x], [y])})), strict=True))
    source = handed(shakespeare, "leaf", contents)
    with pytest.raises(DataError, match=r"test_9\.json: expected 80 characters and the next one") as error:
        load("shakespeare", source, edition="leaf")
    one_line(error.value)


# -- Sent140 -----------------------------------------------------------------------------------------------


def messages(*rows: tuple[int, str, str]) -> bytes:
    """Return Sent140's csv of polarities, users and texts: no header, all in quotes, Latin-1."""
    out = io.StringIO()
    write = csv.writer(out, quoting=csv.QUOTE_ALL)
    date = "Mon Apr 06 22:19:45 PDT 2009"
    write.writerows(
        [polarity, 10 + number, date, "NO_QUERY", user, text]
        for number, (polarity, user, text) in enumerate(rows)
    )
    return out.getvalue().encode("latin-1")


ROWS = (
    (0, "ann", "bad, caf\u00e9"),
    (2, "ann", "so"),
    (4, "bob", "good!"),
    (4, "cy", "good"),
    (4, "bob", "x"),
)


@pytest.fixture
def table_of_words(handed: Handed) -> Source:
    return handed(glove, "top40000", {"top40000.txt": vectors(("good", "bad", ",", "!", "caf\u00e9"))})


def test_neutral_messages_are_left_out_and_users_are_numbered(handed: Handed, table_of_words: Source) -> None:
    source = handed(sent140, "manual", {"manual.2009.06.14.csv": messages(*ROWS)})
    texts, labels, users = sent140.messages("manual", source)
    assert texts == ["bad, caf\u00e9", "good!", "good", "x"]
    assert (labels.tolist(), users.tolist()) == ([0, 1, 1, 1], ["ann", "bob", "cy", "bob"])
    assert sent140.counts("manual", source) == {"messages": 4, "users": 3}
    data = load("sent140", source, edition="manual", vectors="top40000", length=4)
    rows = data.train.joined(data.test)
    encoded = {(tuple(x), y) for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True)}
    assert encoded == {((3, 4, 6, 0), 0), ((2, 5, 0, 0), 1), ((2, 0, 0, 0), 1), ((1, 0, 0, 0), 1)}
    assert set(groups(data.train).tolist()) == {0, 1}
    assert set(groups(data.test).tolist()) == {2}
    assert data.group_names == ("user0", "user1", "user2"), "nobody's name"
    assert data.embeddings is not None
    assert data.vocabulary == len(data.embeddings) == 7
    np.testing.assert_array_equal(data.embeddings[:2], 0)
    np.testing.assert_array_equal(data.embeddings[2:], NUMBERS)


def test_padding_can_stand_before_the_words(handed: Handed, table_of_words: Source) -> None:
    source = handed(sent140, "manual", {"manual.2009.06.14.csv": messages(*ROWS)})
    data = load("sent140", source, edition="manual", vectors="top40000", length=4, padding="start")
    encoded = {tuple(x) for x in data.train.joined(data.test).x.tolist()}
    assert encoded == {(0, 3, 4, 6), (0, 0, 2, 5), (0, 0, 0, 2), (0, 0, 0, 1)}


def test_users_with_few_messages_are_left_out_and_too_few_users_are_said(
    handed: Handed, table_of_words: Source
) -> None:
    rows = [*ROWS, (0, "cy", "bad")]
    source = handed(sent140, "manual", {"manual.2009.06.14.csv": messages(*rows)})
    options = {"edition": "manual", "vectors": "top40000"}
    data = load("sent140", source, **options, min_messages=2)
    assert (len(data.train), len(data.test), len(data.group_names)) == (2, 2, 2)
    with pytest.raises(DataError, match="sent140: 0 users have 3 messages, expected 2 or more") as error:
        load("sent140", source, **options, min_messages=3)
    one_line(error.value)


def test_words_that_mean_missing_elsewhere_are_words_here(handed: Handed) -> None:
    source = handed(sent140, "manual", {"manual.2009.06.14.csv": messages((0, "null", "NA"), (4, "nan", ""))})
    texts, labels, users = sent140.messages("manual", source)
    assert (texts, labels.tolist(), users.tolist()) == (["NA", ""], [0, 1], ["null", "nan"])


def test_a_polarity_that_nobody_gives_is_refused(handed: Handed) -> None:
    source = handed(sent140, "manual", {"manual.2009.06.14.csv": messages(*ROWS, (1, "cy", "hm"))})
    with pytest.raises(DataError, match=r"06\.14\.csv: a polarity is none of 0, 2, 4") as error:
        sent140.messages("manual", source)
    one_line(error.value)


def test_leaf_s_messages_are_read_by_their_place(handed: Handed) -> None:
    x = ["7", "date", "NO_QUERY", "ann", "good day", "training"]
    content = leaf({"ann": ([x], [1]), "bob": ([[*x[:4], "bad"]], [0])})
    source = handed(sent140, "leaf_test", {"test_9.json": content})
    texts, labels, users = sent140.messages("leaf_test", source)
    assert (texts, labels.tolist(), users.tolist()) == (["good day", "bad"], [1, 0], ["ann", "bob"])
    for wrong in (([x[:4]], [1]), (["good day"], [1]), ([x], [4])):
        source = handed(sent140, "leaf_test", {"test_9.json": leaf({"ann": wrong})})
        with pytest.raises(DataError, match=r"test_9\.json: expected x = \[id, date, query, user, text") as e:
            sent140.messages("leaf_test", source)
        one_line(e.value)


# -- eICU --------------------------------------------------------------------------------------------------


def cohort(label: Sequence[float] = (1, 0, 0)) -> dict[str, bytes]:
    """Return three stays, of which the last has no hourly values."""
    hourly: dict[str, Any] = {name: [np.nan] * 3 for name in eicu.FIRST_DAY}
    hourly |= {"hr": [80.0, 100.0, np.nan], "temp": [36.5, np.nan, 39.0], "urine": [100.0, 50.0, np.nan]}
    return {
        "_sta.parquet": parquet(
            stay_id=[2, 1, 3],
            age=[87.0, 60.0, 50.0],
            sex=["Male", "Female", "Male"],
            height=[170.0, np.nan, 180.0],
            weight=[70.0, 50.0, 80.0],
        ),
        "_outc.parquet": parquet(stay_id=[1, 2, 3], label=label),
        "_dyn.parquet": parquet(stay_id=[2, 2, 1], time=[0, 1, 0], **hourly),
    }


def test_the_first_day_becomes_lowest_and_highest_values(handed: Handed) -> None:
    source = handed(eicu, "cohort", cohort())
    assert eicu.counts("cohort", source) == {"stays": 2, "deaths": 1}
    stays = eicu.stays("cohort", source)
    assert (stays.died.tolist(), stays.place.tolist(), stays.names) == ([1, 0], [0, 1], ())
    assert stays.x.shape == (2, 4 + 2 * len(eicu.FIRST_DAY) + 1)
    hr, temp = (4 + eicu.FIRST_DAY.index(name) for name in ("hr", "temp"))
    high = len(eicu.FIRST_DAY)
    woman, man = stays.x
    np.testing.assert_array_equal(woman[:4], [60, np.nan, 50, 0])
    np.testing.assert_array_equal(man[:4], [87, 170, 70, 1])
    assert (man[hr], man[hr + high], woman[temp], woman[temp + high]) == (80, 100, 39, 39)
    np.testing.assert_array_equal([woman[hr], woman[-1], man[-1]], [np.nan, np.nan, 150])
    data = load("eicu", source, edition="cohort", block=1, pool=True, scaling="as_shipped")
    assert data.group_names == ("block0", "block1")
    assert data.train.x[0, 1] == 170, "the mean of the heights that are known"


def test_an_outcome_that_is_no_whole_number_is_refused(handed: Handed) -> None:
    source = handed(eicu, "cohort", cohort(label=(0.5, 0, 0)))
    with pytest.raises(DataError, match=r"_outc\.parquet: 0\.5 in row 0, expected whole numbers") as error:
        eicu.stays("cohort", source)
    one_line(error.value)


def hospitals(status: Sequence[str | None] = ("Alive", "Expired", "Alive", None)) -> dict[str, bytes]:
    """Return four stays in three hospitals, with values inside and outside of the first day."""
    notes, admitted = "notes/Progress Notes/Physical Exam/Neurologic/", "admission diagnosis|"
    labs = [(3, "sodium", 140.0, 10), (3, "sodium", 130.0, 1440), (3, "sodium", 99.0, 1441)]
    labs += [(1, "pH", 7.2, -360), (1, "pH", 6.8, -361), (1, "anion gap", 12.0, 0)]
    exams = [(3, "GCS/Eyes Score/4"), (3, "GCS/Eyes Score/2"), (1, "GCS/Motor Score/6"), (1, "GCS/Score/15")]
    diagnoses = [(3, "Operative Organ Systems|Organ System|Renal"), (1, "Non-operative Organ Systems|Renal")]
    return {
        "_patient.csv": table(
            patientunitstayid=[3, 1, 2, 4],
            age=["> 89", "60", None, "50"],
            gender=["Male", "Female", "Unknown", "Male"],
            hospitalid=[71, 59, 71, 56],
            hospitaldischargestatus=status,
        ),
        "_admissionDx.csv": table(
            patientunitstayid=[stay for stay, _ in diagnoses],
            admitdxpath=[admitted + path for _, path in diagnoses],
        ),
        "_lab.csv": table(
            **{
                name: [line[place] for line in labs]
                for place, name in enumerate(("patientunitstayid", "labname", "labresult", "labresultoffset"))
            }
        ),
        "_physicalExam.csv": table(
            patientunitstayid=[stay for stay, _ in exams],
            physicalexampath=[notes + path for _, path in exams],
            physicalexamvalue=[path.rsplit("/", 1)[-1] for _, path in exams],
        ),
    }


def test_laboratory_values_and_the_coma_scale_are_the_first_day_s_worst(handed: Handed) -> None:
    source = handed(eicu, "hospitals", hospitals())
    assert eicu.counts("hospitals", source) == {"stays": 3, "deaths": 1, "hospitals": 2}
    stays = eicu.stays("hospitals", source)
    assert stays.names == ("59", "71")
    assert (stays.died.tolist(), stays.place.tolist()) == ([1, 0, 0], [0, 1, 1])
    labs = len(eicu.LABS)
    assert stays.x.shape == (3, 3 + 2 * labs + 3)
    np.testing.assert_array_equal(stays.x[:, :3], [[60, 0, 0], [np.nan, 0, 0], [90, 1, 1]])
    sodium, acid = (3 + eicu.LABS.index(name) for name in ("sodium", "pH"))
    assert (stays.x[2, sodium], stays.x[2, sodium + labs]) == (130, 140)
    assert stays.x[0, [acid, acid + labs]].tolist() == pytest.approx([7.2, 7.2])
    np.testing.assert_array_equal(stays.x[:, -3:], [[np.nan, 6, np.nan], [np.nan] * 3, [2, np.nan, np.nan]])
    assert np.isnan(stays.x[1, 3:]).all()
    data = load("eicu", source, edition="hospitals", pool=True)
    assert data.group_names == ("59", "71")
    np.testing.assert_allclose(data.train.x.mean(axis=0), 0, atol=1e-6)


def test_tables_without_a_known_outcome_are_refused(handed: Handed) -> None:
    source = handed(eicu, "hospitals", hospitals(status=["", "Gone", None, None]))
    with pytest.raises(DataError, match="eicu: the tables have no stay in common") as error:
        eicu.stays("hospitals", source)
    one_line(error.value)
