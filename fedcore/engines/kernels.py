"""What numba compiles for the engine ``compiled``: two convolutions with pooling, and a layer of LSTM cells.

A batch goes through all loops in one call; the matrix products are BLAS's. Arrays are C-contiguous. numba
keeps what it compiled in ``FOLDER``, or the user's cache, until this file changes; so all of it stands here.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import llvmlite.binding
import numba
import numpy as np
from numba.core.types import ExternalFunction, intp, void
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

from fedcore.base.lazy import filelock, torch

F = TypeVar("F", bound=Callable[..., Any])
Numbers = NDArray[np.float32]
Places = NDArray[np.int8]

TILE, SIDE = 4, 8  # pixels across a tile of outputs of a 5x5 kernel, and the inputs that it depends on
GROUP = 4  # images whose tiles are multiplied at once, so that they stay in the processor's cache
BLOCK = 256  # numbers of a tile's entries that are combined at once
NO_PLACE = 4  # of a maximum that is not positive, so that nothing flows back
FOLDER = Path(__file__).parent / "__pycache__" / llvmlite.binding.get_host_cpu_name()
ARGUMENTS = 13
TRANSPOSED, PLAIN = ord("T"), ord("N")


def sgemm_address() -> int:
    """Return the address of BLAS's ``sgemm``: of the one that PyTorch uses, or else of SciPy's."""
    try:
        function = ctypes.CDLL(torch._C.__file__).sgemm_
    except (OSError, AttributeError):
        return int(get_cython_function_address("scipy.linalg.cython_blas", "sgemm"))
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def jit(function: F) -> F:
    """Compile a function for the types of its first call; sums keep their order, so bytes repeat."""
    compile = partial(numba.njit, error_model="numpy", fastmath={"contract", "nsz"})
    config: Any = numba.config
    given = config.CACHE_DIR
    try:
        config.CACHE_DIR = given or str(FOLDER)
        return cast("F", compile(cache=True)(function))
    except RuntimeError:  # there is no folder that compiled code can be kept in
        return cast("F", compile()(function))
    finally:
        config.CACHE_DIR = given


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process compiles, where ``FOLDER`` can be written."""
    with ExitStack() as stack:
        with suppress(OSError):
            FOLDER.mkdir(parents=True, exist_ok=True)
            stack.enter_context(filelock.FileLock(FOLDER / ".lock", mode=0o666))
        yield


llvmlite.binding.add_symbol("fedcore_sgemm", sgemm_address())
sgemm: Any = ExternalFunction("fedcore_sgemm", void(*[intp] * ARGUMENTS))


@jit
def multiply(
    a: Numbers, b: Numbers, c: Numbers, transpose_a: bool, transpose_b: bool, alpha: float, beta: float
) -> None:
    """Set C <- alpha A B + beta C, with A or B transposed first if so told."""
    inner = a.shape[0] if transpose_a else a.shape[1]
    sizes = np.array([c.shape[1], c.shape[0], inner, b.shape[1], a.shape[1], c.shape[1]], dtype=np.int32)
    form_a, form_b = TRANSPOSED if transpose_a else PLAIN, TRANSPOSED if transpose_b else PLAIN
    forms, factors = np.array([form_b, form_a], dtype=np.uint8), np.array([alpha, beta], dtype=np.float32)
    n, t, f = sizes.ctypes.data, forms.ctypes.data, factors.ctypes.data
    x, y, z = a.ctypes.data, b.ctypes.data, c.ctypes.data
    # BLAS counts by columns, so it computes C^T = B^T A^T.
    sgemm(t, t + 1, n, n + 4, n + 8, f, y, n + 12, x, n + 16, f + 4, z, n + 20)
    sizes[0], forms[0], factors[0] = 0, 0, 0  # numba frees an array after its last use


class Convolutions(NamedTuple):
    """Two kernels and their biases, or their gradients: the second kernel w as its entries G w G^T."""

    first: Numbers  # [25 depth, first channels]
    first_bias: Numbers
    second: Numbers  # [64, first channels, second channels]
    second_bias: Numbers


class Images(NamedTuple):
    """What a batch of images goes through, group by group, on its way up and down.

    A convolution of tiles is a product for each of 64 entries (Winograd's minimal filtering, Lavin and Gray,
    CVPR 2016): tiles B^T x B, kernels G w G^T, outputs A^T y A.
    """

    a: Numbers  # [8, 4]
    a_turned: Numbers  # [4, 8]
    b: Numbers  # [8, 8], B^T in that notation
    b_turned: Numbers
    second_turned: Numbers  # [64, second, first]: the entries of the second kernel
    padded: Numbers  # [depth, height + 4, width + 4]
    unfolded: Numbers  # [25 depth, height width]: what each weight of a first kernel meets
    sums: Numbers  # [height width, first channels]
    places: Places  # [images, height/2, width/2, first]: of the first layer's maxima
    board: Numbers  # [4 rows + 4, 4 columns + 4, first]: the second layer's inputs, with a border
    lines: Numbers  # [8, 4 columns + 4, first]
    tiles: Numbers  # [groups, 64, tiles, first]
    mixed: Numbers  # [64, tiles, second]
    half: Numbers  # [64, BLOCK]
    outputs: Numbers  # [16, tiles, second]
    second_places: Places  # [groups, 4, tiles, second]
    pooled: Numbers  # [tiles, second]
    back: Numbers  # [64, tiles, first]


@jit
def combine(
    m: Numbers, x: Numbers, first: int, step: int, at: int, y: Numbers, into: int, leap: int, to: int, n: int
) -> None:
    """Set y[into + o leap, to:to+n] = sum_i m[o, i] x[first + i step, at:at+n] for m [outputs, 4 or 8]."""
    x0, x1 = x[first, at : at + n], x[first + step, at : at + n]
    x2, x3 = x[first + 2 * step, at : at + n], x[first + 3 * step, at : at + n]
    for o in range(m.shape[0]):
        row, m0, m1, m2, m3 = y[into + o * leap, to : to + n], m[o, 0], m[o, 1], m[o, 2], m[o, 3]
        if m.shape[1] == TILE:
            for k in range(n):
                row[k] = (m0 * x0[k] + m1 * x1[k]) + (m2 * x2[k] + m3 * x3[k])
            continue
        x4, x5 = x[first + 4 * step, at : at + n], x[first + 5 * step, at : at + n]
        x6, x7 = x[first + 6 * step, at : at + n], x[first + 7 * step, at : at + n]
        m4, m5, m6, m7 = m[o, 4], m[o, 5], m[o, 6], m[o, 7]
        for k in range(n):
            low = (m0 * x0[k] + m1 * x1[k]) + (m2 * x2[k] + m3 * x3[k])
            row[k] = low + ((m4 * x4[k] + m5 * x5[k]) + (m6 * x6[k] + m7 * x7[k]))


@jit
def around(m: Numbers, x: Numbers, y: Numbers, tiles: int, half: Numbers) -> None:
    """Set y <- m x m^T for the square matrix of entries of each tile; ``y`` may be ``x``."""
    outer, inner = m.shape
    length = tiles * x.shape[2]
    entries, results = x.reshape(len(x), -1), y.reshape(len(y), -1)
    for at in range(0, length, BLOCK):
        n = min(BLOCK, length - at)
        for j in range(inner):
            combine(m, entries, j, inner, at, half, j, inner, 0, n)
        for i in range(outer):
            combine(m, half, inner * i, 1, 0, results, outer * i, 1, at, n)


@jit
def replaces(candidate: Any, largest: Any) -> bool:
    """Return whether a candidate replaces the largest number so far: it is larger, or not a number."""
    return bool(candidate > largest or candidate != candidate)


@jit
def pool(x: Numbers, at: int, right: int, down: int, bias: Numbers, out: Numbers, places: Places) -> None:
    """Set ``out`` to the ReLU of the largest of four pixels plus a bias, ``places`` to which of them it is.

    The four are rows of ``x`` [pixels, channels]: that at ``at``, and those ``right`` and ``down`` from it.
    """
    a, b, c, d = x[at], x[at + right], x[at + down], x[at + down + right]
    for k in range(len(bias)):
        largest, place = a[k], np.int32(0)
        place, largest = (np.int32(1), b[k]) if replaces(b[k], largest) else (place, largest)
        place, largest = (np.int32(2), c[k]) if replaces(c[k], largest) else (place, largest)
        place, largest = (np.int32(3), d[k]) if replaces(d[k], largest) else (place, largest)
        value = largest + bias[k]
        places[k] = np.int32(NO_PLACE) if value <= 0 else place
        out[k] = np.float32(0) if value <= 0 else value


@jit
def unpool(x: Numbers, at: int, right: int, down: int, bias: Numbers, delta: Numbers, places: Places) -> None:
    """Set the four pixels to what flows back to them from ``delta``, and add it to the bias's gradient."""
    for place in range(4):
        row = x[at + place // 2 * down + place % 2 * right]
        for k in range(len(delta)):
            row[k] = delta[k] if np.int32(places[k]) == np.int32(place) else np.float32(0)
    for k in range(len(delta)):
        bias[k] += delta[k] if np.int32(places[k]) != np.int32(NO_PLACE) else np.float32(0)


@jit
def unfold(image: Numbers, padded: Numbers, unfolded: Numbers) -> None:
    """Write what each weight of a kernel meets at each pixel of an image [depth, height, width]."""
    depth, height, width = image.shape
    for channel in range(depth):
        for y in range(height):
            for x in range(width):
                padded[channel, y + 2, x + 2] = image[channel, y, x]
    for weight in range(len(unfolded)):
        channel, i, j = weight // 25, weight // 5 % 5, weight % 5
        for y in range(height):
            source = padded[channel, y + i, j : j + width]
            row = unfolded[weight, y * width : (y + 1) * width]
            for x in range(width):
                row[x] = source[x]


@jit
def first_layer(image: Numbers, w: Convolutions, s: Images, places: Places) -> None:
    """Convolve an image with the first kernel, pool, and put the result on the board."""
    unfold(image, s.padded, s.unfolded)
    multiply(s.unfolded, w.first, s.sums, True, False, 1.0, 0.0)
    height, width, _ = places.shape
    across = image.shape[2]
    for y in range(height):
        for x in range(width):
            at = 2 * (y * across + x)
            pool(s.sums, at, 1, across, w.first_bias, s.board[y + 2, x + 2], places[y, x])


@jit
def to_tiles(s: Images, tiles: Numbers, image: int) -> None:
    """Write the entries B^T x B of all tiles of the board, as those of an image of a group."""
    high, wide, channels = s.board.shape
    rows, columns = high // TILE - 1, wide // TILE - 1
    board, across = s.board.reshape(high, -1), s.lines.reshape(SIDE, -1)
    lines, entries = s.lines.reshape(-1, channels), tiles.reshape(SIDE * SIDE, -1)
    for row in range(rows):
        combine(s.b, board, TILE * row, 1, 0, across, 0, 1, 0, wide * channels)
        for i in range(SIDE):
            for column in range(columns):
                tile = (image * rows + row) * columns + column
                start = i * wide + TILE * column
                combine(s.b, lines, start, 1, 0, entries, SIDE * i, 1, tile * channels, channels)


@jit
def pooled_pixels(s: Images, out: Numbers, low: int, quarter: int, put: bool) -> None:
    """Copy a quarter of each tile's pooled pixels to ``out`` [images, second, y, x], or back; 0 outside."""
    high, wide, _ = s.board.shape
    rows, columns = high // TILE - 1, wide // TILE - 1
    images, channels, height, width = out.shape
    for tile in range(min(GROUP, images - low) * rows * columns):
        image, rest = low + tile // (rows * columns), tile % (rows * columns)
        y, x = 2 * (rest // columns) + quarter // 2, 2 * (rest % columns) + quarter % 2
        inside, cell = y < height and x < width, s.pooled[tile]
        for k in range(channels):
            if put and inside:
                out[image, k, y, x] = cell[k]
            elif not put:
                cell[k] = out[image, k, y, x] if inside else np.float32(0)


@jit
def corner(quarter: int, s: Images) -> int:
    """Return where a quarter of the first tile begins among all pixels of a group's outputs."""
    return int((2 * TILE * (quarter // 2) + 2 * (quarter % 2)) * s.outputs.shape[1])


@jit
def group_of(x: Numbers, s: Images, group: int) -> tuple[Numbers, int, int, int]:
    """Return a group's tiles, its first image, and how many images and tiles it has."""
    low, tiles = GROUP * group, s.tiles[group]
    images = min(GROUP, len(x) - low)
    return tiles, low, images, images * (tiles.shape[1] // GROUP)


@jit
def images_forward(x: Numbers, w: Convolutions, s: Images, out: Numbers) -> None:
    """Convolve, pool and rectify ``x`` [images, depth, y, x] twice, to ``out`` [images, second, y, x]."""
    pixels, right = s.outputs.reshape(-1, s.outputs.shape[2]), s.outputs.shape[1]
    s.board[:] = np.float32(0)
    for group in range(len(s.tiles)):
        tiles, low, images, count = group_of(x, s, group)
        for image in range(images):
            first_layer(x[low + image], w, s, s.places[low + image])
            to_tiles(s, tiles, image)
        for entry in range(SIDE * SIDE):
            multiply(tiles[entry, :count], w.second[entry], s.mixed[entry, :count], False, False, 1.0, 0.0)
        around(s.a_turned, s.mixed, s.outputs, count, s.half)
        for quarter in range(4):
            for tile in range(count):
                at, places = corner(quarter, s) + tile, s.second_places[group, quarter, tile]
                pool(pixels, at, right, TILE * right, w.second_bias, s.pooled[tile], places)
            pooled_pixels(s, out, low, quarter, True)


@jit
def fold(s: Images, image: int) -> None:
    """Sum what flows back to the pixels of an image of a group onto the board."""
    high, wide, channels = s.board.shape
    rows, columns = high // TILE - 1, wide // TILE - 1
    s.board[:] = np.float32(0)
    for row in range(rows):
        for column in range(columns):
            tile = (image * rows + row) * columns + column
            for entry in range(SIDE * SIDE):
                cell = s.board[TILE * row + entry // SIDE, TILE * column + entry % SIDE]
                flowing = s.back[entry, tile]
                for k in range(channels):
                    cell[k] += flowing[k]


@jit
def first_layer_back(image: Numbers, s: Images, places: Places, into: Convolutions) -> None:
    """Add an image's gradients of the first kernel and of its bias, from those on the board."""
    height, width, _ = places.shape
    across = image.shape[2]
    for y in range(height):
        for x in range(width):
            at = 2 * (y * across + x)
            unpool(s.sums, at, 1, across, into.first_bias, s.board[y + 2, x + 2], places[y, x])
    unfold(image, s.padded, s.unfolded)
    multiply(s.unfolded, s.sums, into.first, False, False, 1.0, 1.0)


@jit
def images_backward(x: Numbers, delta: Numbers, s: Images, into: Convolutions) -> None:
    """Add to ``into`` the gradients after ``images_forward``, from ``delta`` in the shape of its ``out``."""
    pixels, right = s.outputs.reshape(-1, s.outputs.shape[2]), s.outputs.shape[1]
    s.sums[:] = np.float32(0)
    for group in range(len(s.tiles)):
        tiles, low, images, count = group_of(x, s, group)
        for quarter in range(4):
            pooled_pixels(s, delta, low, quarter, False)
            for tile in range(count):
                at, places = corner(quarter, s) + tile, s.second_places[group, quarter, tile]
                unpool(pixels, at, right, TILE * right, into.second_bias, s.pooled[tile], places)
        around(s.a, s.outputs, s.mixed, count, s.half)
        for entry in range(SIDE * SIDE):
            mixed = s.mixed[entry, :count]
            multiply(tiles[entry, :count], mixed, into.second[entry], True, False, 1.0, 1.0)
            multiply(mixed, s.second_turned[entry], s.back[entry, :count], False, False, 1.0, 0.0)
        around(s.b_turned, s.back, s.back, count, s.half)
        for image in range(images):
            fold(s, image)
            first_layer_back(x[low + image], s, s.places[low + image], into)


class Gates(NamedTuple):
    """A layer's weights and the sum of its two biases, or their gradients."""

    weights: Numbers  # [4 hidden, width]
    recurrent: Numbers  # [4 hidden, hidden]
    bias: Numbers  # [4 hidden]


class Cells(NamedTuple):
    """What a layer of LSTM cells keeps of a batch. ``gates``, i, f, g and o, are sums at first, values then,
    and gradients in the sums at last.
    """

    turned: Numbers  # [hidden, 4 hidden]: the recurrent weights, transposed
    gates: Numbers  # [steps, batch, 4 hidden]
    states: Numbers  # [steps + 1, batch, hidden], from zero
    tanhs: Numbers  # [steps, batch, hidden], of the later states
    outputs: Numbers  # [steps + 1, batch, hidden], from zero
    flowing: Numbers  # [batch, hidden]: the gradient in the present state
    below: Numbers  # [steps, batch, width]: that in the layer's inputs, or empty where it is not wanted


@jit
def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) with 2^y, y = -x / log 2, by a polynomial: up to a relative 1e-6."""
    one, power = np.float32(1), x * np.float32(-1.442695)
    power = min(max(power, np.float32(-126)), np.float32(126))
    whole = np.rint(power)
    part, value = power - whole, np.float32(1.5403530e-4)
    value = value * part + np.float32(1.3333558e-3)
    value = value * part + np.float32(9.6181291e-3)
    value = value * part + np.float32(5.5504109e-2)
    value = value * part + np.float32(2.4022651e-1)
    value = value * part + np.float32(6.9314718e-1)
    value = value * part + one
    exponent = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    return one / (one + value * exponent.view(np.float32))


@jit
def hyperbolic(x: Any) -> Any:
    """Return tanh x, of small numbers by its series, up to a relative 1e-6."""
    one, square = np.float32(1), x * x
    small = x * (one - square * (np.float32(1 / 3) - square * np.float32(2 / 15)))
    return small if square < np.float32(0.01) else np.float32(2) * sigmoid(np.float32(2) * x) - one


@jit
def cells_forward(
    gates: Numbers, bias: Numbers, before: Numbers, state: Numbers, tanh: Numbers, output: Numbers
) -> None:
    """Take a step: ``gates`` to values; the state [batch, hidden] from that before, its tanh, the output."""
    batch, hidden = state.shape
    for row in range(batch):
        sums, c0, c, t, h = gates[row], before[row], state[row], tanh[row], output[row]
        i, f = sums[:hidden], sums[hidden : 2 * hidden]
        g, o = sums[2 * hidden : 3 * hidden], sums[3 * hidden :]
        for k in range(hidden):
            i[k] = sigmoid(i[k] + bias[k])
            f[k] = sigmoid(f[k] + bias[hidden + k])
            g[k] = hyperbolic(g[k] + bias[2 * hidden + k])
            o[k] = sigmoid(o[k] + bias[3 * hidden + k])
            c[k] = f[k] * c0[k] + i[k] * g[k]
            t[k] = hyperbolic(c[k])
            h[k] = o[k] * t[k]


@jit
def cells_back(
    gates: Numbers, bias: Numbers, before: Numbers, tanh: Numbers, delta: Numbers, flowing: Numbers
) -> None:
    """Take a step back: ``gates`` to gradients in their sums, added to those in ``bias``; ``flowing`` to that
    in the state before.
    """
    one = np.float32(1)
    batch, hidden = tanh.shape
    for row in range(batch):
        values, c0, t, d, flow = gates[row], before[row], tanh[row], delta[row], flowing[row]
        i, f = values[:hidden], values[hidden : 2 * hidden]
        g, o = values[2 * hidden : 3 * hidden], values[3 * hidden :]
        for k in range(hidden):
            enter, forget, new, out = i[k], f[k], g[k], o[k]
            total = flow[k] + d[k] * out * (one - t[k] * t[k])
            i[k] = total * new * enter * (one - enter)
            f[k] = total * c0[k] * forget * (one - forget)
            g[k] = total * enter * (one - new * new)
            o[k] = d[k] * t[k] * out * (one - out)
            flow[k] = total * forget
        for k in range(len(bias)):
            bias[k] += values[k]


@jit
def lstm_forward(x: Numbers, w: Gates, s: Cells) -> None:
    """Run a layer over inputs ``x`` [steps batch, width]."""
    steps, batch, _ = s.tanhs.shape
    gates = s.gates.reshape(steps * batch, -1)
    multiply(x, w.weights, gates, False, True, 1.0, 0.0)
    for step in range(steps):
        if step:
            multiply(s.outputs[step], s.turned, s.gates[step], False, False, 1.0, 1.0)
        before, state = s.states[step], s.states[step + 1]
        cells_forward(s.gates[step], w.bias, before, state, s.tanhs[step], s.outputs[step + 1])


@jit
def lstm_backward(
    x: Numbers, w: Gates, delta: Numbers, s: Cells, into: Gates, keep: float, scale: float
) -> None:
    """Write the gradients in a layer's inputs and bias; set its weights' into <- keep into + scale gradient.

    ``delta`` [steps, batch, hidden] are those in its outputs from above; those from later steps are added.
    """
    steps, batch, hidden = s.tanhs.shape
    s.flowing[:], into.bias[:] = np.float32(0), np.float32(0)
    for step in range(steps - 1, -1, -1):
        if step < steps - 1:
            multiply(s.gates[step + 1], w.recurrent, delta[step], False, False, 1.0, 1.0)
        cells_back(s.gates[step], into.bias, s.states[step], s.tanhs[step], delta[step], s.flowing)
    gates = s.gates.reshape(steps * batch, -1)
    earlier = s.outputs[:steps].reshape(steps * batch, hidden)
    if s.below.size:
        below = s.below.reshape(steps * batch, s.below.shape[2])
        multiply(gates, w.weights, below, False, False, 1.0, 0.0)
    multiply(gates, earlier, into.recurrent, True, False, scale, keep)
    multiply(gates, x, into.weights, True, False, scale, keep)
