"""The page on reliability says what tests counted, and leaves out none of the tests on faults."""

from __future__ import annotations

import ast
import json

from page import MEASURED, PAGE, ROOT, SECTIONS, page

FOLDERS = ("tests/faults/test_runs.py", "tests/pipeline/test_interruptions.py")
NOT_YET = {
    "tests/pipeline/test_interruptions.py::test_another_folder_and_number_of_jobs_give_the_same_reports",
    "tests/pipeline/test_interruptions.py::test_a_table_says_which_runs_ran_out_of_memory",
}
APART = {"test_defects_are_no_faults_of_the_machine"}


def functions(file: str) -> set[str]:
    """Return the tests that a file defines."""
    tree = ast.parse((ROOT / file).read_text())
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}


def test_the_page_is_what_was_measured() -> None:
    assert PAGE.read_text() == page(json.loads(MEASURED.read_text())), "run `python tests/faults/page.py`"


def test_each_line_names_a_test_that_exists_and_was_run_or_is_said_not_to_be() -> None:
    measured = json.loads(MEASURED.read_text())
    for entry in (entry for entries in SECTIONS.values() for entry in entries):
        file, _, function = entry.test.partition("::")
        assert function in functions(file), entry.test
        assert entry.test in NOT_YET or any(name.partition("[")[0] == entry.test for name in measured)


def test_no_test_on_faults_is_left_out() -> None:
    named = {entry.test for entries in SECTIONS.values() for entry in entries}
    for file in FOLDERS:
        assert {f"{file}::{name}" for name in functions(file) - APART} <= named


def test_nothing_that_was_measured_failed() -> None:
    measured = json.loads(MEASURED.read_text())
    assert [name for name, found in measured.items() if found["outcome"] == "failed"] == []
