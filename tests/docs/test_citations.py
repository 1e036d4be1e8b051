"""Every place of a paper that modules, the papers' READMEs and claims or params.yaml cite was looked up once.

``citations.yaml`` lists them: paper, place, what the paper says there, and which modules cite it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path()
LIST = Path(__file__).with_name("citations.yaml")
NAMES = {
    "rFedAvg": "rfedavg",
    "FedAvgR": "fedavgr",
    "ComFed": "comfed",
    "FedOMW": "fedomw",
    "DL-opt": "fedomw",
    "RADFed": "radfed",
    "McMahan et al.": "mcmahan2017",
    "FedProx": "fedprox",
    "q-FFL": "q-ffl",
    "MOON": "moon",
    "FedDC": "feddc",
    "Gao et al.": "feddc",
    "Mime": "mime",
    "SlowMo": "slowmo",
    "FedAsync": "fedasync",
    "Xie et al.": "fedasync",
    "SCAFFOLD": "scaffold",
    "Karimireddy et al.": "scaffold",
    "VRL-SGD": "vrl-sgd",
    "Liang et al.": "vrl-sgd",
    "Reddi et al.": "fedopt",
}
NAME = re.compile("|".join(sorted(map(re.escape, NAMES), key=len, reverse=True)))
KINDS = {
    "Section": (r"[Ss]ections?", r"(?:[IVX]+(?:-[A-Z](?:\.?\d)?)?|\d+(?:\.\d+)*)"),
    "Table": (r"Tables?", r"(?:[IVX]+|\d+)"),
    "Fig.": (r"(?:Figs?\.|Figures?)", r"\d+[a-d]?"),
    "Algorithm": (r"Algorithms?", r"\d+(?:,\s+lines?\s+\d+(?:-\d+)?)?"),
    "eq.": (r"[Ee]qs?\.", r"\(?\d+\)?"),
    "Theorem": (r"Theorems?", r"\d+"),
    "Lemma": (r"Lemmas?", r"\d+"),
    "Appendix": (r"[Aa]ppendix", r"[A-Z](?:\.\d+)*"),
}
JOIN = r"\s*(?:,\s|,?\s(?:and|or)\s|\sto\s|[-–](?=\d|[IVX]))\s*"
CITATION = re.compile(
    "|".join(
        rf"\b(?P<kind{place}>{word})\s+(?P<numbers{place}>{number}(?:{JOIN}(?:{number}|[a-d]\b))*)(?!\w|\.\d)"
        for place, (word, number) in enumerate(KINDS.values())
    )
)
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")


def cited_in(root: Path) -> list[Path]:
    """Return the files whose citations are held to the list."""
    return [
        *sorted(root.glob("fedcore/**/*.py")),
        *sorted(root.glob("pipeline/**/*.py")),
        *sorted(root.glob("pipeline/papers/*/README.md")),
        *sorted(root.glob("pipeline/papers/*/claims.yaml")),
        root / "params.yaml",
    ]


def texts(path: Path) -> Iterator[str]:
    """Return what a file says, in its order: a module's strings, a specification's comments, or all of it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
        for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
            if isinstance(node.value, str):
                yield " ".join(node.value.split())
    elif path.name == "params.yaml":
        yield " ".join(" ".join(line.partition("#")[2] for line in text.splitlines()).split())
    else:
        yield " ".join(text.split())


def through(first: str, last: str) -> list[str]:
    """Return what lies after the first up to the last: figures 2 to 8, tables I to III, IV-B to IV-E."""
    if first.isdigit() and last.isdigit():
        return [str(number) for number in range(int(first) + 1, int(last) + 1)]
    if first in ROMAN and last in ROMAN:
        return list(ROMAN[ROMAN.index(first) + 1 : ROMAN.index(last) + 1])
    return [last[:-1] + chr(letter) for letter in range(ord(first[-1]) + 1, ord(last[-1]) + 1)]


def places(kind: str, numbers: str) -> list[str]:
    """Return the places of one citation, lists and ranges taken apart, each written in one way."""
    singles: list[str] = []
    after = 0
    for match in re.finditer(rf"{KINDS[kind][1]}|\b[a-d]\b", numbers):
        number = re.sub(r"(?<=-[A-Z])\.(?=\d)", "", match[0].strip("()")).replace("lines", "line")
        joined = numbers[after : match.start()].strip()
        if number in {"a", "b", "c", "d"}:
            number = singles[-1].rstrip("abcd") + number
        singles += through(singles[-1], number) if joined in {"to", "-", "–"} else [number]
        after = match.end()
    return [f"{kind} ({number})" if kind == "eq." else f"{kind} {number}" for number in singles]


def cited(path: Path, root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Return (paper, place) of each citation in a file.

    In a paper's own folder a place is the paper's unless another's name stands right before it; elsewhere it
    belongs to the last paper named before it.
    """
    parts = path.relative_to(root).parts
    owner = parts[2] if parts[:2] == ("pipeline", "papers") and len(parts) > 3 else ""
    last = owner
    for text in texts(path):
        mentions = list(NAME.finditer(text))
        for match in CITATION.finditer(text):
            before = [name for name in mentions if name.end() <= match.start()]
            adjacent = before and re.fullmatch(
                r"\+?(?:'s)?\)?[,:]?\s?", text[before[-1].end() : match.start()]
            )
            if before and (adjacent or not owner):
                paper = NAMES[before[-1][0]]
            else:
                paper = last
            kind = next(kind for place, kind in enumerate(KINDS) if match[f"kind{place}"])
            yield from ((paper, place) for place in places(kind, match[match.lastgroup or ""]))
        if mentions and not owner:
            last = NAMES[mentions[-1][0]]


def unlisted(root: Path, known: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each citation that the list lacks."""
    lines = []
    for path in cited_in(root):
        for paper, place in dict.fromkeys(cited(path, root)):
            if name_of(path, root) not in known.get(paper, {}).get(place, {}).get("in", ()):
                lines.append(
                    f"{path.relative_to(root)}: cites {paper or 'no paper'}, {place}, which {LIST.name} "
                    "does not list for it; look it up in the paper and add it"
                )
    return lines


def name_of(path: Path, root: Path) -> str:
    """Return a file's name without its folders, so that it may move; a package's is that of its folder."""
    return path.parent.name if path.name == "__init__.py" else path.name.removesuffix(".py")


def listed() -> dict[str, dict[str, Any]]:
    known: dict[str, dict[str, Any]] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return known


def test_every_citation_was_looked_up() -> None:
    missing = unlisted(ROOT, listed())
    assert not missing, missing[0]


def test_the_list_names_nothing_that_is_not_cited() -> None:
    used = {(*citation, name_of(path, ROOT)) for path in cited_in(ROOT) for citation in cited(path)}
    kept = {
        (paper, place, name)
        for paper, entries in listed().items()
        for place, entry in entries.items()
        for name in entry["in"]
    }
    assert len(kept) > 200
    assert not sorted(kept - used), "take these out of the list, or cite them again"
    assert all(entry["says"].strip() for entries in listed().values() for entry in entries.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RADFed, Section IV-B (MNIST)", [("radfed", "Section IV-B")]),
        (
            "Li et al. (q-FFL), Algorithm 2; rFedAvg, Section VI-A",
            [("q-ffl", "Algorithm 2"), ("rfedavg", "Section VI-A")],
        ),
        ("the targets of RADFed's eq. (1) or (2)", [("radfed", "eq. (1)"), ("radfed", "eq. (2)")]),
        ("rFedAvg, eq. 5", [("rfedavg", "eq. (5)")]),
        ("ComFed, Tables I to III", [("comfed", f"Table {number}") for number in ("I", "II", "III")]),
        ("rFedAvg+ (Figs. 2-4)", [("rfedavg", f"Fig. {number}") for number in (2, 3, 4)]),
        (
            "rFedAvg, Section VI-B.8, Fig. 10a and b",
            [("rfedavg", "Section VI-B8"), ("rfedavg", "Fig. 10a"), ("rfedavg", "Fig. 10b")],
        ),
        ("RADFed, Algorithm 2, lines 8-11", [("radfed", "Algorithm 2, line 8-11")]),
        ("RADFed (sections IV-B to IV-D)", [("radfed", f"Section IV-{letter}") for letter in "BCD"]),
        ("FedOMW, Tables 2, 3 and 5", [("fedomw", f"Table {number}") for number in (2, 3, 5)]),
        ("as Algorithm 1 prints it", [("", "Algorithm 1")]),
        ("a table of 3 rows, Section by section", []),
    ],
)
def test_citations_are_found(tmp_path: Path, text: str, expected: list[tuple[str, str]]) -> None:
    path = tmp_path / "fedcore" / "made.py"
    path.parent.mkdir()
    path.write_text(f'"""{text}."""\n', encoding="utf-8")
    assert list(cited(path, tmp_path)) == expected


def test_a_paper_s_own_folder_speaks_of_that_paper(tmp_path: Path) -> None:
    path = tmp_path / "pipeline" / "papers" / "rfedavg" / "README.md"
    path.parent.mkdir(parents=True)
    path.write_text("FedProx is below in Table I; FedProx, eq. (2), is not.", encoding="utf-8")
    assert list(cited(path, tmp_path)) == [("rfedavg", "Table I"), ("fedprox", "eq. (2)")]


def test_a_new_citation_fails_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "fedcore" / "mlp.py"
    path.parent.mkdir()
    path.write_text('SOURCE = "RADFed, Section V (64-64)"\n', encoding="utf-8")
    (tmp_path / "params.yaml").write_text("a: 1\n", encoding="utf-8")
    (line,) = unlisted(tmp_path, listed())
    assert line.startswith(
        "fedcore/mlp.py: cites radfed, Section V, which citations.yaml does not list for it;"
    )
    assert "\n" not in line
