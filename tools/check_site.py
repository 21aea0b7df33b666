"""``python tools/check_site.py docs/_build/html``: are the links of the built site whole, and is it self-contained?

Every link within the site leads to a page that is there, and to a place on it; every picture, script and style is a
file of the site, so that the pages load nothing from a network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
NOT_LOADED = {
    "canonical",
    "search",
    "next",
    "prev",
    "index",
    "genindex",
    "author",
}  # relations of <link> that fetch nothing


class Page(HTMLParser):
    """The places of a page, where it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for of, name in LOADS:
            if of == tag and name in given and given.get("rel") not in NOT_LOADED:
                self.loads.append(given[name])


def faults(folder: Path) -> Iterator[str]:
    """Faults, a line each.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> page = '<p id="here"><a href="#here">x</a><a href="b.html">y</a><img src="//c/d.png">'
    >>> _ = (folder / "a.html").write_text(page)
    >>> list(faults(folder))
    ['a.html: no page b.html', 'a.html: loads //c/d.png from a network']
    """
    files = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]  # there: the theme's own
    pages = {path.resolve(): Page(path.read_text()) for path in files}
    for path, page in pages.items():
        name = path.relative_to(folder.resolve()).as_posix()
        yield from (f"{name}: {fault}" for link in page.links if (fault := _broken(link, path, pages)))
        for link in page.loads:
            parts = urlsplit(link)
            if parts.netloc:
                yield f"{name}: loads {link} from a network"
            elif parts.scheme != "data" and not (path.parent / unquote(parts.path)).exists():
                yield f"{name}: no file {link}"


def _broken(link: str, path: Path, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None  # of another site, which takes a network to check
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return f"no page {link}"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
        return f"no place {link}"
    return None


def main(folder: Path) -> None:
    pages = list(folder.rglob("*.html"))
    found = list(faults(folder))
    found += [] if pages else [f"no pages in {folder}"]
    for fault in found[:50]:
        sys.stderr.write(f"{fault}\n")
    if found:
        sys.exit(f"{len(found)} faults in {len(pages)} pages")
    sys.stdout.write(f"{len(pages)} pages: every link within leads somewhere, nothing is loaded from a network.\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
