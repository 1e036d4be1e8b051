"""What `mkdocs build` is told: files beside docs/, links as on the site, and no helper from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from blocks import ROOT
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pipeline.fidelity.reference import REFERENCE
from pipeline.handbook import notebook

HOOKS = "pipeline/handbook/hooks.py"
MADE = {"reference/commands.md": "# Commands\n", "papers/comfed.md": "# ComFed\n"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> MkDocsConfig:
    """Return what MkDocs knows of the documentation, with the hooks and without the plug-ins of others."""
    made = MkDocsConfig(config_file_path=str(ROOT / "mkdocs.yml"))
    site = tmp_path_factory.mktemp("site")
    told = {"docs_dir": str(ROOT / "docs"), "site_dir": str(site), "hooks": [str(ROOT / HOOKS)]}
    made.load_dict({"site_name": "made up", "plugins": [], **told})
    assert made.validate() == ([], [])
    return made


@pytest.fixture
def hooks(config: MkDocsConfig) -> ModuleType:
    """Return the hooks as MkDocs loaded them."""
    (loaded,) = config["hooks"].values()
    assert isinstance(loaded, ModuleType)
    return loaded


@pytest.fixture
def files(config: MkDocsConfig, hooks: ModuleType) -> Iterator[Files]:
    """Return the files of a site of one written page, with two generated ones in place of all."""
    written = Files([File("index.md", config.docs_dir, config.site_dir, False)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hooks, "pages", lambda pictures: MADE)
        yield config.plugins.on_files(written, config=config)


def test_pages_figures_and_pictures_of_the_notebook_join_the_written_pages(files: Files) -> None:
    found = {file.src_uri: file for file in files}
    kept = sorted((ROOT / REFERENCE).rglob("*.svg"))
    assert len(kept) > 5
    figures = {f"img/reference/{path.relative_to(ROOT / REFERENCE).as_posix()}": path for path in kept}
    pictures = notebook.pictures(ROOT / "docs" / "study.ipynb")
    assert set(found) == {"index.md", *MADE, *figures, *pictures}
    for address, path in figures.items():
        assert found[address].abs_src_path == str(path)
    for address, text in MADE.items():
        assert found[address].content_string == text
        assert found[address].is_documentation_page()
    for address, picture in pictures.items():
        assert found[address].content_bytes == picture


@pytest.mark.parametrize(
    ("address", "links"),
    [
        (
            "index.md",
            {
                "[a](../CHANGELOG.md#changelog)": "[a](reference/changelog.md#changelog)",
                "[b](../pipeline/papers/comfed/README.md)": "[b](papers/comfed.md)",
                "[c](../tests/conftest.py)": "c",
                "[d](data.md)": "[d](data.md)",
                "![e](../reports/reference/fedomw/fig1.svg)": "![e](img/reference/fedomw/fig1.svg)",
            },
        ),
        (
            "papers/comfed.md",
            {
                "[a](../fedomw/README.md)": "[a](fedomw.md)",
                "[b](claims.yaml)": "b",
                "[c](../../../docs/data.md)": "[c](../data.md)",
                "![d](../../../reports/reference/fedomw/fig1.svg)": "![d](../img/reference/fedomw/fig1.svg)",
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
    page = Page(None, file, config)
    for written, expected in links.items():
        assert config.plugins.on_page_markdown(written, page=page, config=config, files=files) == expected


def test_pages_load_the_search_s_helper_from_the_site_itself(config: MkDocsConfig, hooks: ModuleType) -> None:
    site = Path(config.site_dir)
    script = '<p>caf\u00e9</p><script src="{}"></script>'
    depths = {"index.html": "", "papers/comfed.html": "../", "a/b/c.html": "../../"}
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
    assert (site / "search.js").read_text() == hooks.SHIM, "only pages are changed"
    assert (ROOT / "docs" / hooks.HELPER).is_file()
