"""What `mkdocs build` is told: files beside docs/, links as on the site, and no helper from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from blocks import ROOT
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page as Written

from pipeline.handbook import notebook
from pipeline.reports.kept import REFERENCE
from pipeline.site.format import ASSETS
from pipeline.site.pages import Page, Results

HOOKS = "pipeline/handbook/hooks.py"
WRITTEN = ("start.md", "data.md")
MADE = {"reference/commands.md": "# Commands\n", "reference/changelog.md": "# Changes\n"}
RESULTS = {
    "index.md": Page('# Front\n\n<div data-part="0"></div>\n', ("<p>*one* & two</p>",)),
    "papers/comfed.md": Page("# ComFed\n", ()),
    "papers/fedomw.md": Page("# FedOMW\n", ()),
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> MkDocsConfig:
    """Return what MkDocs knows of the documentation, with the hooks and without the plug-ins of others."""
    settings = MkDocsConfig(config_file_path=str(ROOT / "mkdocs.yml"))
    site = tmp_path_factory.mktemp("site")
    paths = {"docs_dir": str(ROOT / "docs"), "site_dir": str(site), "hooks": [str(ROOT / HOOKS)]}
    settings.load_dict({"site_name": "made up", "plugins": [], **paths})
    assert settings.validate() == ([], [])
    return settings


@pytest.fixture
def hooks(config: MkDocsConfig) -> ModuleType:
    """Return the hooks as MkDocs loaded them."""
    (loaded,) = config["hooks"].values()
    assert isinstance(loaded, ModuleType)
    return loaded


@pytest.fixture
def files(config: MkDocsConfig, hooks: ModuleType) -> Iterator[Files]:
    """Return the files of a site of one written page, with two generated ones in place of all."""
    written = Files([File(name, config.docs_dir, config.site_dir, False) for name in WRITTEN])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hooks, "pages", lambda: MADE)
        patch.setitem(config.extra, "results", Results((), RESULTS, {}))
        yield config.plugins.on_files(written, config=config)


def test_pages_figures_and_pictures_of_the_notebook_join_the_written_pages(files: Files) -> None:
    by_address = {file.src_uri: file for file in files}
    kept = sorted((ROOT / REFERENCE).rglob("*.svg"))
    assert len(kept) > 5
    figures = {f"files/kept/{path.relative_to(ROOT / REFERENCE).as_posix()}": path for path in kept}
    pictures = notebook.pictures(ROOT / "docs" / "study.ipynb")
    assets = {f"assets/{path.name}" for path in ASSETS.iterdir()}
    assert set(by_address) == {*WRITTEN, *RESULTS, *MADE, *figures, *pictures, *assets}
    for address, path in figures.items():
        assert by_address[address].abs_src_path == str(path)
    for address, text in MADE.items():
        assert by_address[address].content_string == text
        assert by_address[address].is_documentation_page()
    for address, picture in pictures.items():
        assert by_address[address].content_bytes == picture


@pytest.mark.parametrize(
    ("address", "links"),
    [
        (
            "index.md",
            {
                "[a](docs/data.md#terms)": "[a](data.md#terms)",
                "[b](pipeline/papers/comfed/README.md)": "[b](papers/comfed.md)",
            },
        ),
        (
            "start.md",
            {
                "[a](../CHANGELOG.md#changelog)": "[a](reference/changelog.md#changelog)",
                "[b](../pipeline/papers/comfed/README.md)": "[b](papers/comfed.md)",
                "[c](../tests/conftest.py)": "c",
                "[d](data.md)": "[d](data.md)",
                "![e](../reports/reference/fedomw/fig1.svg)": "![e](files/kept/fedomw/fig1.svg)",
            },
        ),
        (
            "papers/comfed.md",
            {
                "[a](../fedomw/README.md)": "[a](fedomw.md)",
                "[b](claims.yaml)": "b",
                "[c](../../../docs/data.md)": "[c](../data.md)",
                "![d](../../../reports/reference/fedomw/fig1.svg)": "![d](../files/kept/fedomw/fig1.svg)",
            },
        ),
        (
            "reference/commands.md",
            {
                "[a](../data.md)": "[a](../data.md)",
                "[b](https://example.org/x)": "[b](https://example.org/x)",
            },
        ),
    ],
)
def test_links_of_a_page_start_where_its_text_comes_from(
    config: MkDocsConfig, files: Files, address: str, links: dict[str, str]
) -> None:
    file = files.get_file_from_path(address)
    assert file is not None
    page = Written(None, file, config)
    for written, expected in links.items():
        assert config.plugins.on_page_markdown(written, page=page, config=config, files=files) == expected


def test_parts_of_results_reach_the_page_as_they_are(config: MkDocsConfig, files: Files) -> None:
    for address, expected in {
        "index.md": "<h1>Front</h1>\n<p>*one* & two</p>",
        "start.md": "<h1>Front</h1>",
    }.items():
        page = Written(None, files.src_uris[address], config)
        html = "<h1>Front</h1>" + ('\n<div data-part="0"></div>' if address == "index.md" else "")
        assert config.plugins.on_page_content(html, page=page, config=config, files=files) == expected


def test_the_navigation_has_the_pages_that_are_there(config: MkDocsConfig, hooks: ModuleType) -> None:
    nav = [
        {"Results": [{"Front": "index.md"}, {"Own": "own/index.md"}]},
        {"Do": ["data.md", "gone.md"]},
        {"X": ["no.md"]},
    ]
    results = ["index.md", "own/index.md", "own/a.md"]
    assert [*hooks.shown(nav, {*results, "data.md"}, results)] == [
        {"Results": [{"Front": "index.md"}, {"Own": ["own/index.md", "own/a.md"]}]},
        {"Do": ["data.md"]},
    ]
    assert [*hooks.shown(nav[:1], results[:2], results[:2])] == nav[:1]


def test_pages_load_the_search_s_helper_from_the_site_itself(
    config: MkDocsConfig, hooks: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Path(config.site_dir)
    script = '<p>caf\u00e9</p><script src="{}"></script>'
    depths = {"index.html": "", "papers/comfed.html": "../", "a/b/c.html": "../../"}
    monkeypatch.setitem(config.extra, "results", Results((), {}, {"data/runs.js": "runs"}))
    (site / "assets").mkdir()
    for name in depths:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(script.format(hooks.SHIM), encoding="utf-8")
    (site / "plain.html").write_bytes(b"<p>no script</p>")
    (site / "search.js").write_text(hooks.SHIM)
    config.plugins.on_post_build(config=config)
    for name, up in depths.items():
        expected = script.format(f"{up}assets/iframe-worker.js")
        assert (site / name).read_text(encoding="utf-8") == expected
    assert (site / "plain.html").read_bytes() == b"<p>no script</p>"
    assert (site / "data/runs.js").read_text() == "runs"
    assert (site / "search.js").read_text() == hooks.SHIM, "only pages are changed"
    assert (ASSETS / Path(hooks.HELPER).name).is_file()


def test_long_sections_are_folded_after_their_first_paragraph_but_for_the_first(hooks: ModuleType) -> None:
    long = f"<pre>{'x' * hooks.LONG}</pre>"
    link = '<a class="headerlink" href="#b">¶</a>'
    sections = [
        f"<h2>A</h2><p>a</p>{long}",
        f'<h2 id="b">B <code>b</code>{link}</h2>\n<p>b</p>{long}<h3>C</h3>',
        f"<h2>D</h2>\n<p>d</p>\n<p><img alt='d' src='d.svg'></p>{long}",
        "<h2>E</h2><p>short</p>",
        f"<h2>F</h2><p>as follows:</p>{long}",
    ]
    html = hooks.folded("<h1>Title</h1>" + "".join(sections), 1)
    head = html.partition("<h2 id")[0]
    second, third, short, last = html.split("<h2")[2:]
    assert head == f"<h1>Title</h1>{sections[0]}"
    assert second.startswith(f' id="b">B <code>b</code>{link}</h2>\n<p>b</p><details class="more">')
    assert "<summary>More</summary>" in second
    assert second.rstrip().endswith("<h3>C</h3></details>")
    assert third.startswith(">D</h2>\n<p>d</p>\n<p><img alt='d' src='d.svg'></p><details class=\"more\">")
    assert "<summary>More</summary>" in third
    assert short == ">E</h2><p>short</p>"
    assert last == f">F</h2><p>as follows:</p>{long}", "what a colon announces follows it"
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {*hooks.FOLDED} <= {*written, *hooks.pages()}
