"""The image sets that torchvision knows too: where they come from, and what is read of their forms."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torchvision.datasets as theirs

from fedcore.base.errors import DataError
from fedcore.base.registry import chosen
from fedcore.data import Source
from fedcore.data.datasets import images
from fedcore.data.download import Form

SETS = sorted(name for name, declaration in images.DECLARATIONS.items() if "demo" not in declaration.editions)
PUBLISHED: dict[str, list[tuple[str, str]]] = {
    "fashion_mnist": theirs.FashionMNIST.resources,
    "kmnist": theirs.KMNIST.resources,
    "cifar100": [(theirs.CIFAR100.filename, theirs.CIFAR100.tgz_md5)] * 2,
    "svhn": [tuple(theirs.SVHN.split_list[use][1:]) for use in ("train", "test")],
    **{
        f"emnist_{split}": [("gzip.zip", theirs.EMNIST.md5)] * 4
        for split in ("balanced", "byclass", "letters")
    },
}


def forms(name: str) -> list[Form]:
    return [form for file in images.DECLARATIONS[name].editions["full"].files for form in file.forms]


@pytest.mark.parametrize("name", SETS)
def test_each_file_is_the_one_that_torchvision_verifies(name: str) -> None:
    assert [(form.name.rpartition("/")[2], form.digest) for form in forms(name)] == [
        (file, f"md5:{md5}") for file, md5 in PUBLISHED[name]
    ]
    assert all(form.urls for form in forms(name))


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def stored(name: str, x: list[np.ndarray], y: list[np.ndarray]) -> dict[str, bytes]:
    """Return the files of a set in the form in which it is handed out: training rows, test rows."""
    parts = [array for pair in zip(x, y, strict=True) for array in pair]
    out = io.BytesIO()
    if name.startswith("emnist"):
        with zipfile.ZipFile(out, "w") as archive:
            for form, array in zip(forms(name), parts, strict=True):
                archive.writestr(form.member, gzip.compress(idx(array)))
    elif name == "cifar100":
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for form, pixels, labels in zip(forms(name), x, y, strict=True):
                values = {b"data": pixels.reshape(len(pixels), -1), b"fine_labels": labels.tolist()}
                content = pickle.dumps(values | {b"coarse_labels": [0] * len(pixels)})
                info = tarfile.TarInfo(form.member)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    elif name == "svhn":
        files = {}
        for form, pixels, labels in zip(forms(name), x, y, strict=True):
            buffer = io.BytesIO()
            ten = np.where(labels == 0, 10, labels)[:, None]
            scipy.io.savemat(buffer, {"X": pixels.transpose(2, 3, 1, 0), "y": ten.astype(np.uint8)})
            files[form.name] = buffer.getvalue()
        return files
    else:
        return {f.name: gzip.compress(idx(part)) for f, part in zip(forms(name), parts, strict=True)}
    return {forms(name)[0].name: out.getvalue()}


@pytest.mark.parametrize("name", SETS)
def test_rows_are_read_from_the_form_in_which_a_set_is_handed_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declaration, rng = images.DECLARATIONS[name], np.random.default_rng(0)
    shape = (3, 32, 32) if declaration.shape.startswith("[3") else (28, 28)
    x = [rng.integers(0, 256, (n, *shape), np.uint8) for n in (declaration.classes, 3)]
    y = [np.arange(declaration.classes, dtype=np.uint8), np.array([0, 1, declaration.classes - 1], np.uint8)]
    first = 1 if name == "emnist_letters" else 0
    turned = [pixels.transpose(0, 2, 1) if name.startswith("emnist") else pixels for pixels in x]
    digests = {}
    for file, content in stored(name, turned, [labels + np.uint8(first) for labels in y]).items():
        place = tmp_path / "mirror" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        digests[file] = f"md5:{hashlib.md5(content).hexdigest()}"
    full = declaration.editions["full"]
    files = tuple(
        replace(file, bytes=0, forms=tuple(replace(form, digest=digests[form.name]) for form in file.forms))
        for file in full.files
    )
    patched: dict[str, Any] = {**images.DECLARATIONS}
    patched[name] = replace(declaration, editions={"full": replace(full, files=files)})
    monkeypatch.setattr(images, "DECLARATIONS", patched)
    source = Source(tmp_path / "data", str(tmp_path / "mirror"), offline=True)
    data = chosen("data", {"name": name, "scaling": "raw"}).build(source)
    for rows, raw, labels in ((data.train, x[0], y[0]), (data.test, x[1], y[1])):
        np.testing.assert_array_equal(rows.x, raw.reshape(len(raw), -1, *raw.shape[-2:]).astype(np.float32))
        assert rows.y.tolist() == labels.tolist()
    assert chosen("data", {"name": name}).build(source).train.x.mean() == pytest.approx(0, abs=1e-3)
    with pytest.raises(DataError, match=f"{name} .full.: cannot get"):
        chosen("data", {"name": name}).build(replace(source, root=tmp_path / "other", mirror=None))
