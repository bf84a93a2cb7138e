"""The repository's own pages in the site's folder: README, CHANGELOG, docs and lessons, with their links turned to there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path, PurePosixPath

import nbformat
from formulas import in_mathml
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)\s]+)(\))")
FILES = "files"
"""Folder of the site for files of the repository that are no pages."""


def gather(pages: Path) -> list[str]:
    """Copy everything to `pages`; returns the lessons in order."""
    sources = {ROOT / "README.md": "index.md", ROOT / "CHANGELOG.md": "changelog.md"}
    sources |= {path: path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    for source, name in sources.items():
        _write(pages, name, source.read_text(encoding="utf-8"), source)
    shutil.copytree(ROOT / "docs" / "images", pages / "images")
    lessons = []
    for page in sorted((ROOT / "docs" / "lessons").glob("*.html")):
        (pages / "lessons").mkdir(exist_ok=True)
        shutil.copyfile(page, pages / "lessons" / page.name)
        number, _, title = page.stem.replace("_", " ").partition(" ")
        frame = f'<iframe class="lesson" src="{page.name}" title="{title}"></iframe>'
        name = f"lessons/{page.stem}_page.md"
        (pages / name).write_text(f"# Lesson {number}: {title}\n\n{frame}\n\n[alone]({page.name})\n", encoding="utf-8")
        lessons.append(name)
    for notebook in sorted((ROOT / "docs" / "lessons").glob("*.ipynb")):
        cells = nbformat.read(notebook, as_version=4)
        for cell in cells.cells:
            if cell.cell_type == "markdown":
                cell.source = in_mathml(cell.source)
        text, resources = MarkdownExporter().from_notebook_node(cells)
        name = f"lessons/{notebook.stem}.md"
        for picture, content in resources["outputs"].items():
            target = pages / "lessons" / notebook.stem / picture
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            text = text.replace(f"({picture})", f"({notebook.stem}/{picture})")
        _write(pages, name, text, notebook)
        lessons.append(name)
    return sorted(lessons)


def _write(pages: Path, name: str, text: str, source: Path) -> None:
    target = pages / name
    target.parent.mkdir(parents=True, exist_ok=True)
    turned = _LINK.sub(lambda link: link[1] + _turned(pages, name, link[2], source) + link[3], text)
    target.write_text(turned, encoding="utf-8")


def _turned(pages: Path, name: str, link: str, source: Path) -> str:
    """Where a link of a source leads from the page `name`; a file that is no page is copied to the site."""
    path, hash_, anchor = link.partition("#")
    there = (source.parent / path).resolve()
    if not there.exists() or not there.is_relative_to(ROOT):
        return link  # a picture that is already beside the page; else MkDocs reports it
    inside = there.relative_to(ROOT)
    place = _place(inside)
    if place.startswith(f"{FILES}/"):
        target = pages / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            target.write_text("\n".join(sorted(one.name for one in there.iterdir())) + "\n", encoding="utf-8")
        else:
            shutil.copyfile(there, target)
    up = "../" * (len(PurePosixPath(name).parts) - 1)
    return f"{up}{place}{hash_}{anchor}"


def _place(inside: Path) -> str:
    """Where a file of the repository stands in the site."""
    if inside.name == "README.md":
        return "index.md"
    if inside.name == "CHANGELOG.md":
        return "changelog.md"
    if inside.parts[:2] == ("docs", "lessons") and inside.suffix == ".ipynb":
        return f"lessons/{inside.stem}.md"
    if inside.parts[0] == "docs" and (inside.suffix in (".md", ".html") or inside.parts[1] == "images"):
        return PurePosixPath(*inside.parts[1:]).as_posix()
    return f"{FILES}/{inside.as_posix()}.txt"
