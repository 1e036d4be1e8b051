"""Each data set from its demo: shapes, ranges, determinism; the papers' preprocessing on worked values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from wording import one_line

from fedcore.base.errors import DataError, SpecError
from fedcore.base.options import validate
from fedcore.base.registry import find, plugins
from fedcore.base.rng import Streams
from fedcore.data import Dataset, Rows, Source
from fedcore.data.datasets import covertype, eicu, sent140, shakespeare, synthetic
from fedcore.data.datasets.images import scale_pixels
from fedcore.data.download import inventory
from fedcore.data.standardise import minmax, standardise, standardise_by_client

SOURCE = Source(Path(__file__).parents[2] / "data", offline=True)
WITH_DEMO = sorted(
    name
    for name, entry in inventory.entries().items()
    if name in plugins("data") and "demo" in entry.declaration.editions
)
GENERATED = ("quadratics", "synthetic")
LIBSVM = ("a1a", "svmguide1", "splice", "vehicle", "dna", "pendigits", "satimage", "usps", "letter")


def load(name: str, source: Source = SOURCE, **options: Any) -> Dataset:
    plugin = find("data", name)
    if name not in GENERATED and name != "npz":
        options.setdefault("edition", "demo")
    data = plugin.build(validate(plugin.options, options, "data"), source)
    assert isinstance(data, Dataset)
    return data


def groups(rows: Rows) -> NDArray[np.int64]:
    assert rows.groups is not None
    return rows.groups


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in (*WITH_DEMO, *GENERATED)), ("shakespeare", {"roles": 6, "stride": 4})],
)
def test_a_set_is_about_as_large_as_it_says(name: str, options: dict[str, Any]) -> None:
    plugin = find("data", name)
    data, size = load(name, **options), plugin.size
    assert size is not None
    edition = {} if name in GENERATED else {"edition": "demo"}
    declared = size(validate(plugin.options, {**edition, **options}, "data"))
    assert 0.5 < declared.rows / (len(data.train) + len(data.test)) < 2
    assert declared.test is None or 0.5 < declared.test / len(data.test) < 2
    assert declared.inputs == pytest.approx(data.train.x.shape[1:], rel=0.15)  # constant columns are left out
    assert declared.classes == data.classes
    assert 0.9 < (declared.vocabulary or 1) / (data.vocabulary or 1) < 1.1


@pytest.mark.parametrize("name", [*WITH_DEMO, *GENERATED])
def test_every_set_loads_offline_as_the_contract_says(name: str) -> None:
    data = load(name)
    assert data.name == name
    for rows in (data.train, data.test):
        assert len(rows) > 0
        assert len(rows.x) == len(rows.y)
        assert rows.x.dtype in (np.float32, np.float64, np.int64)
        assert rows.y.dtype == np.int64
        assert 0 <= rows.y.min() <= rows.y.max() < data.classes
        assert np.isfinite(rows.x).all()
        if rows.groups is not None:
            assert rows.groups.dtype == np.int64
            assert 0 <= rows.groups.min() <= rows.groups.max() < len(data.group_names)
    assert data.train.x.shape[1:] == data.test.x.shape[1:]
    if data.vocabulary is not None:
        assert 0 <= data.train.x.min() <= data.train.x.max() < data.vocabulary
    if data.embeddings is not None:
        assert data.embeddings.shape[0] == data.vocabulary
    for column in data.client_features.values():
        assert column.shape == data.train.y.shape
    assert load(name).sha256() == data.sha256()
    assert (data.state == "synthetic") == (name in {"sent140", *GENERATED})


def test_all_sets_of_the_papers_are_registered() -> None:
    names = {"mnist", "cifar10", "femnist", "sent140", "covertype", "shakespeare", "eicu", *LIBSVM}
    assert names | {"npz", *GENERATED} <= set(plugins("data"))


def test_no_network_and_no_mirror_is_one_line(tmp_path: Path) -> None:
    for name in WITH_DEMO:
        with pytest.raises(DataError) as raised:
            load(name, Source(tmp_path, offline=True), edition="full")
        one_line(raised.value)


def test_pixels_are_scaled_as_named() -> None:
    pixels = np.arange(0, 252, 21, dtype=np.uint8).reshape(1, 3, 2, 2)
    unit = pixels / 255
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    by_channel = (unit - np.reshape(mean, (1, 3, 1, 1))) / np.reshape(std, (1, 3, 1, 1))
    for scaling, expected in (
        ("raw", pixels),
        ("unit", unit),
        ("symmetric", (unit - 0.5) / 0.5),
        ("standard", by_channel),
    ):
        scaled = scale_pixels(pixels, scaling, mean, std)  # type: ignore[arg-type]
        assert scaled.dtype == np.float32
        np.testing.assert_allclose(scaled, expected, rtol=1e-6, atol=1e-6)


def test_pool_takes_all_rows_for_training() -> None:
    for name in ("mnist", "cifar10"):
        apart, pooled = load(name), load(name, pool=True)
        assert len(pooled.train) == len(apart.train) + len(apart.test)
        np.testing.assert_array_equal(pooled.train.x[len(apart.train) :], apart.test.x)
        assert pooled.test.x.shape == apart.test.x.shape
    for name, rows in (("covertype", 10000), ("eicu", 1367)):
        assert len(load(name, pool=True).train) == rows


@pytest.mark.parametrize("name", LIBSVM)
def test_libsvm_scaling_uses_training_rows_only(name: str) -> None:
    shipped = load(name)
    squeezed, standard = load(name, scaling="minmax"), load(name, scaling="standard")
    assert squeezed.train.x.min() == 0
    assert squeezed.train.x.max() == pytest.approx(1)
    varies = shipped.train.x.std(axis=0) > 0
    np.testing.assert_allclose(standard.train.x.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(standard.train.x.std(axis=0)[varies], 1, atol=1e-4)
    mean, std = shipped.train.x.mean(axis=0, dtype=float), shipped.train.x.std(axis=0, dtype=float)
    expected = (shipped.test.x - mean)[:, varies] / std[varies]
    scaled = standard.test.x[:, varies].astype(float)
    np.testing.assert_allclose(scaled, expected, rtol=2e-3, atol=2e-3)


def test_libsvm_labels_count_from_zero_in_their_order() -> None:
    assert np.bincount(load("a1a").train.y).tolist() == [1210, 395]
    assert np.bincount(load("vehicle").train.y).sum() == 500
    assert np.bincount(np.concatenate([load("dna").train.y, load("dna").test.y])).tolist() == [767, 765, 1654]


def test_femnist_groups_are_writers() -> None:
    data = load("femnist")
    assert len(data.group_names) == 30
    assert set(groups(data.train).tolist()) == set(range(30))
    assert set(groups(data.test).tolist()) <= set(range(30))
    assert np.all(np.diff(groups(data.train)) >= 0)


# -- Covertype ---------------------------------------------------------------------------------------------


def test_the_two_class_form_of_the_full_data_has_radfeds_sizes() -> None:
    classes = np.repeat(np.arange(1, 8), [211840, 283301, 35754, 2747, 9493, 17367, 20510])
    rows = covertype.binary_rows(np.random.default_rng(0).permutation(classes))
    assert len(rows) == 492000
    classes = np.sort(classes)
    assert np.bincount(classes[covertype.binary_rows(classes)])[1:3].tolist() == [211560, 280440]


def test_covertype_scales_numbers_and_leaves_indicators() -> None:
    data = load("covertype", pool=True)
    numbers, indicators = data.train.x[:, :10], data.train.x[:, 10:]
    np.testing.assert_allclose(numbers.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(numbers.std(axis=0), 1, atol=1e-4)
    assert set(np.unique(indicators)) == {0.0, 1.0}
    assert (indicators.sum(axis=1) == 2).all()
    shipped = load("covertype", pool=True, scaling="as_shipped")
    assert shipped.train.x[:, 0].min() > 1000
    np.testing.assert_array_equal(shipped.train.x, load("covertype", pool=True, scaling="by_client").train.x)
    assert set(data.client_features) == {"wilderness", "soil"}
    seven = load("covertype", task="seven", pool=True)
    assert np.bincount(seven.train.y).tolist() == [4375, 5851, 738, 57, 196, 359, 424]


# -- Shakespeare -------------------------------------------------------------------------------------------


def test_the_alphabet_has_80_symbols() -> None:
    assert len(set(shakespeare.ALPHABET)) == len(shakespeare.ALPHABET) == 80


def test_text_is_encoded_like_leafs() -> None:
    codes = shakespeare.encode("To be,\n   or\tnot \u00e9")
    assert "".join(shakespeare.ALPHABET[code] for code in codes) == "To be, or}not }"


def test_windows_are_every_80_characters_and_the_next() -> None:
    codes = np.arange(90, dtype=np.uint8)
    x, y = shakespeare.windows(codes, 80, 1)
    assert x.shape == (10, 80)
    np.testing.assert_array_equal(x[3], codes[3:83])
    assert y.tolist() == list(range(80, 90))
    assert shakespeare.windows(codes, 80, 4)[1].tolist() == [80, 84, 88]
    assert len(shakespeare.windows(codes[:80], 80, 1)[1]) == 0


def test_test_samples_do_not_overlap_training_samples() -> None:
    data = load("shakespeare", roles=3)
    texts = shakespeare.texts("demo", SOURCE)
    for role, name in enumerate(data.group_names):
        total = len(texts[name]) - 80
        trained, tested = (int((groups(rows) == role).sum()) for rows in (data.train, data.test))
        assert trained == total - int(0.2 * total)
        assert tested == total - trained - 80
    assert data.classes == data.vocabulary == 80


def test_roles_are_drawn_by_seed_and_order_does_not_matter() -> None:
    chosen = [load("shakespeare", roles=5, stride=50, seed=seed).group_names for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert list(chosen[0]) == sorted(chosen[0])
    assert len(load("shakespeare", roles=None, stride=50).group_names) == 24


# -- Sent140 -----------------------------------------------------------------------------------------------


def test_words_become_indices_of_length_25() -> None:
    tokens = sent140.tokens(["I don't LIKE it!  no", "x " * 40, ""], ["i", "like", "it", "!"], 25)
    assert tokens.shape == (3, 25)
    assert tokens[0].tolist() == [2, 1, 3, 4, 5, 1] + [0] * 19
    assert tokens[1].tolist() == [1] * 25
    assert not tokens[2].any()
    np.testing.assert_array_equal(sent140.pad_start(tokens)[0], [0] * 19 + [2, 1, 3, 4, 5, 1])


def test_users_of_training_and_test_are_disjoint() -> None:
    data = load("sent140")
    assert not set(groups(data.train).tolist()) & set(groups(data.test).tolist())
    assert data.state == "synthetic"
    assert "synthetic" in data.note


def test_the_generated_messages_can_be_told_apart_by_their_topic_words() -> None:
    data = load("sent140")
    words = data.test.x.astype(int)
    counts = [((words >= 2 + 100 * c) & (words < 102 + 100 * c)).sum(axis=1) for c in (0, 1)]
    assert np.mean((counts[1] > counts[0]) == data.test.y) > 0.75
    used = [set(np.unique(data.train.x[groups(data.train) == user])) for user in groups(data.train)[[0, -1]]]
    assert len(used[0] & used[1]) < 0.5 * min(map(len, used))


def test_word_vectors_of_the_generated_topics_lie_on_two_sides() -> None:
    vectors = load("sent140").embeddings
    assert vectors is not None
    topics = vectors[2:102], vectors[102:202], vectors[202:]
    axes = np.array([topic.mean(axis=0) for topic in topics])
    assert axes[:2, :10] == pytest.approx(np.repeat([[-0.8], [0.8]], 10, axis=1), abs=0.15)
    assert np.abs(axes[:, 10:]).max() < 0.15
    assert np.abs(axes[2]).max() < 0.1


def test_sent140_from_leaf_json_is_split_by_user(tmp_path: Path) -> None:
    users = {
        f"name{u}": [f"id{u}", "date", "query", f"name{u}", "good day" if u % 2 else "bad day", "set"]
        for u in range(20)
    }
    content = {
        "users": list(users),
        "user_data": {name: {"x": [x, x], "y": [u % 2, u % 2]} for u, (name, x) in enumerate(users.items())},
    }
    (tmp_path / "sent.json").write_text(json.dumps(content))
    texts, labels, names = sent140._leaf(tmp_path / "sent.json")
    assert (len(texts), labels.sum(), len(set(names))) == (40, 20, 20)
    index = np.unique(names.astype(str), return_inverse=True)[1]
    data: dict[str, np.ndarray] = {
        "x": sent140.tokens(texts, ["good", "bad", "day"], 4),
        "y": labels,
        "users": index,
    }
    train, test, count = sent140._split(data, sent140.Sent140Options())
    assert (len(train), len(test), count) == (32, 8, 20)
    assert not set(groups(train)) & set(groups(test))


# -- eICU --------------------------------------------------------------------------------------------------


def test_hospitals_are_left_out_by_the_papers_rules() -> None:
    place = np.repeat([0, 1, 2, 3], [101, 100, 200, 300])
    died = np.zeros(701, np.int64)
    died[201:241] = 1
    died[401:462] = 1
    assert eicu.eligible(died, place, 100, 0.2).tolist() == [0, 2]


def test_eicu_rules_are_options_and_an_empty_result_is_said() -> None:
    assert len(load("eicu", min_admissions=39).group_names) == 34
    assert len(load("eicu", edition="demo_hospitals").group_names) == 79
    with pytest.raises(DataError, match="no hospital has over 100 stays and 20% deaths or fewer"):
        load("eicu", edition="demo_hospitals", min_admissions=100, max_mortality=0.2)


def test_missing_values_become_the_training_rows_mean() -> None:
    x = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 5.0]])
    filled = eicu.scaled(x, np.array([True, True, False]), "as_shipped")
    np.testing.assert_array_equal(filled, [[1, 0], [3, 0], [2, 5]])


def test_the_credentialed_tables_are_joined(tmp_path: Path) -> None:
    ids = [3, 1, 2]
    status = ["Alive", "Expired", None]
    patient = pd.DataFrame({eicu.ID: ids, "hospitalid": [7, 5, 5], "hospitaldischargestatus": status})
    aps = pd.DataFrame({eicu.ID: ids, **{name: [1.0, -1.0, 2.0] for name in eicu.PHYSIOLOGY}})
    history = pd.DataFrame({eicu.ID: ids, **{name: [0, 1, 2] for name in eicu.HISTORY}})
    paths = {}
    files = eicu.DECLARATION.edition("full").files
    for name, frame in zip([file.name for file in files], (patient, aps, history), strict=True):
        paths[name] = tmp_path / name
        frame.to_csv(paths[name], index=False)
    stays = eicu.credentialed(paths)
    assert stays.names == ("5", "7")
    assert (stays.place.tolist(), stays.died.tolist()) == ([0, 1], [1, 0])
    assert stays.x.shape == (2, 43)
    assert np.isnan(stays.x[0, : len(eicu.PHYSIOLOGY)]).all()
    aps.drop(columns="ph").to_csv(paths["apacheApsVar.csv"], index=False)
    with pytest.raises(DataError, match="column 'ph' is missing"):
        eicu.credentialed(paths)


# -- generated ---------------------------------------------------------------------------------------------


def test_synthetic_labels_follow_each_clients_own_model() -> None:
    x, y = synthetic.client(synthetic.SyntheticOptions(u=0.25, v=0.25), Streams(5), 2, 40)
    drawn = Streams(5).get("synthetic/client", client=2)
    mean_model, mean_x = drawn.normal(0, 0.5), drawn.normal(0, 0.5)
    weight, bias = drawn.normal(mean_model, 1, (60, 10)), drawn.normal(mean_model, 1, 10)
    centre = drawn.normal(mean_x, 1, 60)
    features = centre + np.arange(1, 61) ** -0.6 * drawn.standard_normal((40, 60))
    np.testing.assert_array_equal(x, features.astype(np.float32))
    np.testing.assert_array_equal(y, (features @ weight + bias).argmax(axis=1))
    data = load("synthetic", clients=50)
    sizes = np.bincount(groups(data.train)) + np.bincount(groups(data.test))
    assert sizes.min() >= 50
    assert sizes.max() > 10 * np.median(sizes)
    assert data.train.x.shape[1] == 60
    with pytest.raises(SpecError, match="largest: got 49, expected at least smallest"):
        load("synthetic", largest=49)


def test_synthetic_v_moves_labels_apart_and_u_moves_all_classes_alike() -> None:
    def spread(**options: Any) -> float:
        data = load("synthetic", clients=40, size_sigma=0.5, seed=1, **options)
        shares = [np.bincount(data.train.y[groups(data.train) == k], minlength=10) for k in range(40)]
        return float(
            np.mean(
                [np.abs(s / s.sum() - np.mean([t / t.sum() for t in shares], axis=0)).sum() for s in shares]
            )
        )

    assert spread(iid=True) < 0.5 < spread(u=0, v=0) == spread(u=9, v=0) < spread(u=0, v=9) < 2
    assert load("synthetic", iid=True).note == "synthetic(iid), 30 clients"


def test_the_default_quadratics_are_the_two_clients_of_the_text() -> None:
    data = load("quadratics")
    assert data.train.x.tolist() == [[1.0, 0.0], [10.0, 1.0]]
    assert data.train.x.dtype == np.float64
    assert (groups(data.train).tolist(), data.classes) == ([0, 1], 1)
    with pytest.raises(SpecError, match="2 curvatures and 1 centres"):
        load("quadratics", centres=[0.0])


# -- standardisation ---------------------------------------------------------------------------------------

TABLES = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.floats(-1e3, 1e3, width=16)
)


@settings(max_examples=100, deadline=None)
@given(x=TABLES)
def test_standardised_columns_have_mean_zero_and_variance_one_or_are_zero(x: np.ndarray) -> None:
    (scaled,) = standardise(x)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    flat = (x == x[0]).all(axis=0)
    assert not scaled[:, flat].any()
    np.testing.assert_allclose(scaled[:, ~flat].std(axis=0), 1, atol=1e-6)
    low, high = minmax(x)[0].min(axis=0), minmax(x)[0].max(axis=0)
    np.testing.assert_allclose(low, 0, atol=1e-12)
    np.testing.assert_allclose(high[~flat], 1, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(x=TABLES, data=st.data())
def test_by_client_each_client_is_standardised_alone(x: np.ndarray, data: st.DataObject) -> None:
    x = np.where(np.isin(x, (0, 1)), 0.5, x)
    owner = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(x), max_size=len(x))))
    clients = [np.flatnonzero(owner == k) for k in range(3)]
    before = x.copy()
    scaled = standardise_by_client(x, clients)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(scaled[owner == 3], x[owner == 3])
    for rows in clients:
        if len(rows):
            np.testing.assert_array_equal(scaled[rows], standardise(x[rows])[0])
    pooled = standardise_by_client(x, [np.arange(len(x))])
    np.testing.assert_array_equal(pooled, standardise(x)[0])
    flags = (x > 0).astype(float)
    np.testing.assert_array_equal(standardise_by_client(flags, clients), flags)
