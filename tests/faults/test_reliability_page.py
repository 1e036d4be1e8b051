"""The page on reliability says what tests counted, and leaves out none of the tests on faults."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from page import FINDINGS, MEASURED, PAGE, ROOT, SECTIONS, page

FOLDERS = ("tests/faults/test_runs.py", "tests/pipeline/test_interruptions.py")
NOT_YET = {
    "tests/pipeline/test_interruptions.py::test_another_folder_and_number_of_jobs_give_the_same_reports",
    "tests/pipeline/test_interruptions.py::test_a_table_says_which_runs_ran_out_of_memory",
    "tests/data/test_readers.py::test_no_bytes_make_a_reader_raise_anything_but_a_data_error[parquet-2000]",
}
APART = {"test_defects_are_no_faults_of_the_machine"}
ENTRIES = [entry for entries in SECTIONS.values() for entry in entries]
NAMED = {entry.test for entry in ENTRIES}
CASES = """
import pytest

@pytest.mark.parametrize("whole", [True, False])
def test_counted(whole, record_property):
    record_property("trials", 7)
    assert whole

def test_plain(): ...

@pytest.mark.skip
def test_skipped(): ...
"""


def function(case: str) -> str:
    """Return the test of a case."""
    return case.partition("[")[0]


def pytest_says(*arguments: str, folder: Path = ROOT) -> str:
    """Return what another pytest prints, without this project's options."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", *arguments]
    home = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(command, cwd=folder, env=home, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def cases(collected_here: frozenset[str]) -> set[str]:
    """Every case of the files on the page, as pytest finds them now; asked for where this session did not."""
    files = {test.partition("::")[0] for test in NAMED}
    unseen = files - {case.partition("::")[0] for case in collected_here}
    output = pytest_says("--collect-only", "-q", *sorted(unseen)) if unseen else ""
    return {case for case in (*collected_here, *output.splitlines()) if case.partition("::")[0] in files}


def test_the_page_is_what_was_measured() -> None:
    assert PAGE.read_text() == page(json.loads(MEASURED.read_text())), "run `python tests/faults/page.py`"


def test_each_line_is_a_test_whose_cases_were_all_counted(cases: set[str]) -> None:
    """The numbers are those of today's cases: none is missing, none was renamed or taken away since."""
    measured = set(json.loads(MEASURED.read_text()))
    assert sorted(NAMED - set(map(function, cases))) == [], "no such test"
    expected = {case for case in cases if function(case) in NAMED and not {case, function(case)} & NOT_YET}
    assert sorted(expected - measured) == [], "count these anew, see docs/reliability.md"
    assert sorted(measured - cases) == [], "these are no cases any more: count anew, see docs/reliability.md"


def test_no_test_on_faults_is_left_out(cases: set[str]) -> None:
    tests = {function(case) for case in cases if case.startswith(FOLDERS)}
    assert len(tests) > 10
    assert {test for test in tests if test.partition("::")[2] not in APART} <= NAMED


def test_a_failure_and_a_test_that_did_not_run_are_told() -> None:
    first, second = ENTRIES[0].test, next(entry.test for entry in ENTRIES if entry.test != ENTRIES[0].test)
    measured: dict[str, dict[str, object]] = {
        f"{first}[a]": {"trials": 1200, "outcome": "failed"},
        f"{first}[b]": {"trials": 30, "outcome": "failed"},
        f"{first}[c]": {"trials": 4, "outcome": "passed"},
        f"{first}_too": {"trials": 5, "outcome": "failed"},
    }
    lines = page(measured).splitlines()
    (row,) = [line for line in lines if f"[`{first.partition('::')[2]}`]" in line]
    assert row.endswith("| 1,234 | 2 |")
    (row,) = [line for line in lines if f"[`{second.partition('::')[2]}`]" in line]
    assert row.endswith("| not run | |")


def test_each_case_s_trials_and_outcome_are_counted(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "counts.json").write_text('{"before": {"outcome": "passed", "trials": 1}}')
    pytest_says("-p", "conftest", "--measured", "counts.json", "test_cases.py", folder=tmp_path)
    assert json.loads((tmp_path / "counts.json").read_text()) == {
        "before": {"outcome": "passed", "trials": 1},
        "test_cases.py::test_counted[True]": {"outcome": "passed", "trials": 7},
        "test_cases.py::test_counted[False]": {"outcome": "failed", "trials": 7},
        "test_cases.py::test_plain": {"outcome": "passed", "trials": 1},
    }


def test_each_finding_names_tests_that_exist() -> None:
    findings = yaml.safe_load(FINDINGS.read_text())
    assert len(findings) > 50
    for number, finding in findings.items():
        for test in finding["tests"]:
            file, _, name = test.partition("::")
            tests = {
                node.name
                for node in ast.walk(ast.parse((ROOT / file).read_text()))
                if isinstance(node, ast.FunctionDef)
            }
            assert not name or name in tests, f"{number}: {test}"
