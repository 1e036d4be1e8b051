"""The fastest engine for the CNN and the LSTM on a CPU: compiled loops take a batch through their layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from numpy.typing import NDArray

from fedcore.base.lazy import Tensor, optional, torch
from fedcore.engines import BoundTerm, Gradient, analytic
from fedcore.engines.analytic import Back, Below, Scratch, buffers_of, dense_head
from fedcore.engines.fused import Fused
from fedcore.engines.problem import Problem
from fedcore.models import Parameters
from fedcore.models.cnn import Cnn
from fedcore.models.lstm import Lstm
from fedcore.spec import Spec

ADVICE = "install fedrepro[compiled]"
PIECE = 128  # rows that pass through at once
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)  # where polynomials are multiplied, beside infinity


def unsupported(spec: Spec, problem: Problem) -> str | None:
    """Return why no step of a run is compiled, or None if it is."""
    if problem.start.device.type != "cpu":
        return f"the device '{problem.start.device.type}'"
    if type(problem.model) in {Cnn, Lstm} and spec.dtype != "float32":
        return f"dtype {spec.dtype} with the model '{spec.model.name}'"
    if type(problem.model) is not Lstm:
        return analytic.unsupported(spec, problem)
    return f"precision {spec.precision}" if spec.precision != "fp32" else None


@dataclass(frozen=True)
class Compiled(Fused):
    """Compiled loops for the CNN and the LSTM; other models are trained as ``fused`` trains them."""

    name: str = "compiled"

    def __post_init__(self) -> None:
        """Raise MissingPackage where numba is needed and not installed."""
        if isinstance(self.problem.model, Cnn | Lstm):
            optional("numba", "engine 'compiled'", ADVICE)
            compile_for(type(self.problem.model))

    @property
    def versions(self) -> dict[str, str]:
        """That of numba where it compiled the model's loops."""
        return {"numba": version("numba")} if isinstance(self.problem.model, Cnn | Lstm) else {}

    def bind(self, w: Tensor, out: Tensor, terms: Sequence[BoundTerm]) -> Gradient:
        model = self.problem.model
        if not isinstance(model, Cnn | Lstm):
            return super().bind(w, out, terms)
        into, p = model.trainable.views(out), self.problem.parameters(w)
        on_features = [term.gradient for term in terms if term.feature_loss]
        below, head = parts(model, p, into, self.scratch)
        return dense_head(below, head, p, into, on_features)


def make(problem: Problem, precision: str) -> Compiled:
    """Return the engine of a problem, which passes rows through the model in compiled loops too."""
    model = problem.model
    if isinstance(model, Cnn | Lstm):
        scratch: Scratch = {}  # rows pass through in the middle of a gradient, whose buffers must stay
        problem = replace(problem, features=partial(features, model, scratch))
    return Compiled(problem, precision)


def parts(model: Cnn | Lstm, p: Parameters, out: Parameters, scratch: Scratch) -> tuple[Below, Sequence[str]]:
    """Return what is compiled of a model, as ``dense_head`` takes it, and the names of the layers behind."""
    if isinstance(model, Cnn):
        return partial(images, p, scratch), ("fc1", "fc2")
    return partial(sequences, model, p, out, scratch), ("dense", "fc") if model.dense else ("fc",)


def features(model: Cnn | Lstm, scratch: Scratch, p: Parameters, x: Tensor) -> Tensor:
    """Return phi(x) [rows, features] of rows that only pass through, ``PIECE`` by ``PIECE``.

    Buffers of a whole piece stay in ``scratch``.
    """
    outputs, hidden = list[Tensor](), list[str]()
    for rows in x.split(PIECE):
        below, (*hidden, _) = parts(model, p, p, scratch if len(rows) == PIECE else {})
        outputs.append(below(rows)[0].flatten(1).clone())
    phi = torch.cat(outputs)
    for name in hidden:
        phi = torch.addmm(p[f"{name}.bias"], phi, p[f"{name}.weight"].T).relu_()
    return phi


def images(p: Parameters, scratch: Scratch, x: Tensor) -> tuple[Tensor, Back]:
    """Convolve, pool and rectify images twice, the second time by products of tiles."""
    k, (first, second) = kernels(), (p["conv1.weight"], p["conv2.weight"])
    s = buffers_of(scratch, len(x), lambda: image_buffers(x, len(first), len(second)))
    x, around = x.contiguous(), kernel_entries().to(x)
    entries = (around @ second.permute(2, 3, 1, 0).reshape(25, -1)).view(-1, len(first), len(second))
    s.second_turned[:] = entries.mT
    given = first.flatten(1).T.contiguous(), p["conv1.bias"], entries, p["conv2.bias"]
    out = x.new_empty(len(x), len(second), x.shape[2] // 4, x.shape[3] // 4)
    k.images_forward(_array(x), k.Convolutions(*map(_array, given)), s, _array(out))

    def back(delta: Tensor, keep: float, alpha: float) -> dict[str, Tensor]:
        into = [torch.zeros_like(values) for values in given]
        k.images_backward(_array(x), _array(delta), s, k.Convolutions(*map(_array, into)))
        kernel = (around.T @ into[2].flatten(1)).view(5, 5, len(first), len(second)).permute(3, 2, 0, 1)
        into[0], into[2] = into[0].T.reshape(first.shape), kernel
        return dict(zip(("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"), into, strict=True))

    return out, back


def image_buffers(x: Tensor, first: int, second: int) -> Any:
    """Return what images ``x`` [images, depth, height, width] need on their way through such channels."""
    k, (size, depth, height, width) = kernels(), x.shape
    rows, columns = -(-(height // 2) // k.TILE), -(-(width // 2) // k.TILE)
    groups, tiles, entries = -(-size // k.GROUP), k.GROUP * rows * columns, k.SIDE**2
    border, (a, _, b) = k.SIDE - k.TILE, (m.to(x) for m in winograd())
    wide = k.TILE * columns + border
    buffers = {
        "a": a,
        "a_turned": a.T.contiguous(),
        "b": b,
        "b_turned": b.T.contiguous(),
        "second_turned": x.new_empty(entries, second, first),
        "padded": x.new_zeros(depth, height + 4, width + 4),
        "unfolded": x.new_empty(25 * depth, height * width),
        "sums": x.new_empty(height * width, first),
        "places": torch.empty(size, height // 2, width // 2, first, dtype=torch.int8),
        "board": x.new_empty(k.TILE * rows + border, wide, first),
        "lines": x.new_empty(k.SIDE, wide, first),
        "tiles": x.new_empty(groups, entries, tiles, first),
        "mixed": x.new_empty(entries, tiles, second),
        "half": x.new_empty(entries, k.BLOCK),
        "outputs": x.new_empty(k.TILE**2, tiles, second),
        "second_places": torch.empty(groups, 4, tiles, second, dtype=torch.int8),
        "pooled": x.new_empty(tiles, second),
        "back": x.new_empty(entries, tiles, first),
    }
    return k.Images(**{name: _array(values) for name, values in buffers.items()})


@cache
def winograd() -> tuple[Tensor, Tensor, Tensor]:
    """Return A [8, 4], G [8, 5] and B^T [8, 8] of 4 outputs and 5 weights: y = A^T ((G w) (B^T x)).

    Values at points are multiplied, those of a polynomial with w as its coefficients and of one with x; each
    point's scale makes its rows of G and of B^T equally long, for the sake of rounding.
    """
    powers = [torch.tensor(POINTS, dtype=torch.float64)[:, None] ** torch.arange(n) for n in (4, 5, 8)]
    last = [torch.eye(n, dtype=torch.float64)[-1:] for n in (4, 5, 8)]
    a, g, v = (torch.cat(pair) for pair in zip(powers, last, strict=True))
    b = torch.linalg.inv(v).T
    scale = (g.norm(dim=1) / b.norm(dim=1)).sqrt()[:, None]
    return a, g / scale, b * scale


@cache
def kernel_entries() -> Tensor:
    """Return what maps a kernel's 25 weights w to the 64 entries G w G^T."""
    _, g, _ = winograd()
    return torch.kron(g, g)


def sequences(
    model: Lstm, p: Parameters, out: Parameters, scratch: Scratch, x: Tensor
) -> tuple[Tensor, Back]:
    """Run tokens [batch, steps] through the embedding and all layers, to the last outputs [batch, hidden]."""
    k, tokens, (batch, steps) = kernels(), x.T.flatten(), x.shape
    embedding = p["embedding.weight"]
    widths = [0 if model.vectors is not None else model.width, *[model.hidden] * (model.layers - 1)]
    cells = buffers_of(
        scratch, batch, lambda: [cell_buffers(embedding, steps, batch, n, model.hidden) for n in widths]
    )
    fed, layers = [embedding.index_select(0, tokens).numpy()], []
    for depth, s in enumerate(cells):
        weights, recurrent, *biases = (p[name] for name in cell_names(depth))
        torch.from_numpy(s.turned).copy_(recurrent.T)
        layers.append(k.Gates(*map(_array, (weights, recurrent, biases[0] + biases[1]))))
        k.lstm_forward(fed[-1], layers[-1], s)
        fed.append(s.outputs[1:].reshape(steps * batch, -1))

    def back(delta: Tensor, keep: float, alpha: float) -> dict[str, Tensor]:
        gradients: dict[str, Tensor] = {}
        flowing = delta.new_zeros(steps, batch, model.hidden)
        flowing[-1] = delta
        for depth, s in reversed([*enumerate(cells)]):
            *names, first, second = cell_names(depth)
            bias = torch.empty_like(p[first])
            into = k.Gates(*map(_array, (*(out[name] for name in names), bias)))
            k.lstm_backward(fed[depth], layers[depth], flowing.numpy(), s, into, keep, alpha)
            gradients |= {first: bias, second: bias}
            flowing = torch.from_numpy(s.below)
        if model.vectors is None:
            rows = flowing.flatten(0, 1)
            gradients["embedding.weight"] = torch.zeros_like(embedding).index_add_(0, tokens, rows)
        return gradients

    return torch.from_numpy(fed[-1][-batch:]), back


def cell_buffers(like: Tensor, steps: int, batch: int, width: int, hidden: int) -> Any:
    """Return what a layer needs for so many sequences, and gradients in inputs of such a width."""
    shapes = {
        "turned": (hidden, 4 * hidden),
        "gates": (steps, batch, 4 * hidden),
        "states": (steps + 1, batch, hidden),
        "tanhs": (steps, batch, hidden),
        "outputs": (steps + 1, batch, hidden),
        "flowing": (batch, hidden),
        "below": (steps, batch, width),
    }
    return kernels().Cells(**{name: _array(like.new_zeros(shape)) for name, shape in shapes.items()})


def cell_names(depth: int) -> list[str]:
    """Return the names of a layer's input weights, recurrent weights, and biases."""
    return [f"lstm.{part}_l{depth}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


@cache
def compile_for(model: type[Cnn | Lstm]) -> None:
    """Have numba compile what a model needs, or load it, for a row, while no other process does."""
    with kernels().alone():
        if model is Cnn:
            layout = Cnn((1, 4, 4), 1, (1, 1), 1).trainable
            p = layout.views(torch.zeros(layout.size))
            rows, back = images(p, {}, torch.zeros(1, 1, 4, 4))
        else:
            cells = Lstm(1, 1, 1, 1, 1)
            p = cells.trainable.views(torch.zeros(cells.trainable.size))
            rows, back = sequences(cells, p, p, {}, torch.zeros(1, 1, dtype=torch.int64))
        back(rows, 0.0, 1.0)


def kernels() -> Any:
    """Return the module of what numba compiles, which needs numba when it is imported."""
    from fedcore.engines import kernels  # noqa: PLC0415

    return kernels


def _array(values: Tensor) -> NDArray[Any]:
    assert values.is_contiguous()
    return values.numpy()
