"""Packages that are slow to import, each loaded at the first use of one of its names.

So every import can be at the top of its module, and a command that needs none of these starts at once. Such a
name used while a module is imported (in a decorator, a default, a constant or an annotation without quotes)
would load its package there.
Single classes, such as ``Tensor`` and ``DataFrame``, are for annotations alone, and load nothing there:
``isinstance`` needs ``torch.Tensor``.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fedcore.base.errors import MissingPackage, reason


class Lazy(ModuleType):
    """A package that is imported when a name of it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"{self.__name__} is not loaded for {name}")
        package, path = import_module(self.__name__), f"{self.__name__}.{name}"
        try:
            value = getattr(package, name) if hasattr(package, name) else import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None
        setattr(self, name, value)
        return value


def optional(package: str, what: str, advice: str) -> Any:
    """Return a package that is not always installed; raise MissingPackage with who needs it, and advice."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise MissingPackage(f"{what}: needs the package {package.split('.')[0]}; {advice}") from None
    except ImportError as error:
        raise MissingPackage(f"{what}: {package} can't be imported ({reason(error)}); {advice}") from error


if TYPE_CHECKING:
    import cvxpy
    import filelock
    import jinja2
    import matplotlib.pyplot
    import mkdocs.commands.build as mkdocs_build
    import mkdocs.config as mkdocs_config
    import pandas as pd
    import PIL.Image
    import PIL.ImageOps
    import PIL.PngImagePlugin
    import plotly
    import pooch
    import requests
    import scipy
    import seaborn
    import sklearn
    import torch
    import torchvision
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame, Series
    from torch import Tensor
    from torch import device as Device
    from torch.nn import Module, functional
else:
    Axes = DataFrame = Device = Figure = Module = Tensor = Any
    Series = list  # which takes a type of its elements
    functional = Lazy("torch.nn.functional")
    pd = Lazy("pandas")
    torch, torchvision, scipy, matplotlib = map(Lazy, ("torch", "torchvision", "scipy", "matplotlib"))
    cvxpy, sklearn, requests, pooch = map(Lazy, ("cvxpy", "sklearn", "requests", "pooch"))
    mkdocs_build, mkdocs_config = map(Lazy, ("mkdocs.commands.build", "mkdocs.config"))
    filelock, jinja2, PIL, plotly, seaborn = map(Lazy, ("filelock", "jinja2", "PIL", "plotly", "seaborn"))
