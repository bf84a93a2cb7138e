"""Pages of a network, and of the networks that ship."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

from ascend_sim.ops.network import load_network
from ascend_sim.studies.network.pages import layout_line, list_markdown
from ascend_sim.studies.network.run import run_network
from tests.support.places import DOCS
from tests.support.studies.small_network import THREE_LAYERS


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


@pytest.mark.fast
def test_around_is_told_by_kernel(small: Path) -> None:
    run = run_network(load_network(small))
    assert sum(run.layout.values()) == pytest.approx(run.totals["layout"])
    own = [kernel for layer in run.layers for kernel in layer.kernels if kernel["op_type"] == "TransData"]
    assert run.layout["TransData"] == pytest.approx(sum(kernel["task_us"] for kernel in own)) and len(own) > 3
    assert list(run.layout.values()) == sorted(run.layout.values(), reverse=True)
    assert "TransData" in layout_line(run) and not {"Conv2DBackpropInput", "Conv2DBackpropFilter"} & set(run.layout)


def test_the_page_lists_the_networks_as_their_files_are() -> None:
    """After a change, `list_markdown` gives the table anew, with the networks that the page does not have yet."""
    page = (DOCS / "networks.md").read_text(encoding="utf-8").splitlines()
    head, line, *rows = list_markdown().splitlines()
    at = page.index(head)
    shown = list(takewhile(lambda row: row.startswith("|"), page[at + 2 :]))
    assert page[at + 1] == line and shown == [row for row in rows if row.split("`")[1] in "".join(shown)]
