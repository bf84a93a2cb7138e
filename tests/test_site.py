"""The site's own checks (tools/website): a dead link is found, a link of the repository leads to its page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.places import ROOT, TOOLS


def part(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"website_{name}", TOOLS / "website" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    links = [
        "#here",
        "b.html",
        "deep/c.html#there",
        "https://elsewhere.example",
        "deep/none.html",
        "b.html#none",
        "/b.html",
    ]
    (tmp_path / "index.html").write_text("<h1 id=here>" + "".join(f'<a href="{one}">x</a>' for one in links))
    (tmp_path / "b.html").write_text(
        '<img src="picture.png"><a href="../outside.html"><script src="https://elsewhere.example/a.js">'
    )
    (tmp_path / "deep" / "c.html").write_text('<p id="there"><a href="../index.html#here">')
    assert part("links").dead(tmp_path) == [
        "b.html: picture.png: no such file",
        "b.html: ../outside.html: no such file",
        "b.html: https://elsewhere.example/a.js: is loaded from the net",
        "index.html: deep/none.html: no such file",
        "index.html: b.html#none: no such place in that page",
        "index.html: /b.html: begins at the root of a server, not at this folder",
    ]


def test_links_of_the_repository_lead_to_the_pages_made_of_them(tmp_path: Path) -> None:
    pytest.importorskip("nbconvert")
    gathered = part("gathered")
    turned = {
        link: gathered._turned(tmp_path, "lessons/1.md", link, ROOT / "docs" / "lessons" / "1.ipynb")
        for link in ("../files.md#case-files", "../images/report.png", "../../README.md", "../../LICENSE", "own.png")
    }
    assert list(turned.values()) == [
        "../files.md#case-files", "../images/report.png", "../index.md", "../files/LICENSE.txt", "own.png",
    ]  # fmt: skip
    assert (tmp_path / "files" / "LICENSE.txt").is_file()


def test_every_command_and_name_is_on_its_page() -> None:
    import ascend_sim
    from ascend_sim.cli.app import COMMANDS

    commands = part("commands")
    text = commands.commands()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(COMMANDS)
    assert "| `--trace-limit` | a whole number | `500000` |" in text and "| `CASE` | text | required |" in text
    named = [line[3:] for line in commands.names().splitlines() if line.startswith("## ")]
    assert named == ascend_sim.__all__
