"""Any ``torch.nn.Module`` as a model, such as torchvision's networks for images, by their names there."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, Self

import numpy as np
from pydantic import PositiveInt, model_validator

from fedcore.base.errors import FedcoreError, SpecError, reason, shown
from fedcore.base.lazy import Module, Tensor, torch, torchvision
from fedcore.base.options import nearest, omit_default
from fedcore.models import Arrays, Layout, Model, ModelOptions, Parameters, Plugin, Shape

ROWS, TOLERANCE = 4, 1e-5


class ModuleOptions(ModelOptions):
    """Keys of every model that is made of a module.

    ``norm``: what to do with batch normalisation, as its running statistics are not averaged: ``refuse``;
    ``group``: GroupNorm with ``groups`` groups in its place (Hsieh et al., ICML 2020); ``frozen``: the
    statistics stay as they start, in training too. ``dropout``: ``refuse`` or ``off``;
    which units fall out is drawn outside the seeds of a run.
    """

    norm: Literal["refuse", "group", "frozen"] = "refuse"
    groups: PositiveInt = omit_default(2)
    dropout: Literal["refuse", "off"] = "refuse"

    @model_validator(mode="after")
    def _groups_are_those_of_a_norm(self) -> Self:
        if self.groups != 2 and self.norm != "group":
            raise ValueError(f"groups: got {self.groups} with norm '{self.norm}', expected norm: group")
        return self


class TorchvisionOptions(ModuleOptions):
    """``arch``: a name of ``torchvision.models``, such as ``resnet18``; its weights are not pre-trained."""

    arch: str


@dataclass(frozen=True, eq=False)
class ModuleModel(Model):
    """A module whose parameters are given by name at each call.

    Parameters that require no gradient, and buffers, stay as they start. ``trunk`` is the module with
    an identity in its output layer's place: it returns features. ``draw`` makes the module anew.
    """

    module: Module
    trunk: Module
    head: str
    draw: Callable[[], Module]

    @cached_property
    def trainable(self) -> Layout:
        """Names and shapes of the parameters that require gradients, as ``named_parameters`` has them."""
        named = self.module.named_parameters()
        return Layout({name: tuple(value.shape) for name, value in named if value.requires_grad})

    def initial(self, rng: np.random.Generator) -> Arrays:
        """Make the module anew; PyTorch's own draws start from one number of ``rng``."""
        named = _named(_drawn(self.draw, int(rng.integers(2**63))))
        return {name: value.detach().numpy() for name, value in named.items() if value.is_floating_point()}

    def features(self, p: Parameters, x: Tensor) -> Tensor:
        """Return what feeds the output layer [batch, features]."""
        tensors = {
            name: p[name] if value.is_floating_point() else value.to(x.device)
            for name, value in self._own.items()
        }
        phi: Tensor = torch.func.functional_call(self.trunk, tensors, (x,))
        return phi

    @cached_property
    def _own(self) -> Mapping[str, Tensor]:
        return _named(self.trunk)


def from_module(
    name: str,
    make: Callable[[Any, Shape], Module],
    *,
    options: type[ModuleOptions] = ModuleOptions,
    head: str = "",
    summary: str = "a torch.nn.Module",
    source: str = "own",
) -> Plugin:
    """Return the plug-in of a model that is a ``torch.nn.Module``.

    Args:
        name: what a specification writes.
        make: makes the module from options and the data's shape, as random as PyTorch makes it. It maps rows
            [batch, ...] to scores [batch, classes] by a linear layer at its end.
        options: class of its options.
        head: name of that layer, such as ``fc``; the last linear layer unless given.
        summary: one sentence for ``fedcore list``.
        source: where it is defined.
    """

    def build(options: ModuleOptions, shape: Shape) -> ModuleModel:
        return _model(name, lambda: _prepared(name, make(options, shape), options), head, shape)

    return Plugin(name, options, build, summary, source, multiplications=multiplications)


def multiplications(model: ModuleModel, inputs: tuple[int, ...]) -> tuple[float, float]:
    """Return half the operations that PyTorch counts for a row, all as of weights used at many places."""
    tokens = any(isinstance(part, torch.nn.Embedding) for part in model.module.modules())
    row = torch.zeros(1, *inputs, dtype=torch.long if tokens else torch.float32)
    counting = import_module("torch.utils.flop_counter")  # which torch does not import by itself
    with torch.no_grad(), counting.FlopCounterMode(display=False) as counter:
        model.module(row)
    return 0.0, counter.get_total_flops() / 2


def _model(name: str, draw: Callable[[], Module], head: str, shape: Shape) -> ModuleModel:
    """Make a model, and try it on a few random rows."""
    try:
        module = _drawn(draw)
    except FedcoreError:
        raise
    except Exception as error:
        raise SpecError(
            f"model '{name}' can't be made for inputs {list(shape.inputs)}: {reason(error)}"
        ) from error
    for path, value in module.named_parameters():
        if isinstance(value, torch.nn.parameter.UninitializedParameter) or value.dtype != torch.float32:
            kind = "of no shape yet" if value.dtype == torch.float32 else str(value.dtype)
            raise SpecError(f"model '{name}': parameter '{path}' is {kind}, expected float32 of a shape")
    linear = [path for path, part in module.named_modules() if isinstance(part, torch.nn.Linear)]
    layer = head or (linear[-1] if linear else "")
    if layer not in linear:
        named = f"'{head}'" if head else "at its end"
        raise SpecError(f"model '{name}': found no linear layer {named}, expected one that gives the scores")
    if not any(value.requires_grad for value in module.parameters()):
        raise SpecError(f"model '{name}': no parameter requires a gradient, expected some to train")
    trunk = deepcopy(module) if layer else torch.nn.Identity()
    if layer:
        _replace(trunk, layer, torch.nn.Identity())
    model = ModuleModel(module, trunk, f"{layer}.weight".lstrip("."), draw)
    _try(name, module, model, shape)
    return model


def _drawn(draw: Callable[[], Module], seed: int = 0) -> Module:
    """Make a module in evaluation mode; PyTorch draws from ``seed``, and later from where it was before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return draw().eval()


def _prepared(name: str, module: Module, options: ModuleOptions) -> Module:
    """Follow the options on batch normalisation and dropout."""
    for path, part in [*module.named_modules()]:
        kind = type(part).__name__
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            if options.norm == "refuse":
                raise SpecError(f"model.norm: '{name}' holds {kind} '{path}', expected norm: group or frozen")
            if options.norm == "group":
                if (channels := part.num_features) % options.groups:
                    raise SpecError(
                        f"model.groups: got {options.groups}, expected a divisor of the {channels} channels "
                        f"of '{path}'"
                    )
                _replace(module, path, torch.nn.GroupNorm(options.groups, channels))
        elif getattr(part, "p", 0) and "drop" in kind.lower():
            if options.dropout == "refuse":
                raise SpecError(f"model.dropout: '{name}' holds {kind} '{path}', expected dropout: off")
            _replace(module, path, torch.nn.Identity())
    return module


def _replace(module: Module, path: str, part: Module) -> None:
    parent, _, last = path.rpartition(".")
    setattr(module.get_submodule(parent), last, part)


def _try(name: str, module: Module, model: ModuleModel, shape: Shape) -> None:
    rng = np.random.default_rng(0)
    if shape.vocabulary is None:
        x = torch.as_tensor(rng.standard_normal((ROWS, *shape.inputs)), dtype=torch.float32)
    else:
        x = torch.as_tensor(rng.integers(shape.vocabulary, size=(ROWS, *shape.inputs)))
    named, given = _named(module), x.clone()
    try:
        with torch.no_grad():
            scores = module(x)
            trained = deepcopy(module).train()
            for part in trained.modules():
                if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                    part.eval()  # it was left in place, so its statistics are frozen
            with torch.random.fork_rng(devices=[]):
                training = trained(x)
    except Exception as error:
        raise SpecError(f"model '{name}' can't take inputs {list(shape.inputs)}: {reason(error)}") from error
    if not torch.equal(x, given):
        raise SpecError(f"model '{name}' changes its inputs in place, expected one that leaves them alone")
    if not isinstance(scores, torch.Tensor) or scores.shape != (ROWS, shape.classes):
        got = list(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise SpecError(
            f"model '{name}' returns {got}, expected scores [{ROWS}, {shape.classes}] of {ROWS} rows"
        )
    try:
        same = _equal(scores, model.scores(named, model.features(named, x)))
    except (RuntimeError, KeyError):  # shapes do not fit, or weights have another name
        same = False
    if not same:
        raise SpecError(f"model '{name}': its output is not that of layer {model.head}, expected head=...")
    unchanged = all(torch.equal(value, named[key]) for key, value in trained.named_buffers())
    if not (unchanged and _equal(scores, training)):
        raise SpecError(f"model '{name}' computes in another way in training mode, expected the same in both")


def _named(module: Module) -> Mapping[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _equal(a: Tensor, b: object) -> bool:
    return isinstance(b, torch.Tensor) and torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def torchvision_network(options: TorchvisionOptions, shape: Shape) -> Module:
    """Make a network for the data's classes, which takes colour images."""
    if len(shape.inputs) != 3 or shape.inputs[0] != 3:
        raise SpecError(f"model.arch: torchvision's nets take images [3, height, width], got {shape.inputs}")
    names = torchvision.models.list_models(module=torchvision.models)
    if options.arch not in names:
        raise SpecError(
            f"model.arch: got {shown(options.arch)}, expected a network of torchvision.models"
            f"{nearest(options.arch, names)}"
        )
    net: Module = torchvision.models.get_model(options.arch, weights=None, num_classes=shape.classes)
    return net


PLUGIN = from_module(
    "torchvision",
    torchvision_network,
    options=TorchvisionOptions,
    summary="a network of torchvision by its name (arch: resnet18), untrained",
    source="torchvision.models",
)
