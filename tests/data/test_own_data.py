"""A user's own tables, images and arrays: the rows by hand, and one line for each mistake."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from PIL import Image
from wording import one_line

import fedcore
from fedcore.base import registry
from fedcore.base.errors import DataError, MissingPackage, SpecError
from fedcore.base.files import read_json
from fedcore.base.options import Options
from fedcore.base.registry import Plugin, chosen, plugins
from fedcore.cli.main import main
from fedcore.cli.run import partition
from fedcore.data import Dataset, Rows, Size, Source
from fedcore.data.datasets.images import channel_statistics
from fedcore.data.datasets.own import _same_split
from fedcore.data.readers import read_picture
from fedcore.execution.runner import load_data

TABLE = """ward,age,weight,outcome
10,30,70.5,well
9,40,80,ill
10,50,90,well
9,60,100,ill
"""
ROWS = np.ones((3, 1))
RUN = {
    "model": {"name": "logistic"},
    "algorithm": {"name": "fedavg"},
    "training": {"rounds": 2, "batch_size": "full", "lr": 0.1},
}


def load(**section: Any) -> Dataset:
    data = chosen("data", section).build(Source())
    assert isinstance(data, Dataset)
    return data


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "b.csv").write_text("outcome,weight,age\nill,1,2\n")
    return tmp_path


def table(**more: Any) -> Dataset:
    return load(name="table", path="a.csv", target="outcome", **more)


def test_a_table_s_rows_classes_and_clients_are_those_of_its_columns(place: Path) -> None:
    data = table(client="ward", test="b.csv")
    assert data.train.x.dtype == np.float32
    assert data.train.x.tolist() == [[30, 70.5], [40, 80], [50, 90], [60, 100]]
    assert data.train.y.tolist() == [1, 0, 1, 0]  # ill, well
    assert data.group_names == ("9", "10")
    assert data.train.groups is not None
    assert data.train.groups.tolist() == [1, 0, 1, 0]
    assert data.test.x.tolist() == [[2, 1]]  # by the training table's order of columns
    assert (data.test.y.tolist(), data.test.groups, data.classes) == ([0], None, 2)
    assert data.note == "4 + 1 rows of a.csv"


def test_clients_that_only_test_rows_name_do_not_train(place: Path) -> None:
    (place / "c.csv").write_text("ward,age,weight,outcome\n11,2,1,ill\n9,3,1,well\n")
    data = {"name": "table", "path": "a.csv", "target": "outcome", "client": "ward", "test": "c.csv"}
    assert load(**data).group_names == ("9", "10")
    assert fedcore.run({**RUN, "data": data}).summary["clients"] == 2


@pytest.mark.parametrize("first", [0, 1])
def test_a_comma_at_the_end_of_each_row_moves_no_column(place: Path, first: int) -> None:
    rows = [f"{first + row},{10 * row},{'ill' if row % 2 else 'well'}," for row in range(6)]
    Path("a.csv").write_text("\n".join(["id,age,outcome", *rows]))
    with pytest.raises(DataError, match=r"a\.csv: not a readable .*Expected 3 fields in line 2, saw 4"):
        table()


def test_columns_of_names_become_a_feature_for_each_name_of_any_row(place: Path) -> None:
    Path("a.csv").write_text("sex,age,outcome\nf,30,well\nm,40,ill\n")
    Path("b.csv").write_text("sex,age,outcome\nx,50,ill\n")
    data = table(test="b.csv", categories=["sex"])
    assert data.train.x.tolist() == [[30, 1, 0, 0], [40, 0, 1, 0]]  # age, then f, m, x
    assert data.test.x.tolist() == [[50, 0, 0, 1]]
    assert data.name == "table", "not that of a column"
    assert table(test="b.csv", categories=["sex"], features=["sex"]).train.x.tolist() == [
        [1, 0, 0],
        [0, 1, 0],
    ]


def test_parquet_holds_the_same_as_csv(place: Path) -> None:
    pd.read_csv("a.csv").set_index("ward").to_parquet("a.parquet")
    options = {"target": "outcome", "client": "ward"}
    same = load(name="table", path="a.parquet", **options).sha256()
    assert same == load(name="table", path="a.csv", **options).sha256()


def test_a_share_of_the_rows_is_drawn_for_testing_by_its_seed(place: Path) -> None:
    data = table(client="ward", test=0.5, seed=1, features=["age"])
    ages = sorted([*data.train.x.reshape(-1).tolist(), *data.test.x.reshape(-1).tolist()])
    assert ages == [30, 40, 50, 60]
    assert data.test.groups is not None
    assert len(data.test) == 2
    rows = Rows(np.arange(10)[:, None], np.arange(10))
    assert len({tuple(rows.split(0.5, seed)[1].y) for seed in range(3)}) == 3
    assert [len(rows.split(share)[1]) for share in (0.01, 0.99, 0.3)] == [1, 9, 3]


def test_statistics_are_those_of_the_training_rows(place: Path) -> None:
    data = table(test="b.csv", features=["age"], scaling="standard")
    assert data.train.x.mean() == pytest.approx(0, abs=1e-6)
    assert data.test.x[0, 0] == pytest.approx((2 - 45) / 125**0.5)


@pytest.mark.parametrize(
    ("old", "new", "more", "message"),
    [
        ("40,80", "forty,80", {}, "a.csv: column 'age', row 2: 'forty', expected a number"),
        (
            "80,ill",
            "80,ill",
            {"test": "./a.csv"},
            "data.test: got './a.csv', which may hold training rows; exp",
        ),
        (
            "ward",
            "age = 30",
            {"categories": ["age"]},
            "a.csv: column 'age = 30' is there; data.categories",
        ),
        (
            "outcome\n10",
            "outcome\n1e300",
            {"client": "ward"},
            "a.csv: column 'ward', row 1: 1e+300, expected a w",
        ),
        ("50,90", "50,", {}, "a.csv: column 'weight', row 3: an empty cell, expected a number"),
        ("50,90", "50,inf", {}, "a.csv: column 'weight', row 3: inf, expected a number"),
        ("80,ill", "80,", {}, "a.csv: column 'outcome', row 2: an empty cell, expected a whole number or a"),
        ("9,60", ",60", {"client": "ward"}, "a.csv: column 'ward', row 4: an empty cell, expected a whole"),
        (
            "90,well",
            "90, well ",
            {},
            "a.csv: column 'outcome', row 3: ' well ', expected 'well' as in other r",
        ),
        ("", "", {"client": "wart"}, "a.csv: column 'wart' is missing (did you mean 'ward'?)"),
        (
            "",
            "",
            {"target": "weight", "features": ["age"]},
            "a.csv: column 'weight', row 1: 70.5, expected a whole number or a",
        ),
        ("50,90", "50,1e39", {}, "a.csv: column 'weight', row 3: 1e+39, expected a number that float32 can"),
        ("weight", "age", {}, "a.csv: column 'age' is there twice"),
        (
            "70.5,well",
            "70.5,1,well",
            {},
            "a.csv: not a readable table, csv in UTF-8 or parquet (ParserError: ",
        ),
        ("ill", "well", {}, "a.csv: column 'outcome' holds well alone, expected two classes or more"),
        (
            "9,60",
            ",60",
            {"categories": ["ward"]},
            "a.csv: column 'ward', row 4: an empty cell, expected a whole",
        ),
        ("", "", {"categories": ["wart"]}, "a.csv: column 'wart' is missing (did you mean 'ward'?)"),
        (TABLE, "age,weight,outcome\n", {}, "a.csv: no rows"),
        ("", "", {"test": "c.csv"}, "c.csv: no such file"),
        ("", "", {"test": "b.csv", "features": ["ward"]}, "b.csv: column 'ward' is missing; known: outcome"),
    ],
)
def test_a_wrong_cell_is_named_with_its_column_and_row(
    place: Path, old: str, new: str, more: dict[str, Any], message: str
) -> None:
    (place / "a.csv").write_text(TABLE.replace(old, new))
    features = {} if "ward" in more.values() or "features" in more else {"features": ["age", "weight"]}
    with pytest.raises(DataError) as raised:
        load(**{"name": "table", "path": "a.csv", "target": "outcome", **features, **more})
    assert str(raised.value).startswith(message)
    one_line(raised.value)


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (("007", "7", "1e2", "100"), ("007", "100", "1e2", "7")),
        (("1e3", "10e2", "100e1"), ("100e1", "10e2", "1e3")),
        (("007", "7", "10"), ("007", "7", "10")),
        (("12.0", "12", " 3"), ("3", "12")),
        (("1.000e+00", "1.000e+01", "+2"), ("1", "2", "10")),
        (("-10", "2", "-2"), ("-10", "-2", "2")),
        (("NA", "None", "DE"), ("DE", "NA", "None")),
        (("True", "False"), ("False", "True")),
    ],
)
def test_names_in_a_csv_stay_as_they_are_written(
    place: Path, cells: tuple[str, ...], names: tuple[str, ...]
) -> None:
    Path("c.csv").write_text(
        "x,y,c\n" + "".join(f"{row},{row % 2},{cell}\n" for row, cell in enumerate(cells * 2))
    )
    data = load(name="table", path="c.csv", target="y", client="c")
    assert data.group_names == names


@pytest.mark.parametrize("path", ["~/a.csv", "https://example.org/a.csv"])
def test_a_path_that_is_an_address_or_begins_at_home_is_refused(path: str) -> None:
    with pytest.raises(SpecError, match=rf"data: path: got '{path}', expected a path on this machine"):
        load(name="table", path=path, target="y")


def test_names_that_differ_by_spaces_alone_are_refused(place: Path) -> None:
    Path("a.csv").write_text(
        "ward,age,outcome\nZürich ,1,ill\n Zürich,2,well\nBern,3,ill\n", encoding="utf-8"
    )
    message = "a.csv: column 'ward', row 1: 'Zürich ', expected ' Zürich' as in other rows"
    with pytest.raises(DataError, match=message):
        table(client="ward", features=["age"])


def test_labels_with_a_sign_are_in_the_order_of_numbers(place: Path) -> None:
    Path("c.csv").write_text("x,y\n1,2\n2,-10\n3,-2\n")
    Path("b.csv").write_text("x,y\n1,-2\n")
    data = load(name="table", path="c.csv", target="y", test="b.csv")
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([2, 0, 1], [1])


def test_a_test_row_of_a_class_that_no_training_row_has_is_named(place: Path) -> None:
    Path("b.csv").write_text("outcome,weight,age\nill,1,2\nsick,1,2\n")
    with pytest.raises(DataError, match=r"^data\.test: b\.csv: rows of class sick, which no training row"):
        table(test="b.csv", features=["age"])
    with pytest.raises(DataError, match=r"data\.test: 0\.5: rows of class well, which no training"):
        table(test=0.5)


def test_a_column_without_a_name_is_no_feature_unless_it_is_named(place: Path) -> None:
    pd.read_csv("a.csv").to_csv("a.csv")
    with pytest.raises(DataError, match=r"^a\.csv: column 1 has no name; name it, or data\.features$"):
        table(client="ward", test="b.csv")
    assert table(client="ward", test="b.csv", features=["age", "weight"]).train.x.shape == (4, 2)


@pytest.mark.parametrize("ward", [b"x", ["x"]])
def test_a_client_s_name_is_text_or_a_number(place: Path, ward: Any) -> None:
    pd.DataFrame({"age": [1, 2], "outcome": ["ill", "well"], "ward": [ward] * 2}).to_parquet("a.parquet")
    with pytest.raises(DataError, match=r"'ward', row 1: .*'x'.*, expected a whole number or a name"):
        load(name="table", path="a.parquet", target="outcome", client="ward", test="b.csv")


def test_a_test_file_that_is_the_training_file_by_another_name_is_refused(place: Path) -> None:
    Path("c.csv").hardlink_to("a.csv")
    with pytest.raises(DataError, match=r"data\.test: got 'c\.csv', which may hold training rows"):
        table(test="c.csv")


@pytest.mark.parametrize(
    ("split", "test", "shared"),
    [
        ("train", "train", True),
        ("train", "train[:20%]", True),
        ("train[:80%]", "train[80%:]", False),
        ("train[20%:]", "train[:20%]", False),
        ("train[:80%]", "train[70%:]", True),
        ("train[:80%]", "train[80:]", True),
        ("train[:-100]", "train[-100:]", False),
        ("train[:1000]", "train[1_000:]", False),
        ("train[:10]+train[20:]", "train[10:20]", False),
        ("train + test", "test", True),
        ("train", "test", False),
    ],
)
def test_splits_of_the_hub_with_a_row_in_common_are_refused(split: str, test: str, shared: bool) -> None:
    assert _same_split(split, test) == shared


def test_a_test_folder_inside_the_training_folder_is_refused(place: Path) -> None:
    for client in ("x", "y", "test"):
        for kind in ("cat", "dog"):
            picture(place / "own" / client / kind / "1.png", (0, 0, 0))
    for path, test in (("own", "own/test"), ("own/test", "own")):
        with pytest.raises(DataError, match=f"data.test: got '{test}', which may hold training rows"):
            load(name="folder", path=path, test=test)


def test_linked_folders_of_images_are_read_and_hidden_ones_are_not(place: Path) -> None:
    picture(place / "own" / "cat" / "1.png", (0, 0, 0))
    for name in "23":
        picture(place / "birds" / f"{name}.png", (9, 0, 0))
    picture(place / "own" / ".checkpoints" / "1.png", (0, 0, 0))
    picture(place / "own" / "cat" / ".hidden.png", (0, 0, 0))
    (place / "own" / "bird").symlink_to(place / "birds")
    (place / "birds" / "up").symlink_to(place / "own")
    data = load(name="folder", path="own", test=0.2)
    assert (len(data.train) + len(data.test), data.classes) == (3, 2)


def test_scaled_numbers_fit_into_float32(place: Path) -> None:
    Path("b.csv").write_text("outcome,age\nill,1e38\n")
    Path("a.csv").write_text("outcome,age\nill,0\nwell,1e-3\n")
    with pytest.raises(DataError, match=r"data\.scaling: 'minmax' makes a number that float32 can't hold"):
        table(test="b.csv", scaling="minmax")


def test_a_category_that_is_named_twice_is_taken_once(place: Path) -> None:
    data = table(categories=["ward", "ward"], features=["age"])
    assert data.train.x.shape[1] == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"size": [2, 2]}, r"size: got \[2, 2\] without 'image', expected it for images alone"),
        ({"seed": 3, "test": "b.csv"}, r"seed: got 3 beside test 'b\.csv', expected it beside a share"),
    ],
)
def test_keys_that_change_nothing_are_refused(place: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        table(**more)


def test_a_share_that_is_none_is_refused(place: Path) -> None:
    with pytest.raises(SpecError, match=r"data\.test: got 2, expected a number less than 1"):
        table(test=2)


def picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (3, 2)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def test_a_folder_of_images_has_a_folder_for_each_class_and_may_have_one_for_each_client(place: Path) -> None:
    for client, kind, colour in (("x", "cat", 0), ("x", "dog", 255), ("y", "cat", 51), ("y", "dog", 102)):
        picture(place / "own" / client / kind / "1.png", (colour, 0, 255))
    (place / "own" / "x" / "cat" / "notes.txt").write_text("no image")
    picture(place / "tests" / "x" / "cat" / "1.png", (9, 9, 9))
    data = load(name="folder", path="own", test="tests")
    assert data.train.x.shape == (4, 3, 2, 3)
    assert data.train.x[:, 0, 0, 0].tolist() == pytest.approx([0, 1, 0.2, 0.4])
    assert (data.train.x[:, 2] == 1).all()
    assert (data.train.y.tolist(), data.group_names) == ([0, 1, 0, 1], ("x", "y"))
    assert load(name="folder", path="own/x", test="tests/x").group_names == ()
    for file in (place / "own").rglob("*.png"):
        Image.open(file).convert("L").save(file)
    grey = load(name="folder", path="own", size=[4, 5], scaling="standard")
    assert grey.train.x.shape[1:] == (1, 4, 5)
    assert grey.train.x.mean() == pytest.approx(0, abs=1e-6)


def test_a_name_is_the_same_in_files_of_which_one_holds_truth_values_alone(place: Path) -> None:
    Path("c.csv").write_text("x,y,c\n1,a,True\n2,b,False\n3,a,unknown\n")
    Path("d.csv").write_text("x,y,c\n4,a,False\n5,b,True\n")
    data = load(name="table", path="c.csv", test="d.csv", target="y", categories=["c"])
    assert data.train.x[:, 1:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert data.test.x[:, 1:].tolist() == [[1, 0, 0], [0, 1, 0]]
    Path("d.csv").write_text("x,y,c\n4,a,false\n5,b,TRUE\n")
    spelt = load(name="table", path="c.csv", test="d.csv", target="y", categories=["c"])
    assert spelt.test.x.tolist() == data.test.x.tolist()
    pd.read_csv("d.csv").to_parquet("d.parquet")
    again = load(name="table", path="c.csv", test="d.parquet", target="y", categories=["c"])
    assert again.test.x.tolist() == data.test.x.tolist()


def test_grey_images_among_coloured_ones_have_their_value_in_each_channel(place: Path) -> None:
    picture(place / "own" / "cat" / "1.png", (10, 20, 30))
    grey = place / "own" / "dog" / "2.png"
    grey.parent.mkdir()
    Image.new("L", (3, 2), 51).save(grey)
    picture(place / "own2" / "cat" / "1.png", (1, 2, 3))
    data = load(name="folder", path="own", test="own2")
    assert data.train.x.shape == (2, 3, 2, 3)
    assert np.allclose(data.train.x[1], 0.2)


def test_images_of_another_kind_are_refused_and_other_files_left_out(place: Path) -> None:
    for name in ("cat/1", "cat/2", "dog/3", "dog/4"):
        picture(place / "own" / f"{name}.png", (0, 0, 0))
    (place / "own" / "notes").mkdir()
    (place / "own" / "notes" / os.fsdecode(b"J\xe9.txt")).write_bytes(b"")
    assert load(name="folder", path="own").classes == 2
    (place / "own" / "dog" / "5.HEIC").write_bytes(b"")
    with pytest.raises(DataError, match=r"own/dog/5\.HEIC: an image that can't be read, expected \.bmp, "):
        load(name="folder", path="own")


@pytest.mark.parametrize("scaling", ["as_shipped", "standard"])
def test_grey_test_images_of_coloured_ones_become_coloured(place: Path, scaling: str) -> None:
    for name in ("cat", "dog"):
        picture(place / "own" / name / "1.png", (10, 20, 30 + len(name)))
        (place / "own2" / name).mkdir(parents=True)
        Image.new("L", (3, 2), 51).save(place / "own2" / name / "2.png")
    for train, test in (("own", "own2"), ("own2", "own")):
        data = load(name="folder", path=train, test=test, scaling=scaling)
        assert data.train.x.shape == data.test.x.shape == (2, 3, 2, 3)


@pytest.mark.parametrize("kind", ["folder", "npz"])
def test_a_name_that_no_result_can_hold_is_refused_before_training(place: Path, kind: str) -> None:
    foreign = os.fsdecode(b"J\xe9")
    picture(place / "own" / foreign / "1.png", (0, 0, 0))
    picture(place / "own" / "dog" / "1.png", (0, 0, 0))
    (place / "arrays" / "clients").mkdir(parents=True)
    np.savez(place / "arrays" / "clients" / f"{foreign}.npz", x=ROWS, y=[0, 1, 0])
    with pytest.raises(DataError, match="a name that is not in UTF-8; rename it"):
        load(name=kind, path={"folder": "own", "npz": "arrays"}[kind])


def test_images_that_cannot_be_taken_are_named(place: Path) -> None:
    picture(place / "own" / "cat" / "1.png", (0, 0, 0))
    wide = picture(place / "own" / "dog" / "2.png", (0, 0, 0), (4, 2))
    with pytest.raises(DataError, match=r"2\.png: pixels \[2, 4\], expected \[2, 3\] as of the first"):
        load(name="folder", path="own")
    wide.write_bytes(b"\x89PNG nonsense")
    with pytest.raises(DataError, match=r"2\.png: not a readable image"):
        load(name="folder", path="own")
    Path("t.csv").write_text("image,y\nown/cat/1.png,0\n,1\n")
    with pytest.raises(DataError, match=r"t\.csv: column 'image', row 2: an empty cell, expected an image"):
        load(name="table", path="t.csv", target="y", image="image")
    with pytest.raises(DataError, match="own/cat: no images in folders, expected <class>/<image> or"):
        load(name="folder", path="own/cat")
    picture(place / "own" / "dog" / "far" / "3.png", (0, 0, 0))
    with pytest.raises(DataError, match="own: images at several depths, expected <class>/<image> or"):
        load(name="folder", path="own")
    with pytest.raises(DataError, match="gone: no such folder"):
        load(name="folder", path="gone")


def test_tables_and_folders_say_how_large_they_are(place: Path) -> None:
    choice = chosen("data", {"name": "table", "path": "a.csv", "target": "outcome", "client": "ward"})
    assert choice.plugin.size
    assert choice.plugin.size(choice.options) == Size(4, (2,), 2, 2)
    for client, kind in (("x", "cat"), ("y", "cat"), ("z", "dog")):
        picture(place / "own" / client / kind / "1.png", (0, 0, 0))
    choice = chosen("data", {"name": "folder", "path": "own"})
    assert choice.plugin.size
    assert choice.plugin.size(choice.options) == Size(3, (3, 2, 3), 2, 3)
    choice = chosen("data", {"name": "folder", "path": "own/x"})
    assert choice.plugin.size
    assert choice.plugin.size(choice.options).clients == 100, "as many as are likely where none are named"


def test_a_table_may_name_images_beside_it(place: Path) -> None:
    for colour in (0, 255):
        picture(place / "lab" / f"{colour}.png", (colour, 0, 0))
    for name in ("t.csv", "test.csv"):
        (place / "lab" / name).write_text("file,site,y\n0.png,a,0\n255.png,b,1\n")
    images = {"name": "table", "path": "lab/t.csv", "target": "y", "client": "site", "image": "file"}
    data = load(**images, test="lab/test.csv")
    assert data.train.x[:, 0, 0, 0].tolist() == [0, 1]
    assert data.group_names == ("a", "b")
    for key in ("features", "categories"):
        with pytest.raises(SpecError, match=rf"{key}: got \['site'\], expected none beside 'image'"):
            load(**images, **{key: ["site"]})


def test_a_channel_s_statistics_are_numpy_s() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 2, 3, 4), np.uint8)
    mean, deviation = channel_statistics(pixels)
    np.testing.assert_allclose(mean, (pixels / 255).mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(deviation, (pixels / 255).std(axis=(0, 2, 3)))


def hub(place: Path) -> None:
    """Save a data set in the hub's form: images as bytes, labels, and whose they are."""
    rows = []
    for row in range(6):
        png = io.BytesIO()
        Image.new("RGB", (2, 2), (51 * (row % 2), 0, 0)).save(png, "PNG")
        rows.append({"image": {"bytes": png.getvalue(), "path": None}, "label": row % 2, "user": row % 3})
    pd.DataFrame(rows[:4]).to_parquet(place / "hub" / "train.parquet")
    pd.DataFrame(rows[4:]).to_parquet(place / "hub" / "test.parquet")


def test_a_data_set_of_the_hub_s_form_is_read_with_its_own_package(place: Path) -> None:
    pytest.importorskip("datasets", reason="needs fedrepro[hf]")
    (place / "hub").mkdir()
    hub(place)
    columns = {"target": "label", "client": "user", "image": "image"}
    data = load(name="huggingface", path=str(place / "hub"), test="test", **columns)
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([0, 1, 0, 1], [0, 1])
    assert data.train.x[:, 0, 0, 0].tolist() == pytest.approx([0, 0.2, 0, 0.2])
    assert data.group_names == ("0", "1", "2")
    with pytest.raises(DataError, match=r"data\.path: .*hub, split 'valid'"):
        load(name="huggingface", path=str(place / "hub"), test="valid", **columns)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingPackage, match=r"needs the package datasets; install fedrepro\[hf\]"):
        load(name="huggingface", path="x", target="y")


def test_results_name_the_clients_of_a_table(place: Path) -> None:
    Path("a.csv").write_text("ward,age,outcome\n007,1,ill\nNA,2,well\nx,3,ill\nx,4,well\n")
    data = {"name": "table", "path": "a.csv", "target": "outcome", "client": "ward", "test": "b.csv"}
    spec = {**RUN, "data": {**data, "features": ["age"]}, "partition": {"name": "natural", "min_rows": 1}}
    result = fedcore.run({**spec, "evaluation": {"clients": True}}, "out")
    assert [row["name"] for row in result.clients] == ["007", "NA", "x"]
    assert [row["name"] for row in fedcore.load("out").clients] == ["007", "NA", "x"]
    Path("s.yaml").write_text(yaml.safe_dump(spec))
    partition(Path("s.yaml"), Path("split"), figure=False, quiet=True)
    assert read_json(Path("split/stats.json"))["client_names"] == ["007", "NA", "x"]
    loaded = chosen("data", spec["data"]).build(Source())
    assert loaded.names_of([np.array([0]), np.array([], int)]) == ("007", None)
    assert loaded.names_of([np.array([0, 1])]) == loaded.names_of([np.array([2]), np.array([3])]) == ()


def test_a_table_s_clients_are_natural_clients_and_any_partition_takes_its_rows(place: Path) -> None:
    data: dict[str, Any] = {"name": "table", "path": "a.csv", "target": "outcome", "client": "ward"}
    data |= {"test": "b.csv", "features": ["age", "weight"]}
    natural = fedcore.run({**RUN, "data": data, "partition": {"name": "natural"}})
    assert natural.summary["clients"] == 2
    assert (
        fedcore.run({**RUN, "data": data, "partition": {"name": "iid", "clients": 3}}).summary["clients"] == 3
    )
    before = natural.summary["data_sha256"]
    (place / "a.csv").write_text(TABLE.replace("30", "31"))
    assert fedcore.run({**RUN, "data": data}).summary["data_sha256"] != before


def test_a_data_set_that_is_registered_again_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._REGISTERED, "data", {})
    hashes = set()
    for value in (0, 1):
        rows = Rows(np.full((4, 2), float(value)), np.array([0, 1, 0, 1]))
        mine = Dataset("mine", rows, rows, 2, "synthetic", "made")
        fedcore.register("data", Plugin("mine", Options, lambda options, source, mine=mine: mine, "", ""))
        hashes.add(load_data('{"name":"mine"}', Source())[1])
    plugins.cache_clear()
    assert len(hashes) == 2


def test_a_source_takes_text_and_paths() -> None:
    text: Any = "a"
    path: Any = Path("a")
    assert Source(text, path) == Source(path, text)
    assert fedcore.Settings(partition=text) == fedcore.Settings(partition=path)


def test_arrays_in_memory_are_known_by_their_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._REGISTERED, "data", {})
    x, y = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1]
    spec = {**RUN, "data": {"name": "mine"}}
    hashes = []
    for shift in (0.0, 1.0):
        mine = fedcore.from_arrays("mine", (x + shift, np.array(y)), clients=["b", "b", "a", "a", "a", "b"])
        fedcore.register("data", mine)
        result = fedcore.run(spec)
        hashes.append((result.spec["data"]["sha256"], result.summary["data_sha256"]))
    assert hashes[0][0] == hashes[0][1] != hashes[1][0] == hashes[1][1]
    with pytest.raises(SpecError, match=r"data\.sha256: got '0000'"):
        fedcore.run({**spec, "data": {"name": "mine", "sha256": "0000"}})
    data = load(name="mine")
    plugins.cache_clear()
    assert data.group_names == ("a", "b")
    assert (len(data.train), len(data.test), data.classes) == (5, 1, 2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"clients": np.ones((3, 1))}, r"data 'm': clients of shape \[3, 1\], expected one for each row"),
        ({"clients": 5}, r"data 'm': clients of shape \[\], expected one for each row"),
        (
            {"rows": (np.ones((3, 1)), np.zeros(3), np.zeros(3))},
            "data 'm': rows: got 3 arrays, expected x and y",
        ),
        ({"test": (np.ones((3, 1)),)}, "data 'm': test: got 1 arrays, expected x and y"),
        ({"rows": np.ones((2, 2))}, "data 'm': rows: got ndarray, expected x and y"),
        ({"rows": None}, "data 'm': rows: got NoneType, expected x and y"),
        ({"rows": ([[1, 2], [3]], [0, 1])}, r"data 'm': rows: not arrays \(ValueError: "),
        ({"rows": (torch.eye(2, requires_grad=True), [0, 1])}, r"data 'm': rows: not arrays \(RuntimeError"),
        ({"clients": [[1], [2, 3], [4]]}, r"data 'm': clients: not an array \(ValueError: "),
        ({"test": (ROWS[1:], [0, 1])}, "data 'm': test: rows of the training rows' array, expected others"),
        ({"test": (np.ones((1, 1)), [2])}, "data 'm', test: rows of class 2, which no training row has"),
        ({"rows": (np.full((3, 1), -1e39), np.zeros(3))}, "data 'm': x has a number that float32 can't hold"),
        ({"clients": [1]}, "data 'm': 1 clients, expected one for each of 3 rows"),
        ({"rows": (np.full((3, 1), np.nan), np.zeros(3))}, r"data 'm': x has nan or inf \(first in row 0\)"),
        (
            {"rows": (np.ones((3, 1)), np.array(["a", "b", "c"]))},
            "data 'm': y is <U1, expected",
        ),
        ({"test": 5.0}, "data 'm': test: got 5.0, expected test rows, or a share between 0 and 1"),
        ({"test": 0}, "data 'm': test: got 0, expected test rows, or a share between 0 and 1"),
        ({"test": None}, "data 'm': test: got None, expected test rows, or a share between 0 and 1"),
        (
            {"clients": [1, None, 2]},
            "data 'm': column 'clients', row 2: an empty cell, expected a whole number",
        ),
        ({"test": (np.ones((1, 2)), np.zeros(1))}, r"rows \[3, 1\] and \[1, 2\], expected some of one shape"),
    ],
)
def test_wrong_arrays_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fedcore.from_arrays("m", **{"rows": (ROWS, np.array([0, 1, 0])), **more})


@pytest.mark.parametrize("clients", [[10.0, 9.0, 2.0], np.array([10, 9, 2]), [np.int64(10), 9, "2"]])
def test_clients_in_memory_are_in_the_order_of_numbers(clients: Any) -> None:
    rows = (np.arange(6.0).reshape(3, 2), np.array([0, 1, 0]))
    plugin = fedcore.from_arrays("m", rows, test=(np.ones((1, 2)), np.array([1])), clients=clients)
    assert plugin.build(None, Source()).group_names == ("2", "9", "10")


@pytest.mark.parametrize("key", ["features", "categories", "client"])
def test_the_target_is_no_input(place: Path, key: str) -> None:
    given: Any = "outcome" if key == "client" else ["age", "outcome"]
    with pytest.raises(SpecError, match=rf"^data: {key}: got 'outcome', which is the target, expected other"):
        table(**{key: given})


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_images_of_more_than_8_bits_are_refused(tmp_path: Path, mode: str) -> None:
    pixels = np.full((2, 2), 3, {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode])
    path = tmp_path / "x.tiff"
    Image.fromarray(pixels).save(path)
    with pytest.raises(DataError, match=f"x.tiff: pixels of mode {mode}, expected 8 bits a channel"):
        read_picture(path, None, None)


def test_an_image_is_upright_opaque_and_one(tmp_path: Path) -> None:
    path, exif = tmp_path / "x.png", Image.Exif()
    wide = Image.new("RGB", (4, 2))
    exif[0x0112] = 6  # turned by a quarter
    wide.save(path, exif=exif)
    assert read_picture(path, None, None).shape == (3, 4, 2)
    for mode, colour in (("RGBA", (0, 0, 0, 255)), ("LA", (9, 255))):
        Image.new(mode, (4, 2), colour).save(path)
        assert read_picture(path, None, None).shape[1:] == (2, 4)
        Image.new(mode, (4, 2), (*colour[:-1], 254)).save(path)
        with pytest.raises(DataError, match=r"x\.png: pixels that are transparent, expected none"):
            read_picture(path, None, None)
    wide.save(tmp_path / "x.tiff", save_all=True, append_images=[wide])
    with pytest.raises(DataError, match=r"x\.tiff: 2 pictures in one file, expected one"):
        read_picture(tmp_path / "x.tiff", None, None)


def test_an_empty_cell_of_a_nullable_column_is_named(place: Path) -> None:
    frame = pd.DataFrame({"age": [1, 2], "y": pd.array([1.0, None], "Float64")})
    frame.to_parquet("a.parquet")
    with pytest.raises(DataError, match=r"column 'y', row 2: an empty cell, expected a whole number or a"):
        load(name="table", path="a.parquet", target="y")


def test_a_run_does_not_write_over_what_it_reads(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*words: str) -> object:
        monkeypatch.setattr(sys, "argv", ["fedcore", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    (place / "clients.csv").write_text(TABLE)
    data = {"name": "table", "path": "clients.csv", "target": "outcome", "features": ["age"]}
    spec = {**RUN, "data": data, "partition": {"name": "iid", "clients": 1}, "evaluation": {"clients": True}}
    before = sorted(place.iterdir())
    with pytest.raises(SpecError, match=r"^clients\.csv: is read, and would be replaced; take"):
        fedcore.run(spec, out=".")
    (place / "spec.yaml").write_text(yaml.safe_dump({**spec, "data": {**data, "path": "a.csv"}}))
    assert called("run", "spec.yaml", "--out", ".") == 2
    assert (place / "clients.csv").read_text() == TABLE
    assert "clients: 1" in (place / "spec.yaml").read_text()
    assert {*place.iterdir()} - {*before, place / "spec.yaml"} == set()
    assert called("run", "spec.yaml", "--out", "out", "--quiet") == 0
    assert called("run", "out/spec.yaml", "--out", "out", "--quiet") == 0
