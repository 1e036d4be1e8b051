"""MobileNetV2 weights pre-trained on ImageNet: model data for RADFed's CIFAR-10."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import torch
from fedcore.data import Source
from fedcore.data.download import Declaration, Edition, Entry, File, Form, fetch
from fedcore.data.readers import read_npz

DECLARATION = Declaration(
    name="mobilenetv2",
    title="MobileNetV2 weights, pre-trained on ImageNet (model data)",
    papers=("radfed",),
    citation="Sandler et al.: MobileNetV2, inverted residuals and linear bottlenecks, 2018",
    licence="Apache-2.0 (converted weights); BSD-3-Clause (torchvision's)",
    redistributable=True,
    shape="torchvision's mobilenet_v2 state_dict",
    classes=1000,
    upstream="https://pytorch.org/vision/stable/models/mobilenetv2.html",
    editions={
        "full": Edition(
            "real",
            "torchvision's MobileNetV2 weights",
            (
                File(
                    "mobilenetv2/mobilenet_v2-b0353104.pth",
                    forms=(
                        Form(
                            "mobilenet_v2-b0353104.pth",
                            "sha256:b0353104",
                            ("https://download.pytorch.org/models/mobilenet_v2-b0353104.pth",),
                        ),
                    ),
                ),
            ),
        ),
        "tflite": Edition(
            "rebuilt",
            "MobileNetV2 weights converted from a quantised TensorFlow Lite model",
            (
                File(
                    "mobilenetv2/mobilenet_v2_from_tflite_ptq.npz",
                    "a43de611a1ae4df6955e3cb112976e49057896e3f603ece5f4ed7d25e68eea68",
                    7145776,
                ),
            ),
            {"arrays": 262, "numbers": 3538984},
        ),
    },
)

SCALINGS = {"full": "imagenet", "tflite": "symmetric"}
"""How pixels were scaled when the weights of an edition were trained; see ``scale_pixels``."""


def weights(edition: str, source: Source) -> dict[str, NDArray[np.float32]]:
    """Return weights by torchvision's names; ``num_batches_tracked`` may be absent.

    The ``tflite`` edition has batch norm folded in and takes images as x/127.5 - 1 (``scaling: symmetric``).

    Raises:
        DataError: the file is missing or damaged.
    """
    (path,) = fetch.obtain(DECLARATION, edition, source).values()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            names = archive.files
        return dict(zip(names, read_npz(path, *names), strict=True))
    return _from_torch(path)


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the number of arrays and of numbers in them."""
    found = weights(edition, source)
    return {"arrays": len(found), "numbers": sum(array.size for array in found.values())}


def _from_torch(path: Path) -> dict[str, NDArray[np.float32]]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.numpy() for name, tensor in state.items()}
    except Exception as error:
        raise DataError(f"{path}: not a torch state_dict ({type(error).__name__})") from None


ENTRY = Entry(DECLARATION, counts)
