"""live.md and the pages that the commands write with --html: a report, a comparison, a walk, a network."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from ascend_sim.cli import app

PAGES = {
    "report": (
        "run resnet50_conv2_3x3 --mode timing",
        "The backward pass of a ResNet-50 layer on a 910B3: what holds each kernel up, its waterfall, its timeline.",
    ),
    "compare": (
        "compare ascend910b3 ascend950pr_9589 --case strided",
        "One layer with stride 2 on two chips, side by side, with what differs marked.",
    ),
    "explain": (
        "explain by_hand --element 0,0,1,2",
        "One number of a gradient, step by step: its formula, its tile, each load and each product.",
    ),
    "network": (
        "run-network resnet18 --batch 8 --jobs 1",
        "The convolutions of a network, ranked by time and by what could be saved.",
    ),
}
"""Name -> command without --html, and what its page shows."""


def write(pages: Path) -> None:
    """Each page, and one that lists them."""
    folder = pages / "live"
    folder.mkdir()
    parts = ["# Live pages\n", "Written by these commands when the site was built; each is one file that needs no network.\n"]
    for name, (command, words) in PAGES.items():
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            done = CliRunner().invoke(app, [*command.split(), "--html", str(folder / f"{name}.html")])
        if done.exit_code:
            raise SystemExit(f"ascend-sim {command}: {done.output}")
        parts.append(f"- [{name}](live/{name}.html): {words}\n\n        ascend-sim {command} --html {name}.html\n")
    parts.append("- [a lesson](lessons/6_take_a_flag_away.html): take a flag away, and see the race and the wrong number.\n")
    (pages / "live.md").write_text("\n".join(parts), encoding="utf-8")
