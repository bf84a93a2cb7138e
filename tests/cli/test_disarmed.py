"""A run without some flag is an experiment: whoever meets its report later must see that."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ascend_sim.report.html import report_html
from tests.support.cli.commands import run


def test_a_disarmed_run_says_so_everywhere(tmp_path: Path) -> None:
    """Its time is another and its gradient is not one; whoever meets it later must learn why."""
    out, flag = tmp_path / "out", "grad_input.L0C[0] full"
    ran = run("run", "by_hand", "--full", "--disarm", flag, "--out", out)
    told = " ".join(ran.out.split())
    assert ran.code == 1 and f"warning: an experiment, not the kernel: disarmed, so that its waits hold nothing: {flag}" in told
    assert re.search("grad_input +1x2x4x4 +float16 +float16 +not finite +not finite +WRONG", ran.out)
    report = json.loads((out / "report.json").read_text())
    assert flag in report_html(report, "") and "not finite" in report_html(report, "")
    timed = run("run", "by_hand", "--mode", "timing", "--disarm", flag)
    assert timed.code == 0 and f"warning: an experiment, not the kernel: disarmed, so that its waits hold nothing: {flag}" in (
        " ".join(timed.out.split())
    )
    told = run("compare", "by_hand", out, "--json")
    call = {fact["name"]: fact for fact in json.loads(told.out)["call"]}
    assert call["disarmed"]["values"] == ["nothing", flag] and call["disarmed"]["differs"]
