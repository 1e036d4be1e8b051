"""MobileNetV2 weights pre-trained on ImageNet: model data for RADFed's CIFAR-10."""

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError
from fedcore.base.lazy import torch
from fedcore.data import Source
from fedcore.data.download import Entry, declared, fetch

DECLARATION = declared(__file__)["mobilenetv2"]

SCALINGS = {"full": "imagenet", "tflite": "symmetric"}
"""How pixels were scaled when the weights of an edition were trained; see ``scale_pixels``."""


def weights(edition: str, source: Source) -> dict[str, NDArray[np.float32]]:
    """Return weights by torchvision's names; ``num_batches_tracked`` may be absent.

    The ``tflite`` edition has batch norm folded in and takes images as x/127.5 - 1 (``scaling: symmetric``).
    """
    (path,) = fetch.obtain(DECLARATION, edition, source).values()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.numpy() for name, tensor in state.items()}
    except Exception as error:
        raise DataError(f"{path}: not a torch state_dict ({type(error).__name__})") from None


def counts(edition: str, source: Source) -> dict[str, int]:
    """Return the number of arrays and of numbers in them."""
    arrays = weights(edition, source)
    return {"arrays": len(arrays), "numbers": sum(array.size for array in arrays.values())}


ENTRY = Entry(DECLARATION, counts)
