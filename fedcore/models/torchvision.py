"""torchvision's networks for images, by their names there."""

from __future__ import annotations

from fedcore.base.errors import SpecError, shown
from fedcore.base.lazy import torch, torchvision
from fedcore.base.options import nearest
from fedcore.models import Shape
from fedcore.models.module import ModuleOptions, from_module


class TorchvisionOptions(ModuleOptions):
    """``arch``: a name of ``torchvision.models``, such as ``resnet18``; its weights are not pre-trained."""

    arch: str


def make(options: TorchvisionOptions, shape: Shape) -> torch.nn.Module:
    """Make a network for the data's classes, which takes colour images."""
    if len(shape.inputs) != 3 or shape.inputs[0] != 3:
        raise SpecError(
            f"model.arch: torchvision's networks take images [3, height, width], found {shape.inputs}"
        )
    known = torchvision.models.list_models(module=torchvision.models)
    if options.arch not in known:
        raise SpecError(
            f"model.arch: got {shown(options.arch)}, expected a network of torchvision.models"
            f"{nearest(options.arch, known)}"
        )
    module: torch.nn.Module = torchvision.models.get_model(
        options.arch, weights=None, num_classes=shape.classes
    )
    return module


PLUGIN = from_module(
    "torchvision",
    make,
    options=TorchvisionOptions,
    summary="a network of torchvision by its name (arch: resnet18), untrained",
    source="torchvision.models",
)
