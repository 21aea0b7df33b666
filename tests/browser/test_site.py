"""The built site in Chromium, at 1,280 pixels: code blocks fit their column, pages of the gallery show a picture first.

It builds nothing: it takes docs/_build/html, where ``make docs`` has built the site, or the folder in UNRELU_SITE.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.conftest import missing

pytestmark = pytest.mark.browser
TOO_WIDE = """
return Array.from(document.querySelectorAll("pre")).filter(block => block.scrollWidth > block.clientWidth)
    .map(block => block.textContent.split("\\n").reduce((a, b) => a.length < b.length ? b : a))
"""


def too_wide(browser, page):
    """The longest line of every block that scrolls sideways."""
    browser.driver.get(page.as_uri())
    return browser.js(TOO_WIDE)


@pytest.fixture(scope="module")
def site():
    folder = Path(os.environ.get("UNRELU_SITE", Path(__file__).parents[2] / "docs" / "_build" / "html")).resolve()
    if not (folder / "index.html").exists():
        missing(f"site in {folder}", "make docs")
    return folder


def test_no_code_block_scrolls_sideways(browser, site):
    pages = [page for page in sorted(site.rglob("*.html")) if "_static" not in page.parts]
    wide = {page.relative_to(site).as_posix(): too_wide(browser, page) for page in pages}
    assert len(wide) > 100
    assert {name: lines for name, lines in wide.items() if lines} == {}


def test_a_block_that_scrolls_is_seen(browser, tmp_path):
    page = tmp_path / "wide.html"
    page.write_text(f"<pre style='overflow: auto'>short\n{'long ' * 60}</pre><pre>short</pre>")
    assert too_wide(browser, page) == ["long " * 60]


def test_pages_of_the_gallery_show_a_picture_in_the_first_screen(browser, site):
    pages = [*site.glob("gallery/tables/*.html"), *site.glob("gallery/layers/*.html")]
    assert len(pages) >= 6
    for page in pages:
        browser.driver.get(page.as_uri())
        picture = "document.querySelector('article img')"
        assert browser.js(f"return {picture}.naturalWidth") > 500, page.name
        assert browser.js(f"return {picture}.getBoundingClientRect().bottom") <= 900, page.name
