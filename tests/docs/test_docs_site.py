"""The documentation's pages are built without a warning, need no network, and fit a phone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blocks import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    process = subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, text=True)
    assert process.returncode == 0
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(
            "no Chromium on PATH: install one (Debian: chromium) to test the pages as readers see them"
        )
    api = pytest.importorskip("playwright.sync_api", reason="needs the playwright package")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = [path for path in site.rglob("*.html") if "files" not in path.parts]
    assert len(pages) > 40
    for path in pages:
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="?([^" >]+)', path.read_text())
        loaded += re.findall(r'<link[^>]* rel="?(?:stylesheet|icon)[^>]* href="?([^" >]+)', path.read_text())
        assert [address for address in loaded if re.match(r"\w+:|//", address)] == [], path
        assert len(loaded) > 3


def failed(request: Request) -> list[str]:
    """Return a request's address, unless the next page put an end to it."""
    return [] if request.failure == "net::ERR_ABORTED" else [request.url]


def test_no_page_is_wider_than_a_phone_and_none_complains(browser: Browser, site: Path) -> None:
    complaints: list[str] = []
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 390, "height": 844}, offline=True, color_scheme=scheme
        )
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.extend(failed(request)))
        for path in sorted(set(site.rglob("*.html")) - {site / "404.html", *site.rglob("files/**/*.html")}):
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        context.close()
    assert complaints == []


def test_the_search_finds_a_word_without_a_network(browser: Browser, site: Path) -> None:
    page = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}).new_page()
    page.goto((site / "index.html").as_uri())
    page.locator(".md-search__input").click()
    page.keyboard.type("counter-based")
    links = page.locator(".md-search-result__item a")
    links.first.wait_for(timeout=20_000)
    assert any("determinism.html" in (link.get_attribute("href") or "") for link in links.all())


@pytest.mark.parametrize(("width", "height", "most"), [(1280, 800, 6), (390, 844, 7)], ids=["desk", "phone"])
def test_no_page_has_more_than_a_few_screens(
    browser: Browser, site: Path, width: int, height: int, most: int
) -> None:
    page = browser.new_context(offline=True, viewport={"width": width, "height": height}).new_page()
    heights = {}
    for path in sorted(set(site.rglob("*.html")) - {site / "404.html", *site.rglob("files/**/*.html")}):
        page.goto(path.as_uri())
        heights[path.relative_to(site).as_posix()] = (
            page.evaluate("document.documentElement.scrollHeight") / height
        )
    assert {name: screens for name, screens in heights.items() if screens > most} == {}


def test_a_link_into_a_fold_opens_it(browser: Browser, site: Path) -> None:
    page = browser.new_context(offline=True, viewport={"width": 1280, "height": 800}).new_page()
    page.goto((site / "reference/commands.html").as_uri())
    heading = page.locator("#fedcore-build")
    assert heading.is_hidden()
    assert page.locator("details[open]").count() == 0
    page.goto((site / "reference/commands.html").as_uri() + "#build")
    assert page.get_by_text("Print the command of each job too").is_visible()
    page.evaluate("location.hash = 'fedcore-run'")
    page.locator("#fedcore-run").wait_for()
    assert page.locator("details[open]").count() == 2
