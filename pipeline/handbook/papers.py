"""One page per paper: its README, what was measured at the paper's own scale, and pictures of its targets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from fedcore.base.lazy import pd
from pipeline.fidelity.reference import REFERENCE
from pipeline.fidelity.scoreboard import begun, claims, scoreboard
from pipeline.handbook import rendered
from pipeline.papers import FOLDER, papers
from pipeline.reports.agreement import RULE
from pipeline.reports.render import md_table
from pipeline.site.board import claims_table
from pipeline.site.pictures import MADE

READINGS = {
    "paper": "As the text reads",
    "released": "As the authors' code reads it",
    "by_client": "With a Dirichlet draw per client",
    "cohort": "With the deltas of the round's clients alone",
}
NOTHING = "No run at the paper's own scale has been kept yet."


def index(pictures: Path) -> str:
    """Return the page that lists the papers."""
    lines = (
        (f"[{paper.title}]({name}.md)<br>{paper.citation}", f"`{name}`", len(paper.targets))
        for name, paper in papers().items()
    )
    return rendered("papers", table=md_table(("Paper", "Name", "Targets:"), lines), made=_made(pictures))


def page(name: str, pictures: Path) -> str:
    """Return a paper's page, with `<paper>/<target>.webp` of a folder of pictures."""
    paper = papers()[name]
    _, _, readme = (FOLDER / name / "README.md").read_text(encoding="utf-8").partition("\n")
    made = {path.stem for path in (pictures / name).glob("*.webp")}
    drawn = {target: about for target, about in paper.targets.items() if target in made}
    told = {"readme": readme.strip(), "found": found(name).strip(), "made": _made(pictures), "drawn": drawn}
    return rendered("paper", name=name, paper=paper, **told)


def found(name: str, folder: Path = REFERENCE) -> str:
    """Return what was measured of a paper: cells that agree, claims, and the tables that a folder keeps."""
    if not (folder / name).exists():
        return NOTHING
    lines = scoreboard(folder, [name])
    own = lines[begun(lines)]
    judged = pd.concat([claims(name, reading, folder) for reading in [*own["reading"]] or ["paper"]])
    judged = judged.drop_duplicates(["target", "id"])
    told = judged[judged["told"]]
    return rendered(
        "found",
        lines=own.to_dict("records"),
        readings=READINGS,
        rule=RULE,
        claims=claims_table(told) if len(told) else "",
        waiting=len(judged) - len(told),
        reports=_kept(name, folder / name),
    )


def _kept(name: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (target, title, table or picture as Markdown) of what is kept of a paper."""
    for target, about in papers()[name].targets.items():
        if (table := folder / f"{target}.md").exists():
            yield target, about.title, table.read_text(encoding="utf-8").rstrip()
        elif (folder / f"{target}.svg").exists():
            yield target, about.title, f"![{target}](../img/reference/{name}/{target}.svg)"


def _made(pictures: Path) -> str:
    if not (pictures / MADE).exists():
        return "No pictures have been made: `fedcore pictures` makes them of what is in reports/."
    made = json.loads((pictures / MADE).read_text(encoding="utf-8"))
    return (
        f"Pictures are of the scale `{made['scale']}`, of {made['date']}, commit {made['commit']}. "
        "The demo scale shows that everything works, not what a paper found, and says so on every picture."
    )
