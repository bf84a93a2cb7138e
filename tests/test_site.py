"""The site's own checks (tools/website): a dead link is found, a link of the repository leads to its page."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.support.places import ROOT, TOOLS
from tests.support.report.browser import chromium


def part(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"website_{name}", TOOLS / "website" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(TOOLS / "website"))  # parts import each other
    spec.loader.exec_module(module)
    return module


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    links = ["#here", "b.html", "deep/c.html#there", "https://elsewhere.example", "deep/none.html", "b.html#none", "/b.html"]
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
    pytest.importorskip("latex2mathml")
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


def test_formulas_of_lessons_are_drawn_without_a_script() -> None:
    pytest.importorskip("latex2mathml")
    in_mathml = part("formulas").in_mathml
    text = "given $x_n$ and `$y$`\n\n$$\\sum_k a$$\n\n```sh\necho $HOME $PATH\n```\n"
    made = in_mathml(text)
    assert made.count("<math ") == 2 and made.count('display="block"') == 1 and "<msub><mi>x</mi>" in made
    assert "`$y$`" in made and "echo $HOME $PATH" in made and "\\sum" not in made
    for lesson in sorted((ROOT / "docs" / "lessons").glob("*.ipynb")):
        for cell in json.loads(lesson.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                drawn = re.sub(r"```.*?```|`[^`]*`", "", in_mathml("".join(cell["source"])), flags=re.DOTALL)
                assert "$" not in drawn, f"{lesson.name}: a formula that is not drawn"


def test_the_search_finds_sections_by_the_words_of_their_text(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.html").write_text(
        "<nav>Menu</nav><article><h1 id=top>Numbers</h1><p>Of formats.<h2 id=hf32>HF32<a>\u00b6</a></h2>"
        "<p>Ten <b>bits</b><script>no()</script></article><footer>End</footer>"
    )
    (tmp_path / "plain.html").write_text("<h1>No article</h1>")
    assert part("finding").sections(tmp_path) == [
        ("deep/a.html#top", "Numbers", "Numbers", "Of formats."),
        ("deep/a.html#hf32", "Numbers", "HF32", "Ten bits"),
    ]
    assert part("finding").write_index(tmp_path) == 2
    index = (tmp_path / "find_index.js").read_text(encoding="utf-8")
    assert index.startswith('window.findIndex = [["deep/a.html#top"')


def test_the_search_has_formulas_as_text(tmp_path: Path) -> None:
    pytest.importorskip("latex2mathml")
    said = r"$C_o$ of $\frac{2 m}{256}$, $2^{10}$, $\sum_{i=0}^{n} x$."
    (tmp_path / "a.html").write_text(f"<article><h1>Sums</h1><p>{part('formulas').in_mathml(said)}</article>")
    ((*_, text),) = part("finding").sections(tmp_path)
    assert text == "C_o of 2m/256, 2^10, \u2211_i=0^nx."


def test_the_search_needs_no_server(tmp_path: Path) -> None:
    """The field stands in the head of a page that is opened from a folder, and links to the place."""
    (tmp_path / "find.js").write_text((TOOLS / "website" / "find.js").read_text(encoding="utf-8"))
    (tmp_path / "deep").mkdir()
    page = '<div class="md-header__inner"></div><article><h1 id="top">{}</h1><p>{}</article>'
    scripts = '<script src="../find_index.js"></script><script src="../find.js"></script>'
    (tmp_path / "deep" / "a.html").write_text(scripts + page.format("Numbers", "HF32 has ten bits"))
    (tmp_path / "deep" / "b.html").write_text(page.format("HF32", "a word"))
    part("finding").write_index(tmp_path)
    with chromium() as browser:
        browser.get((tmp_path / "deep" / "a.html").as_uri())
        field = browser.find_element("css selector", "#find input")
        field.send_keys("hf32")
        links = [link.get_attribute("href") for link in browser.find_elements("css selector", "#find a")]
        assert links == [(tmp_path / "deep" / name).as_uri() + "#top" for name in ("b.html", "a.html")]
        field.send_keys(" ten")
        assert [link.text for link in browser.find_elements("css selector", "#find a")] == ["NumbersHF32 has ten bits"]
        field.send_keys(" none")
        assert browser.find_element("css selector", "#find > div").text == "no page has all these words"
        assert browser.get_log("browser") == []


def test_the_search_ranks_words_before_parts_of_words_and_today_before_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "find.js").write_text((TOOLS / "website" / "find.js").read_text(encoding="utf-8"))
    page = '<div class="md-header__inner"></div><article><h1 id="top">{}</h1><p>{}</article>'
    pages = {
        "a": ("Design", "a trace, traced, tracer, traces"),
        "b": ("Changelog", "race race"),
        "c": ("Check", "finds a race (c++)"),
    }
    for name, texts in pages.items():
        scripts = '<script src="find_index.js"></script><script src="find.js"></script>'
        (tmp_path / f"{name}.html").write_text(scripts + page.format(*texts))
    part("finding").write_index(tmp_path)
    with chromium() as browser:
        browser.get((tmp_path / "a.html").as_uri())
        field = browser.find_element("css selector", "#find input")
        for word, found in (("race", ["Check", "Changelog", "Design"]), (" (c++", ["Check"])):
            field.send_keys(word)
            assert [one.text for one in browser.find_elements("css selector", "#find a b")] == found
        assert browser.get_log("browser") == []


def test_the_navigation_is_start_lessons_uses_reference_with_chips_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gathered", ModuleType("gathered"))  # needs nbconvert; its pages are given here
    build = part("build")
    (tmp_path / "chips").mkdir()
    named = [page for chapter in build.NAVIGATION.values() for page in chapter]
    for name in (*named, "chips.md", "new.md", "chips/ascend910b3.md"):
        (tmp_path / name).write_text("# x\n")
    lessons = ["lessons/1.md", "lessons/6_page.md"]
    text = build._config(tmp_path, lessons).split("nav:\n")[1]
    chapters = {name: pages for one in yaml.safe_load(text) for name, pages in one.items()}
    assert list(chapters) == ["Start", "Lessons", "Uses", "Reference"] and chapters["Lessons"] == lessons
    folded = [one for one in chapters["Reference"] if isinstance(one, dict)]
    assert folded == [
        {"Accuracy, design, extending": ["new.md"]}, {"Chips": ["chips.md", "chips/ascend910b3.md"]},
    ]  # fmt: skip
    written = {"commands.md", "python.md", "live.md", "index.md", "chips.md"}  # by the other parts of the build
    assert {name for name in named if not (ROOT / "docs" / name).is_file()} <= written
