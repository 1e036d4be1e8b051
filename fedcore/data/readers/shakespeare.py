"""Texts of Shakespeare's plays by speaking role, from three layouts."""

from __future__ import annotations

import importlib
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path

from fedcore.base.errors import DataError, MissingPackage, reason

SPEAKER = re.compile(r"^([A-Z][A-Za-z'\-., ]*)\t(.*)$")
DIRECTION = re.compile(r"\[[^\]]*\]?")
NO_SPEAKERS = ("ACT", "SCENE", "PROLOGUE", "EPILOGUE")


def read_role_files(path: Path) -> dict[str, str]:
    """Read a tar of text files, one a role (LEAF's ``by_play_and_character``); nothing is unpacked to disk.

    Raises:
        DataError: not a readable tar, a member is no ASCII or UTF-8 text, or there is none.
    """
    roles: dict[str, str] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and member.name.endswith(".txt"):
                    roles[member.name.rsplit("/", 1)[-1].removesuffix(".txt")] = content.read().decode()
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{path}: not a tar of role texts ({reason(error)})") from None
    if not roles:
        raise DataError(f"{path}: no role texts")
    return dict(sorted(roles.items()))


def read_moby(paths: Iterable[Path]) -> dict[str, str]:
    """Read the Moby text: ``SPEAKER<tab>line``, further lines start with a tab, directions in brackets.

    Raises:
        DataError: a file is no text or has no play.
    """
    roles: dict[str, list[str]] = {}
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not text ({error})") from None
        starts = [row for row, line in enumerate(lines) if line.strip() == "DRAMATIS PERSONAE"]
        if not starts:
            raise DataError(f"{path}: no play in it (no DRAMATIS PERSONAE)")
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            title = next((line.strip() for line in reversed(lines[:start]) if line.strip()), "PLAY")
            _speeches(title, lines[start:end], roles)
    return {name: "\n".join(said) for name, said in sorted(roles.items())}


def read_tff(path: Path) -> dict[str, str]:
    """Read TensorFlow Federated's h5: ``examples/<PLAY_ROLE>/snippets``, joined in order.

    Raises:
        DataError: h5py is not installed, or the file is not laid out like this.
    """
    try:
        h5py = importlib.import_module("h5py")
    except ImportError:
        raise MissingPackage(f"{path}: needs the package h5py; install it or take another edition") from None
    try:
        with h5py.File(path) as archive:
            examples = archive["examples"]
            return {
                name: "\n".join(snippet.decode() for snippet in examples[name]["snippets"])
                for name in sorted(examples)
            }
    except (OSError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: not TensorFlow Federated's Shakespeare ({reason(error)})") from None


def _speeches(title: str, lines: list[str], roles: dict[str, list[str]]) -> None:
    """Add the lines of one play to the roles, from its first act on."""
    speaker: list[str] | None = None
    started = False
    for line in lines:
        started = started or line.startswith("ACT I")
        found = SPEAKER.match(line) if started else None
        if found and not found[1].startswith(NO_SPEAKERS):
            speaker = roles.setdefault(f"{title}: {found[1].strip()}", [])
            text = found[2]
        elif line.startswith("\t") and speaker is not None:
            text = line
        else:
            speaker = None if line.strip() else speaker
            continue
        text = DIRECTION.sub("", text).strip()
        if text:
            speaker.append(text)
