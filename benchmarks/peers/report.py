"""Write the documentation's tables of the peers from measured results.

    python benchmarks/peers/report.py                                  from benchmarks/out/, where results go
    python benchmarks/peers/report.py --speed FILE --correctness FILE --gpu FILE

The results are kept beside this file, as results.json, results_gpu.json and verdicts.json; the tables go
between the marks in docs/peers.md and benchmarks/README.md. What was not measured stays as it was.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from correctness import said  # noqa: E402
from environments import ENGINES, OURS, OWN, ROOT, TITLES  # noqa: E402
from figures import target  # noqa: E402
from workloads import CLIENTS, GRID, ON_A_GPU, WORKLOADS, Workload  # noqa: E402

RESULTS, ON_GPU, VERDICTS = (HERE / f"{name}.json" for name in ("results", "results_gpu", "verdicts"))
PAGES = (ROOT / "docs" / "peers.md", ROOT / "benchmarks" / "README.md")


def ratios(results: Mapping[str, Any], works: Sequence[Workload] = WORKLOADS) -> str:
    """Return the targets: one line a workload."""
    lines = [
        "| Workload | fedcore, a round | Fastest peer, a round | Ratio | Target | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for work in works:
        by_side = results["workloads"].get(work.name, {})
        for side in OWN:
            engine = f", `engine: {ENGINES[side]}`" if side in ENGINES else ""
            reached = target({name: values["round"] for name, values in by_side.items()}, side, work.faster)
            if reached:
                ours, other = by_side[side]["round"], by_side[reached.fastest]["round"]
                lines.append(
                    f"| {work.title}{engine} | {_ms(ours)} | {_ms(other)} ({TITLES[reached.fastest]}) | "
                    f"{reached.ratio:.2f} | {work.faster} | {'reached' if reached.met else '**missed**'} |"
                )
    return "\n".join(lines)


def sides(results: Mapping[str, Any], works: Sequence[Workload] = WORKLOADS) -> str:
    """Return all sides of all workloads."""
    lines = [
        "| Workload | Library | A round | / fastest peer | / fedcore | Start-up | Memory | Weights apart |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for work in works:
        by_side = results["workloads"].get(work.name, {})
        others = [values["round"] for side, values in by_side.items() if side not in OWN]
        for side, values in sorted(by_side.items(), key=lambda item: item[1]["round"]):
            seconds, apart = values["round"], values["deviation"]
            lines.append(
                f"| {work.name} | {TITLES[side]} {values['version']} | {_ms(seconds)} | "
                f"{seconds / min(others):.2f} | {seconds / by_side[OURS]['round']:.2f} | "
                f"{values['start']:.1f} s | {values['peak_mb']:.0f} MB | "
                f"{'' if side == OURS or apart is None else f'{apart:.0e}'} |"
            )
    return "\n".join(lines)


def circumstances(results: Mapping[str, Any]) -> str:
    """Return where, when and how undisturbed it was measured."""
    machine = results["machine"]
    shares = [
        values["core"]
        for by_side in results["workloads"].values()
        for side, values in by_side.items()
        if side != "flower"
    ]
    text = (
        f"Measured on {machine['date']} on one of {machine['cores']} cores of an {machine['processor']} with "
        f"{machine['memory_gb']} GB, Python {machine['python']}, PyTorch {machine['torch']}; medians of "
        f"{results['repetitions']} repetitions{', with `--quick`' if results['quick'] else ''}. A round is "
        f"{CLIENTS} clients. Before it began, {machine['idle']:.0%} of the machine was idle; while measured, "
        f"those whose processor time is known had {min(shares):.0%} to {max(shares):.0%} of their core."
    )
    failures = [f"\n- {name}: {reason}" for name, reason in results["failures"].items()]
    return text + ("\n\nNot measured:\n" + "".join(failures) if failures else "")


def on_a_gpu(results: Mapping[str, Any]) -> str:
    """Return the comparison on a GPU."""
    machine, works = results["machine"], ON_A_GPU
    rounds = works[0].quick_rounds if results["quick"] else works[0].rounds
    return (
        f"{ratios(results, works)}\n\n{sides(results, works)}\n\n"
        f"Measured on {machine['date']} on an {machine['gpu']} with one core of an {machine['processor']}, "
        f"Python {machine['python']}, PyTorch {machine['torch']}; medians of {rounds} rounds, repetitions: "
        f"{results['repetitions']}."
    )


def whole_table(results: Mapping[str, Any]) -> str:
    """Return the comparison of a whole table."""
    table = results.get("table", {})
    if "fedcore" not in table or "flower" not in table:
        return "Not measured."
    runs, faster = table["runs"], table["flower"] / table["fedcore"]
    return (
        f"{runs} runs of {table['rounds']} rounds each, end to end: fedcore {table['fedcore']:.1f} s "
        f"({table['fedcore'] / runs:.2f} s a run), Flower {table['flower']:.0f} s "
        f"({table['flower'] / runs:.1f} s a run), {faster:.1f} times as long; "
        f"the target, {GRID.faster:g}, is {'reached' if faster >= GRID.faster else 'missed'}."
    )


def verdicts(found: Mapping[str, Any]) -> str:
    """Return peer by oracle."""
    names = list(found)
    lines = [f"| | {' | '.join(TITLES[side] for side in names)} |", f"|---|{'---|' * len(names)}"]
    for oracle in found[OURS]:
        lines.append(f"| {oracle} | {' | '.join(said(found[side][oracle]) for side in names)} |")
    return "\n".join(lines)


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with what stands between its marks replaced."""
    for name, block in blocks.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text = marks.sub(partial(_between, block), text)
    return text


def _between(block: str, match: re.Match[str]) -> str:
    return f"{match[1]}\n{block}\n\n{match[2]}"


def tables(
    speed: Mapping[str, Any] | None, judged: Mapping[str, Any] | None, gpu: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return those blocks that can be made, by the names of their marks."""
    blocks: dict[str, str] = {}
    if speed is not None:
        blocks |= {"ratios": ratios(speed), "sides": sides(speed)}
        blocks |= {"circumstances": circumstances(speed), "whole table": whole_table(speed)}
    if gpu is not None:
        blocks["on a gpu"] = on_a_gpu(gpu)
    if judged is not None:
        blocks["verdicts"] = verdicts(judged)
    return blocks


def read(path: Path) -> Any:
    """Read a file of results; None where there is none."""
    return json.loads(path.read_text()) if path.is_file() else None


def main(
    speed: Annotated[
        Path, typer.Option(help="What speed.py wrote.", show_default="benchmarks/out/peers.json")
    ] = ROOT / "benchmarks/out/peers.json",
    correctness: Annotated[
        Path, typer.Option(help="What correctness.py wrote.", show_default="benchmarks/out/correctness.json")
    ] = ROOT / "benchmarks/out/correctness.json",
    gpu: Annotated[
        Path, typer.Option(help="What speed.py wrote on a GPU.", show_default="benchmarks/out/gpu.json")
    ] = ROOT / "benchmarks/out/gpu.json",
) -> None:
    """Keep the results and write the tables."""
    measured, judged, on_gpu = read(speed), read(correctness), read(gpu)
    blocks = tables(measured, judged, on_gpu)
    for path, values in ((RESULTS, measured), (VERDICTS, judged), (ON_GPU, on_gpu)):
        if values is not None:
            _write(path, json.dumps(values, indent=1) + "\n")
    for page in PAGES:
        _write(page, filled(page.read_text(), blocks))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def _write(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.rename(path)


if __name__ == "__main__":
    main.__doc__ = __doc__.replace("\n\n    python", "\n\n\b\n    python", 1)
    app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
