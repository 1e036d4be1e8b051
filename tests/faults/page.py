"""docs/reliability.md from what tests counted: `python tests/faults/page.py` writes it.

pytest -m "slow or not slow" --measured docs/reliability.json TESTS    counts anew, for the tests named
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FINDINGS, MUTANTS = (Path(__file__).with_name(name) for name in ("findings.yaml", "mutants.md"))
MEASURED, PAGE = ROOT / "docs" / "reliability.json", ROOT / "docs" / "reliability.md"
RUNS, FLOW = "tests/faults/test_runs.py", "tests/pipeline/test_interruptions.py"
CHANGED, FUZZ = "tests/pipeline/test_changed_results.py", "tests/faults/test_fuzz.py"
VERIFY, SECURE = "tests/faults/test_integrity.py", "tests/faults/test_security.py"
FETCH, READERS = "tests/data/test_fetch.py", "tests/data/test_readers.py"
PARTIAL, BESIDE = "tests/pipeline/test_partial.py", "tests/pipeline/test_verify_params.py"
AUDIT, STATISTICS, SITE = (
    "tests/pipeline/test_audit.py",
    "tests/faults/test_statistics.py",
    "tests/pipeline/test_site.py",
)
CORE = "tests/core/test_determinism.py"
DEMO = "tests/pipeline/test_whole_demo.py"
SAME = "The same command completes; all results have the bytes of an undisturbed run."
HEAD = """# Reliability

This page is for readers who want to know what happens when something goes wrong.
{tests} tests tried {trials:,} disturbances, files and inputs; {outcome}.

Each line of a table is a test. The test produces a fault and checks what happens then. All tests were run
to count the numbers, including the long ones (`-m slow`). A trial is one disturbance, file or input. A
failure is a test in which any trial ended differently from the description. These commands generate the
page:

```sh title="Not executed by the tests: it runs them, for an hour"
uv run pytest -m "slow or not slow" --measured docs/reliability.json tests/faults
uv run python tests/faults/page.py
```

The same commands work for the tests of the other folders that are named below. The counts of tests that
were not run are kept.
"""


NOT_TRIED = """## Not tried

- No GPU really disappears, and the system does not really end a process that lacks memory. Both are
  simulated.
- `pip-audit` is not tried against the public service. It is tried against a service on the same machine
  that gives the same kind of answers.
- File systems that cannot lock, as on some clusters, are not tried. There, two processes may do one run
  at the same time. Each file is still complete.
- None of these tests runs on another machine. Equal bytes are promised on one machine with one set of
  packages (docs/determinism.md says what some kept runs gave on another).
"""

FOUND_HEAD = """## Faults of version 0.1.0

Version 0.1.0 had these faults; each has a test, but for those of wording alone. S stands for science, P for
the product in use, R for reliability and security.
"""


@dataclass(frozen=True)
class Entry:
    """A line: a fault or attack, how it is produced, what happens, and the test, as ``file::function``."""

    fault: str
    produced: str
    happens: str
    test: str


SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Faults": (
        Entry(
            "A run is killed",
            "kill -9 at random moments, up to three times in a row, with a checkpoint in each round",
            SAME,
            f"{RUNS}::test_killed_at_random_moments",
        ),
        Entry(
            "A run is killed",
            "kill -9 at a random round of one run, for four algorithms with different state",
            SAME,
            f"{CORE}::test_killed_at_a_random_round_and_resumed",
        ),
        Entry(
            "Snakemake is killed",
            "kill -9 of Snakemake alone, then of all its processes; training is simulated",
            "The next Snakemake removes its locks and says so. " + SAME,
            f"{FLOW}::test_a_killed_workflow_completes_by_the_same_command",
        ),
        Entry(
            "`fedcore build` is asked to end",
            "SIGTERM while it trains; training is simulated",
            "Its Snakemake ends too: no process and no lock is left.",
            f"{FLOW}::test_a_build_that_is_asked_to_end_ends_its_snakemake",
        ),
        Entry(
            "Snakemake or DVC is killed",
            "kill -9 at random moments, alone or with all its processes; training is real",
            SAME,
            f"{FLOW}::test_killed_at_random_moments_with_real_training",
        ),
        Entry(
            "A checkpoint is damaged",
            "cut short, emptied, a bit flipped anywhere",
            "One line says that it is discarded, and the run starts again. " + SAME,
            f"{RUNS}::test_a_damaged_checkpoint_is_discarded_in_words",
        ),
        Entry(
            "Results are changed by hand",
            "each file of a run cut short, emptied, changed, deleted; the whole folder deleted",
            "The run is repeated. " + SAME,
            f"{RUNS}::test_results_tampered_with_are_made_again",
        ),
        Entry(
            "A run may stand still for any time",
            "`--stall-after` of more seconds than a timer takes, infinite, or no number",
            "The timer takes it, and ends no run.",
            f"{RUNS}::test_a_run_may_take_any_time_to_show_that_it_lives",
        ),
        Entry(
            "The results folder is read-only",
            "no write permission, at two depths",
            "One line; the exit code is not 0. Once the folder is writable, the command completes with the "
            "same bytes.",
            f"{RUNS}::test_a_read_only_folder_is_one_line",
        ),
        Entry(
            "The disk is full",
            "a disk of 400 kB with 0 to 360 kB left",
            "One line; no incomplete file is accepted. With free space, the command completes with the same "
            "bytes.",
            f"{RUNS}::test_a_full_disk_is_one_line_and_leaves_nothing_half_written",
        ),
        Entry(
            "A file can't grow",
            "a limit on the size of files (RLIMIT_FSIZE)",
            "One line; the exit code is not 0. Without the limit, the command completes with the same bytes.",
            f"{RUNS}::test_a_file_that_can_not_grow_is_one_line",
        ),
        Entry(
            "Memory is used up",
            "a limit on memory (RLIMIT_AS) that a large model exceeds",
            "One line for that run; the small run of the same command finishes.",
            f"{RUNS}::test_too_little_memory_is_one_line",
        ),
        Entry(
            "Memory is used up in a workflow",
            "the same, under Snakemake, for two columns of a table",
            "These runs are tried twice more, and all others finish. A table of the finished runs says "
            "`out of memory` in the other cells and in its caption. Once the runs fit, the same command "
            "completes it.",
            f"{FLOW}::test_a_table_says_which_runs_ran_out_of_memory",
        ),
        Entry(
            "The system kills a run that lacks memory",
            "kill -9 of the process that trains; the part of the system is simulated",
            "The run's folder and the log say `out of memory`, or that the process was killed.",
            f"{PARTIAL}::test_a_run_whose_process_is_killed_says_so_in_its_folder",
        ),
        Entry(
            "A run hangs",
            "local training that never returns, in the first round and later; --stall-after 1",
            "The process ends and says where it was stuck. " + SAME,
            f"{RUNS}::test_a_run_that_hangs_is_ended_and_goes_on_from_its_checkpoint",
        ),
        Entry(
            "A GPU disappears",
            "the errors that CUDA and cuDNN raise then, raised in a round (simulated: no GPU is harmed)",
            "One line; no further run in that process; the exit code is not 0. " + SAME,
            f"{RUNS}::test_a_device_that_fails_ends_the_batch_in_words",
        ),
        Entry(
            "A job fails once",
            "a training job that fails at its first attempt",
            "Snakemake tries it again; the command completes.",
            f"{FLOW}::test_a_failed_job_is_tried_again",
        ),
        Entry(
            "Two processes do one run",
            "two batches on one folder at the same time",
            "One waits for the other and says so; both end with the same bytes.",
            f"{RUNS}::test_two_processes_on_one_folder",
        ),
        Entry(
            "The process that holds a folder dies",
            "kill -9 of the process that another one waits for",
            "The waiting process continues at once.",
            f"{RUNS}::test_a_folder_is_held_by_one_process_and_given_up_by_a_dead_one",
        ),
        Entry(
            "Two Snakemakes on one folder",
            "a second one while the first trains",
            "Snakemake's lock refuses the second; the first completes; then there is nothing to do.",
            f"{FLOW}::test_two_workflows_on_one_folder",
        ),
        Entry(
            "The clock goes backwards during a run",
            "each reading is an hour earlier",
            SAME,
            f"{RUNS}::test_a_clock_that_goes_backwards_changes_nothing",
        ),
        Entry(
            "The clock was set back",
            "partitions, then results, dated tomorrow",
            "Nothing is trained again; reports have the same bytes.",
            f"{FLOW}::test_a_clock_set_back_leads_to_the_same_reports",
        ),
        Entry(
            "A write is interrupted",
            "an interrupt between two writes to one file",
            "The old file stays, and no other file.",
            f"{RUNS}::test_an_interrupted_write_leaves_the_old_file",
        ),
    ),
    "Integrity": (
        Entry(
            "Any byte of results changes",
            "25 bit flips in each file of a run and of a partition",
            "`fedcore verify` names the folder.",
            f"{VERIFY}::test_any_changed_byte_is_found",
        ),
        Entry(
            "Files are missing, too many or exchanged",
            "each file deleted",
            "`fedcore verify` names the file.",
            f"{VERIFY}::test_a_missing_file_is_named",
        ),
        Entry(
            "Runs of mixed code",
            "one seed of a method, made by other code",
            "`fedcore verify` names the group.",
            f"{VERIFY}::test_mixed_code_is_named",
        ),
        Entry(
            "Runs of other parameters",
            "a value of params.yaml that changed after the runs",
            "`fedcore verify` names each of them.",
            f"{BESIDE}::test_a_run_of_other_parameters_is_named",
        ),
        Entry(
            "A run of another specification",
            "sealed again in the place of another run",
            "`fedcore verify` names it.",
            f"{BESIDE}::test_a_specification_that_is_not_the_described_one_is_named",
        ),
        Entry(
            "Runs of other code",
            "all seeds of a method, made by other code than the current one",
            "`fedcore verify` names both versions.",
            f"{BESIDE}::test_a_run_of_other_code_is_named",
        ),
        Entry(
            "A run of another partition",
            "a partition file that the run did not use",
            "`fedcore verify` names both.",
            f"{BESIDE}::test_a_run_of_another_partition_is_named",
        ),
        Entry(
            "A report is built on changed runs",
            "seven kinds of damage to one run of a table, of curves and of a drawing",
            "The report is refused; one line names the run, the fault and the remedy.",
            f"{CHANGED}::test_a_report_refuses_a_changed_run_and_names_it",
        ),
    ),
    "Input": (
        Entry(
            "params.yaml is wrong",
            "generated mutations: keys and values removed, replaced, renamed, added",
            "One line that names the key, or a valid configuration.",
            f"{FUZZ}::test_mutated_parameters_are_refused_in_one_line_or_valid",
        ),
        Entry(
            "A specification is wrong",
            "the same, for specifications of four algorithms",
            "One line that names the key, or a valid specification.",
            f"{FUZZ}::test_mutated_specifications_are_refused_in_one_line_or_valid",
        ),
        Entry(
            "A data file is damaged",
            "cut short or a bit flipped, in four packings",
            "One line, or the right values; never wrong ones.",
            f"{FUZZ}::test_a_damaged_file_with_a_known_checksum_is_never_believed",
        ),
        Entry(
            "A data file without a checksum is damaged",
            "any bytes; files cut short, changed, extended or with a flipped bit, in ten formats",
            "One line that names the file, or values of the right kind.",
            f"{READERS}::test_no_bytes_make_a_reader_raise_anything_but_a_data_error",
        ),
    ),
    "Security": (
        Entry(
            "A name is a command",
            "each name in params.yaml with spaces, quotes, `$(...)`, line ends, `..`, options",
            "One line, or it never reaches a path or command.",
            f"{SECURE}::test_hostile_names_are_refused_or_never_reach_a_command",
        ),
        Entry(
            "An option of a plug-in is a command",
            "the same, as data set, edition and path",
            "The option stays in files; commands never see it.",
            f"{SECURE}::test_hostile_options_of_plug_ins_stay_in_files",
        ),
        Entry(
            "A mirror's name is a command",
            "the same, in params.yaml and in the environment, through a real shell",
            "The mirror stays one argument.",
            f"{SECURE}::test_a_hostile_mirror_is_one_argument",
        ),
        Entry(
            "A name leads out of the data folder",
            "`..`, absolute paths",
            "The name is refused; nothing is written.",
            f"{SECURE}::test_no_name_leads_out_of_the_data_folder",
        ),
        Entry(
            "A file contains code to execute",
            "every call in the code: eval, pickles, unsafe YAML, archives, shells, certificates",
            "There is no such call.",
            f"{SECURE}::test_no_call_executes_what_a_file_says",
        ),
        Entry(
            "A CIFAR-10 batch is a hostile pickle",
            "a pickle that calls a function",
            "It is refused; nothing is executed.",
            f"{READERS}::test_a_batch_can_only_build_arrays",
        ),
        Entry(
            "An archive names paths outside",
            "members with `..`, absolute names, links",
            "The one named member is read; nothing else is unpacked.",
            f"{FETCH}::test_a_member_of_an_archive_is_taken_and_nothing_else_is_unpacked",
        ),
        Entry(
            "An archive is a bomb",
            "content far longer than declared",
            "Reading stops a little above the declared size.",
            f"{FETCH}::test_a_file_much_longer_than_declared_is_not_unpacked_to_its_end",
        ),
        Entry(
            "A data set's title is a script",
            "script tags in every text, in a real browser where there is one",
            "They are shown as text.",
            f"{SITE}::test_texts_can_not_become_markup",
        ),
        Entry(
            "A pinned package has a known weakness",
            "a list of weaknesses that names one (simulated)",
            "`fedcore audit` names the weakness and the fixed version; exit code 1.",
            f"{AUDIT}::test_a_known_weakness_is_listed",
        ),
        Entry(
            "The list of weaknesses can't be reached",
            "no answer, and a refusal (simulated)",
            "One line says that nothing was checked; exit code 2.",
            f"{AUDIT}::test_where_nobody_answers_one_line_says_so",
        ),
    ),
    "Statistics": (
        Entry(
            "Seeds depend on one another",
            "correlations of all pairs of streams of neighbouring names",
            "Their size and spread are those of independent draws.",
            f"{STATISTICS}::test_streams_of_neighbouring_names_are_uncorrelated",
        ),
        Entry(
            "First draws of seeds 0, 1, 2, ... depend on one another",
            "5,000 seeds",
            "They are uniform and uncorrelated.",
            f"{STATISTICS}::test_first_draws_over_seeds_are_uniform",
        ),
        Entry(
            "Methods see different partitions",
            "all runs of all papers, at every scale",
            "Runs with equal data, partition and seed share one file.",
            f"{STATISTICS}::test_a_partition_is_one_object_for_all_methods_of_a_setting",
        ),
        Entry(
            "Test rows are trained on",
            "every demo data set, every partition of the papers",
            "Training, validation and test rows are disjoint; held-out clients are separate.",
            f"{STATISTICS}::test_no_test_row_is_trained_on",
        ),
        Entry(
            "Upstream's test set repeats training rows",
            "comparison of all rows of every demo data set",
            "The counts below equal those of the original data.",
            f"{STATISTICS}::test_equal_rows_in_train_and_test_are_counted",
        ),
        Entry(
            "A rerun differs",
            "the same specification twice",
            "It has the same bytes.",
            f"{CORE}::test_same_spec_same_bytes",
        ),
        Entry(
            "A report built elsewhere differs",
            "a table and a figure with all their runs, in another folder, with two jobs at once and with one",
            "All results and reports have the same bytes, except for dates.",
            f"{FLOW}::test_another_folder_and_number_of_jobs_give_the_same_reports",
        ),
        Entry(
            "The whole demo built elsewhere differs",
            "reports/all in two folders, with two jobs at once and with three; files are counted",
            "All results and reports have the same bytes, except for dates and measured seconds.",
            f"{DEMO}::test_two_demos_are_the_same_but_for_dates_and_times",
        ),
    ),
}


def counts(test: str, measured: dict[str, dict[str, object]]) -> tuple[int, int]:
    """Return a test's trials and failures over all its cases."""
    cases = [case for name, case in measured.items() if name.partition("[")[0] == test]
    return sum(int(str(case["trials"])) for case in cases), sum(case["outcome"] == "failed" for case in cases)


def page(measured: dict[str, dict[str, object]]) -> str:
    """Return the page as Markdown."""
    found = [counts(entry.test, measured) for entries in SECTIONS.values() for entry in entries]
    trials, failures = map(sum, zip(*found, strict=True))
    tests = sum(made > 0 for made, _ in found)
    outcome = f"{failures} tests failed" if failures else "all ended as described"
    lines = [HEAD.format(tests=tests, trials=trials, outcome=outcome)]
    for title, entries in SECTIONS.items():
        lines += [f"## {title}\n", "| What | How it is produced | What happens | Test | Trials | Failures |"]
        lines.append("|---|---|---|---|---:|---:|")
        for entry in entries:
            trials, failures = counts(entry.test, measured)
            file, _, function = entry.test.partition("::")
            numbers = f"{trials:,} | {failures}" if trials else "not run |"
            text = f"{entry.fault} | {entry.produced} | {entry.happens}"
            lines.append(f"| {text} | [`{function}`](../{file}) | {numbers} |")
        lines.append("")
    return "\n".join([*lines, repeated(measured), NOT_TRIED, MUTANTS.read_text("utf-8"), *findings()])


def findings() -> list[str]:
    """Return the table of what the audit found, as lines of Markdown."""
    lines = [FOUND_HEAD, "| | What was wrong | What happens now | Tested by |", "|---|---|---|---|"]
    for number, finding in yaml.safe_load(FINDINGS.read_text(encoding="utf-8")).items():
        tests = (test.partition("::") for test in finding["tests"])
        held = ", ".join(f"[`{function or Path(file).stem}`](../{file})" for file, _, function in tests)
        lines.append(f"| {number} | {finding['was']} | {finding['now']} | {held} |")
    return [*lines, ""]


def repeated(measured: dict[str, dict[str, object]]) -> str:
    """Say which data sets' test rows stand among their training rows."""
    repeats = {
        name.partition("[")[2].rstrip("]"): int(str(case["repeated"]))
        for name, case in measured.items()
        if case.get("repeated")
    }
    text = ", ".join(f"{name} {count}" for name, count in sorted(repeats.items()))
    return f"Test rows that are also training rows, as in the original data (demo data): {text}; no others.\n"


def main() -> None:
    """Write the page, and keep the counts of the tests that it names."""
    named = {entry.test for entries in SECTIONS.values() for entry in entries}
    stored = json.loads(MEASURED.read_text())
    measured = {name: case for name, case in stored.items() if name.partition("[")[0] in named}
    MEASURED.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(measured))


if __name__ == "__main__":
    main()
