"""The reference: command lines, a run's specification and plug-ins, from what they say about themselves."""

import inspect
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from fedcore.base.registry import plugins
from fedcore.cli.describe import KINDS, description
from fedcore.cli.main import app
from fedcore.spec import Evaluation, LrSchedule, Participation, Spec, Training
from pipeline.reports.render import rendered
from pipeline.reports.schema_docs import keys, table

TEMPLATES = Path(__file__).parent / "templates"
SECTIONS: dict[str, type[BaseModel]] = {
    "": Spec,
    "training": Training,
    "training.lr_schedule": LrSchedule,
    "participation": Participation,
    "evaluation": Evaluation,
}


def commands_page() -> str:
    """Return the page: every command with its arguments and options, in the groups of the help."""
    group: Any = get_command(app)
    panels: dict[str, str] = {}
    for name, (panel, *_) in group.commands.places.items():
        command = group.commands[name]
        text = get_docs_for_click(obj=command, ctx=Context(command), indent=2, name=f"fedcore {name}")
        panels[panel] = f"{panels[panel]}\n{text}" if panel in panels else text
    return rendered("commands.md", {"panels": panels}, TEMPLATES)


def specification_page() -> str:
    """Return the page on a specification's keys."""
    sections = [
        (f"`{where}`" if where else "The top level", inspect.getdoc(model), table(keys(model, where)))
        for where, model in SECTIONS.items()
    ]
    return rendered("specification.md", {"sections": sections}, TEMPLATES)


def plugins_page() -> str:
    """Return the page on plug-ins."""
    kinds = {title.capitalize(): sorted(plugins(kind)) for title, kind in KINDS.items()}
    return rendered("plugins.md", {"kinds": kinds, "describe": description}, TEMPLATES)
