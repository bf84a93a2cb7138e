"""Draw the pictures of the documentation (docs/images) again: the pages of `run --html` and `explain --html` in a browser,
the heat map of a sweep, and measured kernels. docs/images/figures.yaml then holds the figures that each shows, which
tests/test_pictures.py compares with the text beside it.

Usage: tools/pictures.py [report] [explain] [heat_map] [accuracy]; default: all. Needs the extras html and test, for the
first two Chromium and its driver. Look at what it wrote.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml
from accuracy_parts.picture import PICTURE, draw
from PIL import Image
from typer.testing import CliRunner

from ascend_sim.cli import app

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))
from tests.support.report.browser import chromium, emulate  # noqa: E402 - the tests' own way to a headless browser

IMAGES = ROOT / "docs" / "images"
FIGURES = IMAGES / "figures.yaml"
SECONDS_TO_DRAW = 3.0
COLOURS = 128
REPORT = ["run", "resnet50_conv2_3x3", "--mode", "timing", "--html"]
EXPLAIN = [
    "explain", "by_hand", "--element", "0,0,1,2", "--tiling", "grad_input.baseK=48", "--accumulate", "exact_group", "--html",
]  # fmt: skip
COLUMN = "grad_weight_us"
SWEEP = [
    "sweep", "resnet50_conv2_3x3", "--vary", "grad_weight.baseM=16:112:16", "--vary", "grad_weight.baseN=64:320:64",
    "--vary", "batch=1", "--of", COLUMN, "--heat-map",
]  # fmt: skip
SHORTEN = """
const main = document.querySelector("main"), hide = (part) => { part.style.display = "none"; };
for (const part of main.children) {
  if (!part.matches("h1, .facts, .facts + p, #advice, section.kernel:not([hidden])")) { hide(part); }
}
const section = main.querySelector("section.kernel:not([hidden])"), blocks = section.querySelector(".blocks");
blocks.querySelector('button[data-show="middle"]').click();
let below = blocks.nextElementSibling.nextElementSibling.nextElementSibling;  // below the waterfall and its heading
while (below) { hide(below); below = below.nextElementSibling; }
hide(blocks.previousElementSibling);
main.style.paddingBottom = "0";
"""
"""Parts of the report: the cards, the advice, the timeline of the longest kernel, and its waterfall."""
SECOND_MMAD = """
const said = () => document.getElementById("now").textContent;
document.getElementById("slider").value = 0;
document.getElementById("slider").dispatchEvent(new Event("input"));
while (!said().startsWith("mmad 1 ")) { document.getElementById("next").click(); }
document.querySelectorAll("details").forEach(one => one.remove());
"""
CARDS = 'return [...document.querySelectorAll(".fact, #advice > li")].map(part => part.innerText.replaceAll("\\n", " "))'
STEP = 'return [document.getElementById("now").textContent]'


def written(arguments: list[str], path: Path) -> str:
    """Run a command that writes `path`, and return what it printed."""
    done = CliRunner().invoke(app, [*arguments, str(path)])
    if done.exit_code:
        raise SystemExit(f"ascend-sim {' '.join(arguments)}: {done.output}")
    return done.stdout


def record(name: str, command: list[str], shows: list[str]) -> None:
    """Write what a picture shows, and the digest of its file, to `FIGURES`."""
    known = yaml.safe_load(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    digest = hashlib.sha256((IMAGES / f"{name}.png").read_bytes()).hexdigest()
    known[name] = {"command": " ".join(command), "sha256": digest, "shows": shows}
    text = yaml.safe_dump(known, width=110, allow_unicode=True)
    FIGURES.write_text(f"# Written by tools/pictures.py: what each picture shows.\n{text}", encoding="utf-8")


def picture(browser: Any, path: Path, script: str, width: int, target: Path, figures: str) -> list[str]:
    """Open a page, run `script` in it, keep all of it as a PNG, and return what the script `figures` reads on it."""
    emulate(browser, width, 900)
    browser.get(path.as_uri())
    browser.execute_script(script)
    time.sleep(SECONDS_TO_DRAW)
    emulate(browser, width, int(browser.execute_script("return document.documentElement.scrollHeight")))
    time.sleep(SECONDS_TO_DRAW)
    png = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"])
    Image.open(BytesIO(png)).convert("RGB").quantize(COLOURS).save(target, optimize=True)
    print(f"wrote {target}", file=sys.stderr)
    return list(browser.execute_script(figures))


def from_pages(names: list[str]) -> None:
    """The pictures of pages in a browser."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for name, command, script, width, figures in (
            ("report", REPORT, SHORTEN, 1100, CARDS),
            ("explain", EXPLAIN, SECOND_MMAD, 1280, STEP),
        ):
            if name in names:
                path = Path(folder) / f"{name}.html"
                written(command, path)
                record(name, command, picture(browser, path, script, width, IMAGES / f"{name}.png", figures))


def heat_map() -> None:
    """The picture of a sweep."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        drawn = Path(folder) / "heat_map.png"
        said = written(["sweep", "--json", *SWEEP[1:]], drawn)
        Image.open(drawn).convert("RGB").quantize(COLOURS).save(IMAGES / "heat_map.png", optimize=True)
    rows = json.loads(said)["rows"]
    record("heat_map", SWEEP, [f"{row[COLUMN]:,.4g}" if COLUMN in row else "refused" for row in rows])
    print(f"wrote {IMAGES / 'heat_map.png'}", file=sys.stderr)


def main() -> None:
    """The pictures asked for."""
    known = ["report", "explain", "heat_map", "accuracy"]
    names = sys.argv[1:] or known
    if unknown := set(names) - set(known):
        raise SystemExit(f"{', '.join(sorted(unknown))}: no such picture; there are {', '.join(known)}")
    if {"report", "explain"} & set(names):
        from_pages(names)
    if "heat_map" in names:
        heat_map()
    if "accuracy" in names:
        draw(PICTURE)
        print(f"wrote {PICTURE}", file=sys.stderr)


if __name__ == "__main__":
    main()
