"""Readers: one function a file format, from a path to plain arrays or values.

Each raises ``DataError``, one line that names the file, where that is missing, damaged, not of its format, or
lacks what is asked for.
"""

import io
import json
import math
import pickle
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcore.base.errors import DataError, reason, shown
from fedcore.base.lazy import PIL, DataFrame, Series, optional, pd, scipy
from fedcore.base.options import suggestion

USES = ("train_x", "train_y", "test_x", "test_y")
PIXELS = 3 * 32 * 32
SPEAKER = re.compile(r"^([A-Z][A-Za-z'\-., ]*)\t(.*)$")
DIRECTION = re.compile(r"\[[^\]]*\]?")
LARGEST = float(np.finfo(np.float32).max)
WHOLE = r"\s*[-+]?(0|[1-9]\d*)(\.\d*)?([eE][-+]\d\d)?\s*"  # 1.00e+00 of a program; no 007, and no 1e3
NAMELESS = (bytes, dict, list, np.ndarray)
NO_SPEAKERS = ("ACT", "SCENE", "PROLOGUE", "EPILOGUE")


def read_npz(path: Path, *names: str) -> tuple[NDArray[Any], ...]:
    """Read arrays by name; objects are refused."""
    with reading(path, "a readable npz archive"):
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise DataError(f"{path}: expected an npz archive with {', '.join(names)}, found one bare array")
        with loaded as archive:
            if missing := [name for name in names if name not in archive.files]:
                present = ", ".join(archive.files) or "nothing"
                raise DataError(f"{path}: array '{missing[0]}' is missing; found: {present}")
            return tuple(archive[name] for name in names)


@contextmanager
def reading(path: Path | str, what: str) -> Iterator[None]:
    """Make one line of whatever a library raises on bytes that are not ``what``."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except Exception as error:
        raise DataError(f"{path}: not {what} ({type(error).__name__}: {reason(error)})") from None


def whole(path: Path | str, values: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers that were read from a file as int64; refuse fractions, and those too large for it."""
    with np.errstate(invalid="ignore"):
        integers = values.astype(np.int64)
    bad = np.argwhere((integers != values) | ((integers < 0) != (values < 0)))
    if len(bad):
        wrong = values[tuple(bad[0])]
        raise DataError(f"{path}: {wrong} in row {bad[0][0]}, expected whole numbers from -2^63 to 2^63 - 1")
    return integers


def read_numbers(path: Path, columns: int, header: bool = False) -> NDArray[np.float64]:
    """Read a table of finite numbers [n, columns], with one row or more."""
    frame = _read(path, header)
    if frame.shape[1] != columns:
        raise DataError(f"{path}: {frame.shape[1]} columns, expected {columns}")
    if not len(frame):
        raise DataError(f"{path}: no rows")
    return numbers(path, frame)


def numbers(path: Path | str, frame: DataFrame) -> NDArray[np.float64]:
    """Return a table's numbers [n, columns]; refuse an empty cell, and text."""
    x = np.empty(frame.shape)
    for place, (_, column) in enumerate(frame.items()):
        cells = column if column.dtype.kind in "biuf" else column.astype(str)
        x[:, place] = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        refuse(path, column, ~np.isfinite(x[:, place]), "a number")
        refuse(path, column, np.abs(x[:, place]) > LARGEST, "a number that float32 can hold")
    return x


def refuse(path: Path | str, column: Series[Any], wrong: Any, expected: str) -> None:
    """Name the first cell of a column that is ``wrong`` [n], if one is."""
    for row in np.flatnonzero(wrong)[:1]:
        cell = "an empty cell" if column.isna().iloc[row] else shown(column.astype(object).iloc[row])
        raise DataError(f"{path}: column '{column.name}', row {row + 1}: {cell}, expected {expected}")


def read_table(path: Path, needed: Sequence[str], names: Sequence[str | None] = ()) -> DataFrame:
    """Read the columns of a csv or parquet table that are needed.

    Empty cells and words such as NA or null are missing values. Columns of ``names`` in a csv keep their
    text, such as 007 or NA, unless they hold whole numbers without zeros in front. Numbers with a fraction or
    an empty cell stay as they are read.
    """
    frame = _read(path)
    if names and not _parquet(path):
        texts = pd.read_csv(
            path, usecols=lambda name: name in names, dtype=str, keep_default_na=False, na_values=[""]
        )
        for name, text in texts.items():
            column = frame[name]
            plain = column.dtype.kind in "iuf" and text.str.fullmatch(WHOLE).eq(True).all()
            if not plain and (column.dtype.kind == "O" or namable(column).all()):
                frame[name] = text
    return columns(path, frame, needed)


def refuse_foreign_name(path: Path) -> None:
    """Refuse a file whose name no result could hold."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{path}: a name that is not in UTF-8; rename it") from None


def namable(column: Series[Any]) -> Series[bool]:
    """Return which cells of a column are names or whole numbers [n]."""
    if column.dtype.kind == "f":
        return (column.abs().lt(2.0**53) & (column % 1 == 0)).fillna(False)
    return column.notna() & ~column.astype(object).map(lambda cell: isinstance(cell, NAMELESS))


def _parquet(path: Path) -> bool:
    with path.open("rb") as content:
        return content.read(4) == b"PAR1"


def _read(path: Path, header: bool = True) -> DataFrame:
    with reading(path, "a readable table, csv in UTF-8 or parquet"):
        if _parquet(path):
            stored = pd.read_parquet(path)
            named = [name for name in stored.index.names if name is not None]
            return stored.reset_index(named) if named else stored
        frame: DataFrame = pd.read_csv(path, low_memory=False, header=0 if header else None)
        if header:  # two rows: a longer second one is refused, not taken for an index
            names = pd.read_csv(path, nrows=2, dtype=str, header=None).iloc[0].dropna()
            if twice := names[names.duplicated()].tolist():
                raise DataError(f"{path}: column '{twice[0]}' is there twice")
        return frame


def columns(path: Path | str, frame: DataFrame, needed: Sequence[str]) -> DataFrame:
    """Return the columns that are needed, which must be there; all of them unless some are named."""
    if missing := [name for name in needed if name not in frame.columns]:
        hint = suggestion(missing[0], map(str, frame.columns))
        raise DataError(f"{path}: column '{missing[0]}' is missing{hint}")
    return frame.loc[:, frame.columns.isin(needed)] if needed else frame


def coded(ids: Sequence[object]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return each id's place in order, and the ids: numerically if all are numbers, else as text."""
    texts = list(map(str, ids))
    unique = set(texts)
    numbers = all(re.fullmatch(r"-?\d+", text, re.ASCII) for text in unique)
    names = sorted(unique, key=lambda text: (int(text) if numbers else 0, text))
    place = {name: index for index, name in enumerate(names)}
    return np.array([place[text] for text in texts], np.int64), tuple(names)


def read_picture(path: Path, size: tuple[int, int] | None, content: bytes | None) -> NDArray[np.uint8]:
    """Read an image file, or its content, into bytes [1 or 3, height, width], upright and maybe resized."""
    stored = path if content is None else io.BytesIO(content)
    with reading(path, "a readable image"), PIL.Image.open(stored) as image:
        if image.mode.startswith(("I", "F")):
            raise DataError(f"{path}: pixels of mode {image.mode}, expected 8 bits a channel")
        if (frames := getattr(image, "n_frames", 1)) > 1 and image.format != "MPO":  # a camera's JPEG
            raise DataError(f"{path}: {frames} pictures in one file, expected one")
        if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
            raise DataError(f"{path}: pixels that are transparent, expected none; lay it on a background")
        upright = PIL.ImageOps.exif_transpose(image)
        converted = upright.convert("L" if upright.mode in {"1", "L", "LA"} else "RGB")
        pixels = np.asarray(converted.resize(size[::-1]) if size else converted)
    return pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, in the shape [n, ...] that its header says."""
    with reading(path, "a readable file"):
        data = path.read_bytes()
    if len(data) < 4 or data[:3] != b"\x00\x00\x08" or not 1 <= data[3] <= 4:
        raise DataError(f"{path}: not an idx file of unsigned bytes")
    start = 4 + 4 * data[3]
    shape = tuple(int(size) for size in np.frombuffer(data[4:start][: (len(data) - 4) // 4 * 4], ">u4"))
    if len(shape) != data[3] or len(data) - start != math.prod(shape):
        raise DataError(f"{path}: {len(data) - start:,} bytes of data, header says {math.prod(shape):,}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


class _Pickled:
    """What a pickle says of an array of integers, or of its type: ``given`` when it is made, then its state.

    Numpy's own reading of these crashes the process on some damaged bytes.
    """

    def __init__(self, *given: Any) -> None:
        self.given = given

    def __setstate__(self, state: Sequence[Any]) -> None:
        self.state = state

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        _, shape, kind, by_column, content = self.state
        order = kind.state[1]
        dtype = np.dtype(kind.given[0]).newbyteorder(order.decode() if isinstance(order, bytes) else order)
        if dtype.kind not in "iu":
            raise pickle.UnpicklingError(f"arrays of {dtype}, expected integers")
        return np.frombuffer(content, dtype).reshape(shape, order="F" if by_column else "C")


ALLOWED: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Pickled,
    ("numpy", "dtype"): _Pickled,
    ("numpy.core.multiarray", "_reconstruct"): _Pickled,
    ("numpy._core.multiarray", "_reconstruct"): _Pickled,
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin1"),  # bytes in old protocols
}


class _ArraysOnly(pickle._Unpickler):
    """Refuses every global but the ones numpy arrays are pickled with.

    It is the reader in Python: the one in C allocates what damaged bytes ask for, up to all memory. So does
    the instruction for an array of bytes, which no batch holds.
    """

    dispatch: ClassVar = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return ALLOWED[module, name]


def _unpickled(content: bytes) -> Any:
    try:
        return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except EOFError:
        raise pickle.UnpicklingError(f"it ends after {len(content):,} bytes, too early") from None
    except (KeyError, IndexError):
        raise pickle.UnpicklingError(f"damaged, or no pickle: it begins with {content[:8]!r}") from None


def read_cifar(
    path: Path, labels: bytes = b"labels", classes: int = 10
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read one batch of CIFAR-10, or of CIFAR-100: images [n, 3, 32, 32] (uint8) and labels [n] from 0."""
    with reading(path, "a CIFAR python batch"):
        values = _unpickled(path.read_bytes())
        x, y = np.asarray(values[b"data"]), np.asarray(values[labels])
    if x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != PIXELS or y.shape != x.shape[:1]:
        raise DataError(
            f"{path}: expected uint8 images [n, {PIXELS}] and n labels, got {x.dtype}{list(x.shape)}"
        )
    if y.dtype.kind not in "iu" or (len(y) and not 0 <= y.min() <= y.max() < classes):
        raise DataError(f"{path}: labels must be integers from 0 to {classes - 1}")
    return x.reshape(-1, 3, 32, 32), y.astype(np.int64)


def read_house_numbers(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a file of SVHN, which has 10 for 0: images [n, 3, 32, 32] (uint8) and labels [n] from 0 to 9."""
    with reading(path, "a MATLAB file of SVHN"):
        values = scipy.io.loadmat(io.BytesIO(path.read_bytes()))
        x, y = values["X"].transpose(3, 2, 0, 1), values["y"].reshape(-1).astype(np.int64) % 10
    if x.dtype != np.uint8 or x.shape != (len(y), 3, 32, 32):
        raise DataError(f"{path}: expected uint8 images [32, 32, 3, n] and n labels, got {x.dtype} {x.shape}")
    return x, y


def read_libsvm(path: Path, features: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read a file into dense x [n, features], all finite, and the labels as they stand, one row or more."""
    with reading(path, "LIBSVM text"):
        lines = path.read_text(encoding="ascii").splitlines()
    rows = [(number, tokens) for number, line in enumerate(lines, 1) if (tokens := line.split())]
    if not rows:
        raise DataError(f"{path}: no rows")
    x = np.zeros((len(rows), features))
    y = np.zeros(len(rows), np.int64)
    for row, (number, tokens) in enumerate(rows):
        try:
            label = float(tokens[0])
            y[row] = int(label)
            if y[row] != label:
                raise ValueError(f"label {tokens[0]} is no integer")
            pairs = [token.split(":") for token in tokens[1:]]
            index = np.array([int(pair[0]) for pair in pairs], np.int64)
            x[row, index - 1] = [float(value) for _, value in pairs]
        except (ValueError, IndexError, OverflowError) as error:
            raise DataError(f"{path}: line {number}: not 'label index:value ...' ({error})") from None
        if len(index) and (index[0] < 1 or np.any(np.diff(index) <= 0)):
            raise DataError(f"{path}: line {number}: indices must start at 1 and increase")
    if not np.isfinite(x).all():
        raise DataError(f"{path}: a value is nan or inf")
    return x, y


def read_leaf(paths: Iterable[Path]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Read files into user -> (x, y), users in the files' order; a user in two files gets both parts.

    ``num_samples`` is not used: LEAF itself writes counts that differ from what is there.
    """
    samples: dict[str, tuple[list[Any], list[Any]]] = {}
    for path in paths:
        with reading(path, "LEAF json"):
            values = json.loads(path.read_bytes())
            for user in values["users"]:
                x, y = (values["user_data"][user][name] for name in "xy")
                if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
                    raise DataError(f"{path}: user {user!r} has no lists x and y of one length")
                for collected, more in zip(samples.setdefault(str(user), ([], [])), (x, y), strict=True):
                    collected.extend(more)
    return samples


def read_role_files(path: Path) -> dict[str, str]:
    """Read a tar of texts, one per role (LEAF's ``by_play_and_character``); nothing is unpacked to disk."""
    roles: dict[str, str] = {}
    with reading(path, "a tar of role texts"), tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None and member.name.endswith(".txt"):
                roles[member.name.rsplit("/", 1)[-1].removesuffix(".txt")] = content.read().decode()
    if not roles:
        raise DataError(f"{path}: no role texts")
    return dict(sorted(roles.items()))


def read_moby(paths: Iterable[Path]) -> dict[str, str]:
    """Read the Moby text: ``SPEAKER<tab>line``, further lines start with a tab, directions in brackets."""
    roles: dict[str, list[str]] = {}
    for path in paths:
        with reading(path, "text"):
            lines = path.read_text(encoding="utf-8").splitlines()
        starts = [row for row, line in enumerate(lines) if line.strip() == "DRAMATIS PERSONAE"]
        if not starts:
            raise DataError(f"{path}: no play in it (no DRAMATIS PERSONAE)")
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            title = next((line.strip() for line in reversed(lines[:start]) if line.strip()), "PLAY")
            _speeches(title, lines[start:end], roles)
    return {name: "\n".join(speeches) for name, speeches in sorted(roles.items())}


def read_tff(path: Path) -> dict[str, str]:
    """Read TensorFlow Federated's h5: ``examples/<PLAY_ROLE>/snippets``, joined in order."""
    h5py = optional("h5py", str(path), "install it or take another edition")
    with reading(path, "TensorFlow Federated's Shakespeare"), h5py.File(path) as archive:
        examples = archive["examples"]
        return {
            name: "\n".join(snippet.decode() for snippet in examples[name]["snippets"])
            for name in sorted(examples)
        }


def _speeches(title: str, lines: list[str], roles: dict[str, list[str]]) -> None:
    """Add the lines of one play to the roles, from its first act on."""
    speaker: list[str] | None = None
    for line in dropwhile(lambda line: not line.startswith("ACT I"), lines):
        match = SPEAKER.match(line)
        if match and not match[1].startswith(NO_SPEAKERS):
            speaker = roles.setdefault(f"{title}: {match[1].strip()}", [])
            text = match[2]
        elif line.startswith("\t") and speaker is not None:
            text = line
        else:
            speaker = None if line.strip() else speaker
            continue
        if text := DIRECTION.sub("", text).strip():
            speaker.append(text)
