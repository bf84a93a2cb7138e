"""Links of a built site: whether each file and each anchor that a page names is there."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ATTRIBUTES = {"href", "src"}


class _Page(HTMLParser):
    """The anchors of a page, what it links to, and what of that it loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in _ATTRIBUTES:
                self.links.append(value)
                if name == "src" or (tag == "link" and ("rel", "stylesheet") in attrs):
                    self.loaded.append(value)


def dead(site: Path) -> list[str]:
    """A line for every link to a file or to a place in a page that is not in the folder; others are not followed."""
    pages: dict[Path, _Page] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = _Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    found = []
    for path, page in pages.items():
        for link in page.links:
            reason = _reason(site, pages, path, link)
            if reason:
                found.append(f"{path.relative_to(site)}: {link}: {reason}")
        elsewhere = [link for link in page.loaded if urlsplit(link).scheme in ("http", "https") or link.startswith("//")]
        found += [f"{path.relative_to(site)}: {link}: is loaded from the net" for link in elsewhere]
    return found


def _reason(site: Path, pages: dict[Path, _Page], path: Path, link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    if parts.path.startswith("/"):
        return "begins at the root of a server, not at this folder"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    if not target.is_relative_to(site.resolve()):
        return "leads out of the site"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "no such place in that page"
    return ""
