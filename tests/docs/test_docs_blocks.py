"""Every code block of the documentation is executed, or says on the page that it is not and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from blocks import ROOT, blocks, copied, execute, indented, same

PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "pipeline" / "papers").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md")),
    ]
)
CODE = [page for page in PAGES if blocks(page)]
LONG = [page for page in CODE if any(block.slow for block in blocks(page))]


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def test_all_code_is_fenced_and_says_what_it_is() -> None:
    assert {
        name: indented(page) for name, page in zip(names(PAGES), PAGES, strict=True) if indented(page)
    } == {}
    assert [str(block) for page in CODE for block in blocks(page) if block.kind == "unknown"] == []


def carried_out(page: Path, folder: Path, slow: bool = False) -> None:
    for block, printed in execute(page, copied(folder), slow):
        assert same(block.code, printed), f"{block}: shown\n{block.code}\nprinted\n{printed}"


@pytest.mark.parametrize("page", CODE, ids=names(CODE))
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    carried_out(page, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", LONG, ids=names(LONG))
def test_a_page_does_what_it_says_to_its_end(page: Path, tmp_path: Path) -> None:
    carried_out(page, tmp_path, slow=True)


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n...\n", "b\na\n", False),
        ("a.c\n", "abc\n", False),
        ("mean 1.25 of 3\n", "mean 1.5 of 3\n", True),
        ("mean 0.97 of 3\n", "mean 97.00 of 3\n", False),
        ("...\nmean 1.25\n", "a\nmean 10.5\n", False),
        ("in 1.25 s, a 0.5\n", "in 60.5 s, a 0.6\n", True),
        ("71.70 ± 0.26 %\n", "71.50 ± 1.86 %\n", True),
        ("71.70 ± 0.26 %\n", "7.17 ± 0.26 %\n", False),
        ("mean 1.25 of 3\n", "mean 1.25 of 4\n", False),
    ],
)
def test_an_output_is_compared_line_by_line(shown: str, printed: str, equal: bool) -> None:
    assert same(shown, printed) is equal
