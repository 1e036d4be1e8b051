"""Scaling of pixels, shared by the image sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcore.data import Rows

Scaling = Literal["raw", "unit", "symmetric", "standard"]
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def scale_pixels(
    pixels: NDArray[np.uint8], scaling: Scaling, mean: Sequence[float], std: Sequence[float]
) -> NDArray[np.float32]:
    """Turn bytes [n, channels, height, width] into float32.

    ``raw`` is x (0 to 255), ``unit`` x/255, ``symmetric`` (x/255 - .5)/.5 and, by channel,
    ``standard`` (x/255 - mean)/std.
    """
    channels = pixels.shape[1]
    shift, divide = {
        "raw": ([0.0] * channels, [1 / 255] * channels),
        "unit": ([0.0] * channels, [1.0] * channels),
        "symmetric": ([0.5] * channels, [0.5] * channels),
        "standard": (mean, std),
    }[scaling]
    out = np.empty(pixels.shape, np.float32)
    for channel in range(channels):
        np.multiply(pixels[:, channel], np.float32(1 / (255 * divide[channel])), out=out[:, channel])
        out[:, channel] -= np.float32(shift[channel] / divide[channel])
    return out


def pooled(train: Rows, test: Rows) -> Rows:
    """Return all rows, training rows first: what a split by client starts from (RADFed, IV-C)."""
    groups = None
    if train.groups is not None and test.groups is not None:
        groups = np.concatenate([train.groups, test.groups])
    return Rows(np.concatenate([train.x, test.x]), np.concatenate([train.y, test.y]), groups)
