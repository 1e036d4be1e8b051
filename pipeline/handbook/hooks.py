"""What `mkdocs build` calls: pages made of the code and of files outside docs/, and links to these."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pipeline.catalogue.params import configuration, with_studies
from pipeline.handbook import notebook, reference
from pipeline.papers import papers
from pipeline.reports.kept import REFERENCE
from pipeline.site import write
from pipeline.site.format import ASSETS
from pipeline.site.pages import FRONT, OWN, Results, every
from pipeline.site.survey import survey

HOME = Path(__file__).parents[2]
COPIED = {
    "CHANGELOG.md": "reference/changelog.md",
    "SECURITY.md": "reference/security.md",
    "pipeline/papers/README.md": "reference/papers.md",
}
STUDY, STUDY_PAGE = "study.ipynb", "study.md"
SHIM, HELPER = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
EMPTY = re.compile(r"<th([^>]*)></th>")
LOOKED_UP = (
    *("api", "architecture", "decisions", "own-data", "params", "peers", "readings", "reliability"),
    "results",
    *(f"reference/{name}" for name in ("changelog", "commands", "papers", "plugins", "specification")),
)
GUIDES = ("add-an-algorithm", "benchmark", "fidelity", "studies", *(f"evidence/{name}" for name in papers()))
# Pages of more than six screens of a phone, with how many of their sections stay open.
FOLDED = {f"{name}.md": count for names, count in ((LOOKED_UP, 0), (GUIDES, 1)) for name in names}
LONG = 1200  # of a section's HTML
SECTION = re.compile(r"(?s)(<h2[ >].*?</h2>(?:\s*<p>.*?</p>)?(?:\s*<p><img[^>]*></p>)?)(.*?)(?=<h2[ >]|\Z)")
LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^()\s#]+)(#[^()\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Look at what there is of results."""
    if "results" not in config.extra:
        surveyed = survey(with_studies(configuration(HOME / "params.yaml"), HOME), HOME)
        config.extra["results"] = every(surveyed, HOME)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the figures that were made at the papers' own scale."""
    results: Results = config.extra["results"]
    generated: dict[str, str | bytes] = {address: page.text for address, page in results.pages.items()}
    copied = {f"assets/{path.name}": path for path in sorted(ASSETS.iterdir())}
    if Path(config.docs_dir) == HOME / "docs":
        generated |= {**pages(), **notebook.pictures(HOME / "docs" / STUDY)}
        copied |= {address: HOME / figure for figure, address in figures().items()}
    for address, content in generated.items():
        files.append(File.generated(config, address, content=content))
    for address, path in copied.items():
        files.append(File.generated(config, address, abs_src_path=str(path)))
    config.nav = [*shown(config.nav or (), {*files.src_uris}, [*results.pages])]
    return files


def shown(nav: Any, known: Collection[str], results: Collection[str]) -> Iterator[Any]:
    """Yield those entries of a navigation that are there.

    The pages of all papers, by name, come before that of all their cells; pages of what was built here follow
    their list.
    """
    for entry in nav:
        (label, inner) = next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
        if isinstance(inner, list):
            if below := [*shown(inner, known, results)]:
                yield {label: below}
        elif inner == OWN:
            addresses = [address for address in results if address.startswith("own/")]
            yield {label: addresses if len(addresses) > 1 else inner}
        elif inner in known:
            if inner == "results/board.md":
                yield from ({name: page} for name in papers() if (page := f"papers/{name}.md") in known)
            yield entry


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside docs/ lead to their page here; others become plain text."""
    address = page.file.src_uri
    files_by_address = {place: name for name, place in sources().items()} | {FRONT: "README.md"}
    written = (HOME / "docs" / address).exists()
    source = f"docs/{address}" if written else files_by_address.get(address, address)
    return relinked(markdown, source, address, files.src_uris)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the tables and curves of a page of results into their places; no heading of a column is empty."""
    results: Results = config.extra["results"]
    address = page.file.src_uri
    result = results.pages.get(address)
    content = result.whole(html) if result else folded(html, FOLDED[address]) if address in FOLDED else html
    return EMPTY.sub(r"<td\1></td>", content)


def folded(html: str, open_ones: int) -> str:
    """Put what follows the first paragraph of each long section into a fold, but for the first sections.

    A section stays open where that paragraph ends in a colon.
    """
    sections = count()

    def fold(match: re.Match[str]) -> str:
        start, rest = match.groups()
        if next(sections) < open_ones or len(rest) < LONG or start.endswith(":</p>"):
            return match[0]
        word = "More" if "<p>" in start else "Show"
        return f'{start}<details class="more"><summary>{word}</summary>\n{rest}</details>\n'

    return SECTION.sub(fold, html)


def on_post_build(config: MkDocsConfig) -> None:
    """Write what pages point at, and let them load the search's helper from the site itself."""
    site = Path(config.site_dir)
    write(config.extra["results"], site)
    for path in site.glob("sitemap.xml*"):  # it holds the day, and no address
        path.unlink()
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if SHIM in text:
            address = posixpath.relpath(HELPER, path.parent.relative_to(site).as_posix())
            path.write_text(text.replace(SHIM, address), encoding="utf-8")


def pages() -> Mapping[str, str]:
    """Return the generated pages by their address below docs/."""
    return {
        "reference/commands.md": reference.commands_page(),
        "reference/specification.md": reference.specification_page(),
        "reference/plugins.md": reference.plugins_page(),
        STUDY_PAGE: notebook.page(HOME / "docs" / STUDY),
        **{address: (HOME / name).read_text(encoding="utf-8") for name, address in COPIED.items()},
    }


def sources() -> Mapping[str, str]:
    """Return the page's address of each file outside docs/ that has one."""
    readmes = {f"pipeline/papers/{name}/README.md": f"papers/{name}.md" for name in papers()}
    return {**COPIED, **readmes, **figures(), "README.md": "start.md", f"docs/{STUDY}": STUDY_PAGE}


def figures() -> Mapping[str, str]:
    """Return the address of each figure that was made at the papers' own scale."""
    names = [figure.relative_to(HOME).as_posix() for figure in sorted((HOME / REFERENCE).rglob("*.svg"))]
    return {name: name.replace(REFERENCE.as_posix(), "files/kept") for name in names}


def relinked(markdown: str, source: str, address: str, pages: Collection[str]) -> str:
    """Return a page's text with its links as they have to be on the site.

    Links start at its ``source``, a file from the project's root; its page is at ``address``, from docs/, and
    ``pages`` are the addresses that the site has.
    """
    known = sources()
    folder = posixpath.dirname(address)

    def replaced(match: re.Match[str]) -> str:
        picture, label, target, anchor = match.groups("")
        within = source.startswith("docs/") and (HOME / "docs" / folder / target).exists()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        direct = within and not target.startswith("../") and file not in known
        if re.match(r"\w+:", target) or direct:
            return match[0]
        inside = known.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        if inside is None or inside not in pages:
            return label if (HOME / file).exists() else match[0]
        return f"{picture}[{label}]({posixpath.relpath(inside, folder or '.')}{anchor})"

    return LINK.sub(replaced, markdown)
