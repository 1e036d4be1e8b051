"""What `mkdocs build` calls: pages made of the code and of files outside docs/, and links to these."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pipeline.fidelity.reference import REFERENCE
from pipeline.handbook import notebook, papers, reference
from pipeline.papers import papers as known_papers

HOME = Path(__file__).parents[2]
COPIED = {
    "CHANGELOG.md": "reference/changelog.md",
    "SECURITY.md": "reference/security.md",
    "pipeline/papers/README.md": "reference/papers.md",
}
STUDY, STUDY_PAGE = "study.ipynb", "study.md"
SHIM, HELPER = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
PAPERS_PAGE = "papers/index.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|`[^`]*`)*)\]\(([^()\s#]+)(#[^()\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let every paper have its page in the navigation."""
    config.nav = with_papers(config.nav)
    return config


def with_papers(nav: Any) -> Any:
    """Return a navigation with the pages of all papers, by name, after that of their list."""
    if isinstance(nav, dict):
        return {label: with_papers(inner) for label, inner in nav.items()}
    if not isinstance(nav, list):
        return nav
    own = [{name: f"papers/{name}.md"} for name in known_papers()] if PAPERS_PAGE in nav else []
    return [*map(with_papers, nav), *own]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the figures that were made at the papers' own scale."""
    for figure, address in figures().items():
        files.append(File.generated(config, address, abs_src_path=str(HOME / figure)))
    made: dict[str, str | bytes] = {**pages(HOME / "docs" / "img" / "papers")}
    for address, content in (made | notebook.pictures(HOME / "docs" / STUDY)).items():
        files.append(File.generated(config, address, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside docs/ lead to their page here; others become plain text."""
    address = page.file.src_uri
    places = {place: name for name, place in sources().items()}
    written = (HOME / "docs" / address).exists()
    return relinked(markdown, f"docs/{address}" if written else places.get(address, address), address)


def on_post_build(config: MkDocsConfig) -> None:
    """Let every page load the search's helper from the site itself, in place of the network."""
    site = Path(config.site_dir)
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if SHIM in text:
            here = posixpath.relpath(HELPER, path.parent.relative_to(site).as_posix())
            path.write_text(text.replace(SHIM, here), encoding="utf-8")


def pages(pictures: Path) -> Mapping[str, str]:
    """Return the generated pages by their address below docs/."""
    return {
        "reference/commands.md": reference.commands_page(),
        "reference/specification.md": reference.specification_page(),
        "reference/plugins.md": reference.plugins_page(),
        PAPERS_PAGE: papers.index(pictures),
        STUDY_PAGE: notebook.page(HOME / "docs" / STUDY),
        **{address: (HOME / name).read_text(encoding="utf-8") for name, address in COPIED.items()},
        **{f"papers/{name}.md": papers.page(name, pictures) for name in known_papers()},
    }


def sources() -> Mapping[str, str]:
    """Return the page's address of each file outside docs/ that has one."""
    readmes = {f"pipeline/papers/{name}/README.md": f"papers/{name}.md" for name in known_papers()}
    return {**COPIED, **readmes, **figures(), "README.md": "index.md", f"docs/{STUDY}": STUDY_PAGE}


def figures() -> Mapping[str, str]:
    """Return the address of each figure that was made at the papers' own scale."""
    found = [figure.relative_to(HOME).as_posix() for figure in sorted((HOME / REFERENCE).rglob("*.svg"))]
    return {name: f"img/{name.removeprefix('reports/')}" for name in found}


def relinked(markdown: str, source: str, address: str) -> str:
    """Return a page's text with its links as they have to be on the site.

    Links start at its ``source``, a file from the project's root; its page is at ``address``, from docs/.
    """
    known = sources()
    here = posixpath.dirname(address)

    def replaced(found: re.Match[str]) -> str:
        picture, label, target, place = found.groups("")
        within = source.startswith("docs/") and (HOME / "docs" / here / target).exists()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        direct = within and not target.startswith("../") and file not in known
        if re.match(r"\w+:", target) or direct:
            return found[0]
        inside = known.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        if inside is None:
            return label if (HOME / file).exists() else found[0]
        return f"{picture}[{label}]({posixpath.relpath(inside, here or '.')}{place})"

    return LINK.sub(replaced, markdown)
