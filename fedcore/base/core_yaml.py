"""YAML as users write it: the core types of YAML 1.2 and nothing else, with limits, and errors of one line.

``true`` and ``false`` alone are booleans; ``yes``, ``on``, dates and times are text. A key counts once in
its mapping. Anchors, aliases and merge keys (``<<``) work. Specifications, params.yaml and files laid over
it, claim ledgers and options on the command line are all read here.
"""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from fedcore.base.errors import DIGITS, SpecError, shown

BYTES, NODES, DEPTH = 1_000_000, 10_000, 100
TAG = "tag:yaml.org,2002:"
FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
INT = r"[-+]?[0-9]+(_[0-9]+)*|0o[0-7]+|0x[0-9a-fA-F]+"
CORE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    "int": (INT, lambda text: int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))),
    "float": (FLOAT, lambda text: float(re.sub(r"\.(?=[inIN])", "", text))),
    "merge": (r"<<", str),
    "str": (r"[^\ud800-\udfff]*", str),
}


class _Loader(yaml.SafeLoader):
    """PyYAML's loader with the core schema in place of YAML 1.1's types."""

    def __init__(self, text: str) -> None:
        self.depth = self.aliased = 0
        self.sizes: dict[int, int] = {}
        super().__init__(text)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, counting how deep it lies and what its aliases stand for."""
        alias = self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self.depth += 1
        if self.depth > DEPTH:
            raise _wrong(f"nested more than {DEPTH} deep", mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        if not alias:
            inner = node.value if isinstance(node, yaml.CollectionNode) else ()
            flat = (child for item in inner for child in (item if isinstance(item, tuple) else (item,)))
            self.sizes[id(node)] = 1 + sum(self.sizes[id(child)] for child in flat)
            return node
        if id(node) not in self.sizes:
            raise _wrong("an alias inside its own value", mark)
        self.aliased += self.sizes[id(node)]
        if self.aliased > NODES:
            raise _wrong(f"aliases that stand for more than {NODES:,} values", mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping, each of whose keys is a plain value and given once."""
        node = super().compose_mapping_node(anchor)
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _wrong("a list or mapping as a key, expected a plain value", key.start_mark)
            value = self.construct_object(key)
            if value in seen:
                message = f"the key {shown(value)} is given twice, first in line {seen[value]}"
                raise _wrong(message, key.start_mark)
            seen[value] = key.start_mark.line + 1
        return node

    def plain(self, node: yaml.ScalarNode) -> Any:
        """Return a scalar's value."""
        kind, text = node.tag.removeprefix(TAG), self.construct_scalar(node)
        pattern, value = CORE[kind]
        if not re.fullmatch(pattern, text):
            raise _wrong(f"{shown(text)} is no {kind}", node.start_mark)
        if kind == "int" and len(text) > DIGITS:
            raise _wrong(f"a number of {len(text)} digits, expected at most {DIGITS}", node.start_mark)
        return value(text)

    def unknown(self, node: yaml.Node) -> Any:
        """Refuse a type that is not in the core schema."""
        raise _wrong(f"the type {shown(node.tag.replace(TAG, '!!'))} is not known here", node.start_mark)


if yaml.__with_libyaml__:

    class _Quick(yaml.CSafeLoader, _Loader):
        """The loader with libyaml's parser: several times as quick."""

        get_single_node = Composer.get_single_node

        def __init__(self, text: str) -> None:
            _Loader.__init__(self, text)
            yaml.CSafeLoader.__init__(self, text)


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper, which also quotes text that only YAML 1.2 takes for a number, such as ``1e3``."""


_Loader.yaml_implicit_resolvers = {}
for _kind, (_pattern, _) in CORE.items():
    if _kind != "str":
        for _end in (_Loader, _Dumper):
            _end.add_implicit_resolver(TAG + _kind, re.compile(f"(?:{_pattern})\\Z"), None)
_Loader.yaml_constructors = {
    TAG + "map": yaml.SafeLoader.construct_yaml_map,
    TAG + "seq": yaml.SafeLoader.construct_yaml_seq,
    **{TAG + kind: _Loader.plain for kind in CORE},
    None: _Loader.unknown,
}


def read(path: Path, what: str = "file") -> Any:
    """Read a YAML file.

    Raises SpecError where the file, a ``what``, can't be read or is larger than 1 MB, and as ``parsed`` does.
    """
    try:
        with path.open("rb") as handle:
            content = handle.read(BYTES + 1)
    except OSError as error:
        raise SpecError(f"{path}: cannot read the {what} ({error.strerror or error})") from None
    if len(content) > BYTES:
        raise SpecError(f"{path}: larger than 1 MB, which is the most that a {what} may have")
    return parsed(content, str(path))


def parsed(content: bytes | str, where: str) -> Any:
    """Return the values of a YAML text, read by libyaml; what it refuses is read again for PyYAML's words.

    Raises SpecError with ``where`` and the line: no UTF-8, no YAML, a key given twice, a type outside of the
    core schema, or more nesting, digits or aliased values than is sensible.
    """
    try:
        text = content if isinstance(content, str) else content.decode()
        if yaml.__with_libyaml__:
            with suppress(yaml.YAMLError, ValueError, OverflowError):
                return _Quick(text).get_single_data()
        loader = _Loader(text)
        return loader.get_single_data()
    except UnicodeDecodeError as error:
        line, message = error.object[: error.start].count(b"\n") + 1, "not UTF-8"
    except yaml.reader.ReaderError as error:
        line, message = text[: error.position].count("\n") + 1, "a control character"
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        message = ", ".join(filter(None, (error.context, error.problem)))
    except (ValueError, OverflowError) as error:
        line, message = loader.line + 1, str(error)
    raise SpecError(f"{where}: line {line}: not valid YAML ({' '.join(message.split())})")


def to_yaml(values: Any, flow: bool = False) -> str:
    """Return values as YAML that ``parsed`` and YAML 1.1 read back equal; with ``flow`` in one line."""
    width = math.inf if flow else None
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, default_flow_style=flow, width=width)


def _wrong(what: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=mark)
