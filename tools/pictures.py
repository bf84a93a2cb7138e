"""Draw the pictures of the documentation (docs/images) again: the pages of `run --html` and `explain --html` in a browser,
the heat map of a sweep, and measured kernels.

Usage: tools/pictures.py [report] [explain] [heat_map] [accuracy]; default: all. Needs the extras html and test, for the
first two Chromium and its driver. Look at what it wrote.
"""

from __future__ import annotations

import base64
import contextlib
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

from accuracy_parts.picture import PICTURE, draw
from PIL import Image
from typer.testing import CliRunner

from ascend_sim.cli import app

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))
from tests.support.report.browser import chromium, emulate  # noqa: E402 - the tests' own way to a headless browser

IMAGES = ROOT / "docs" / "images"
SECONDS_TO_DRAW = 3.0
COLOURS = 128
REPORT = ["run", "resnet50_conv2_3x3", "--mode", "timing", "--html"]
EXPLAIN = [
    "explain", "by_hand", "--element", "0,0,1,2", "--tiling", "grad_input.baseK=48", "--accumulate", "exact_group", "--html",
]  # fmt: skip
SWEEP = [
    "sweep", "resnet50_conv2_3x3", "--vary", "grad_weight.baseM=16:112:16", "--vary", "grad_weight.baseN=64:320:64",
    "--vary", "batch=1", "--of", "grad_weight_us", "--heat-map",
]  # fmt: skip
SHORTEN = """
const main = document.querySelector("main"), hide = (part) => { part.style.display = "none"; };
for (const part of main.children) {
  if (!part.matches("h1, .facts, section.kernel:not([hidden])")) { hide(part); }
}
const section = main.querySelector("section.kernel:not([hidden])"), blocks = section.querySelector(".blocks");
blocks.querySelector('button[data-show="middle"]').click();
let below = blocks.nextElementSibling;
while (below) { hide(below); below = below.nextElementSibling; }
hide(blocks.previousElementSibling);
main.style.paddingBottom = "0";
"""
"""Parts of the report: the kernels, the time of the longest one with advice, and its timeline."""


def page(arguments: list[str], path: Path) -> Path:
    """Write the page of a command."""
    done = CliRunner().invoke(app, [*arguments, str(path)])
    if done.exit_code:
        raise SystemExit(f"ascend-sim {' '.join(arguments)}: {done.output}")
    return path


def picture(browser: Any, path: Path, script: str, width: int, target: Path) -> None:
    """Open a page, run `script` in it, and keep all of it as a PNG."""
    emulate(browser, width, 900)
    browser.get(path.as_uri())
    browser.execute_script(script)
    time.sleep(SECONDS_TO_DRAW)
    emulate(browser, width, int(browser.execute_script("return document.documentElement.scrollHeight")))
    time.sleep(SECONDS_TO_DRAW)
    png = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"])
    Image.open(BytesIO(png)).convert("RGB").quantize(COLOURS).save(target, optimize=True)
    print(f"wrote {target}", file=sys.stderr)


def from_pages(names: list[str]) -> None:
    """The pictures of pages in a browser."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if "report" in names:
            picture(browser, page(REPORT, Path(folder) / "report.html"), SHORTEN, 1100, IMAGES / "report.png")
        if "explain" in names:
            step = (
                "document.getElementById('next').click(); "
                "document.querySelectorAll('details').forEach(one => one.remove())"
            )
            picture(browser, page(EXPLAIN, Path(folder) / "explain.html"), step, 1280, IMAGES / "explain.png")


def heat_map() -> None:
    """The picture of a sweep."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        drawn = page(SWEEP, Path(folder) / "heat_map.png")
        Image.open(drawn).convert("RGB").quantize(COLOURS).save(IMAGES / "heat_map.png", optimize=True)
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
