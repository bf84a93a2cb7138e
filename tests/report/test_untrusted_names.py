"""Names that come from outside stay text: no page has an element, an attribute or a script of theirs, no path a folder.

Every name that a page can show is EVIL here: kernels, flags, buffers, layers, modules, labels, cases, chips, warnings.
"""

from __future__ import annotations

import dataclasses
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.report.html import report_html
from ascend_sim.report.msprof import write_msprof
from ascend_sim.report.page import write_page
from ascend_sim.report.what_if import what_if

EVIL = "\"'><script>alert(1)</script><!--<script><img src=x onerror=alert(1)>&lt;\\"
pytest.importorskip("plotly")


class PageReader(HTMLParser):
    """Page as a browser reads it: its elements, its texts and its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.kinds: list[str | None] = []
        self.texts, self.data, self.comments = "", "", 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "script":
            self.kinds.append(dict(attrs).get("type"))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.kinds[-1:] == ["application/json"]:
            self.data += data
        elif self.lasttag != "script":
            self.texts += data

    def handle_comment(self, data: str) -> None:
        self.comments += 1


def check(text: str, *, scripts: int, shown: str = EVIL) -> PageReader:
    """The page's own elements and nothing else; the name is there, letter for letter."""
    page = PageReader(text)
    assert "img" not in page.tags and not page.comments
    assert not {name for name in page.attributes if name.startswith("on") or name.strip("abcdefghijklmnopqrstuvwxyz-")}
    assert page.tags.count("script") == scripts
    assert "<" not in page.data, "no data may open or close a script"
    assert shown in page.texts or json.dumps(shown)[1:-1].replace("<", "\\u003c") in page.data
    return page


@asim.kernel_function(core="AIV")
def move(k: Any, x: Any, y: Any) -> None:
    held = k.local_tensor(64, "float32", EVIL)
    rows = k.queue(EVIL + "q", "UB", 256, "MTE2", "MTE3")
    for row in range(2):
        k.gm_to_ub(rows.acquire(), x[row])
        rows.publish()
        k.ub_to_gm(y[row], rows.take())
        rows.release()
    k.gm_to_ub(held, x[0])
    there = k.flag("MTE2", "MTE3", EVIL + "f")
    k.set_flag(there)
    k.wait_flag(there)
    k.ub_to_gm(y[0], held)


def launched(**options: Any) -> Any:
    return asim.launch(named(move), 1, np.zeros((2, 64), np.float32), asim.empty((2, 64), "float32"), **options)


def named(kernel: Any, name: str = EVIL) -> Any:
    return dataclasses.replace(kernel, name=name) if dataclasses.is_dataclass(kernel) else kernel


def spoiled(value: Any, key: str = "") -> Any:
    """A report with EVIL behind each text that is not a name of this program."""
    own = ("core_type", "bottleneck_pipe", "mode", "name", "cause", "decided_by", "dtype", "kind")
    if isinstance(value, dict):
        return {name: spoiled(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [spoiled(part, key) for part in value]
    return value + EVIL if isinstance(value, str) and key not in own else value


def test_the_page_of_a_run(tmp_path: Path) -> None:
    result = launched(disarm=[EVIL + "f"])
    for task in result.recording.tasks:
        task.name += EVIL
    report = json.loads(json.dumps(spoiled(result.report.to_dict())))
    for kernel in report["kernels"]:
        kernel["name"] += EVIL
    report["warnings"], report["findings"] = [EVIL], [{"kind": EVIL, "task": EVIL, "text": EVIL}]
    report["problem"] |= {EVIL: EVIL}
    report["outputs"] |= {EVIL: {"shape": [1], "dtype": EVIL, "compute_dtype": EVIL}}
    write_page(tmp_path / "page.html", result.recording, report, what_if(result.recording))
    check((tmp_path / "page.html").read_text(), scripts=5)
    check(report_html(report, EVIL), scripts=0)


def test_the_page_of_a_call(tmp_path: Path) -> None:
    tensors = [asim.TensorSpec(shape, "float16") for shape in ((1, 16, 8, 8), (1, 16, 8, 8), (16, 16, 3, 3))]
    attributes = ([16], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3)
    result = asim.convolution_backward(*tensors, *attributes, mode="timing")
    for task in result.recording.tasks:
        task.name += EVIL
    report = spoiled(json.loads(json.dumps(result.report.to_dict())))
    for kernel in report["kernels"]:
        kernel["name"] += EVIL
    write_page(tmp_path / "page.html", result.recording, report)
    check((tmp_path / "page.html").read_text(), scripts=5)


def test_the_page_of_a_network(tmp_path: Path) -> None:
    from ascend_sim.ops.network import load_network
    from ascend_sim.studies.network.page import write_page as write
    from ascend_sim.studies.network.run import run_network

    layer = {"input": [1, 16, 4, 4], "weight": [16, 16, 1, 1]}
    layers = [{"name": EVIL, **layer}, {"name": f"{EVIL}2", **layer, "stride": 2}, {"name": f"{EVIL}3", **layer}]
    path = tmp_path / (EVIL.replace("/", "") + ".yaml")
    path.write_text(json.dumps({"defaults": {"dtype": "float16"}, "layers": layers}))
    write(tmp_path / "page.html", run_network(load_network(path)))
    page = check((tmp_path / "page.html").read_text(), scripts=3)
    assert path.stem in page.texts


def test_the_page_that_compares(tmp_path: Path) -> None:
    from ascend_sim.studies.compare.page import write_page as write
    from ascend_sim.studies.compare.run import compare_runs

    folders = []
    for index in range(2):
        folder = tmp_path / f"{index}{EVIL.replace('/', '')}"
        launched().write(folder)
        folders.append(folder)
    write(tmp_path / "page.html", compare_runs(*folders))
    check((tmp_path / "page.html").read_text(), scripts=4, shown=EVIL.replace("/", ""))


def test_the_page_that_explains(tmp_path: Path) -> None:
    from ascend_sim.ops.case import load_case
    from ascend_sim.studies.explain.page import explain_html
    from ascend_sim.studies.explain.run import explain

    path = tmp_path / (EVIL.replace("/", "") + ".yaml")
    entries = {"input": {"shape": [1, 2, 3, 3], "dtype": "float16"}, "weight": {"shape": [2, 2, 2, 2]}}
    path.write_text(json.dumps({"operator": "convolution_backward", "chip": "ascend910b3", **entries}))
    found = explain(load_case(path), element=(0, 0, 1, 1))
    page = PageReader(explain_html(found))
    assert "img" not in page.tags and not page.comments and "<" not in page.data


def test_the_page_of_a_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("plotly")
    from ascend_sim.torch import simulate

    name = EVIL.replace(".", "")
    model = torch.nn.Sequential()
    model.add_module(name, torch.nn.Conv2d(3, 4, 3))
    with simulate() as sim:
        model(torch.randn(1, 3, 5, 5)).sum().backward()
    sim.write_html(tmp_path / "page.html")
    check((tmp_path / "page.html").read_text(), scripts=3, shown=name)


@pytest.mark.parametrize("name", ["../../outside", "/outside", "a/b", EVIL, "..", "x" * 300, "a\0b", ""])
def test_folders_of_kernels_are_inside(tmp_path: Path, name: str) -> None:
    result = launched()
    (task,) = result.recording.tasks
    task.name = name
    write_msprof(tmp_path / "out", result.recording.timeline, result.recording.tasks, result.recording.chip)
    inside = tmp_path / "out" / "msprof"
    (folder,) = (path for path in inside.iterdir() if path.is_dir())
    assert folder.name.startswith("OPPROF_0") and list(folder.rglob("*.csv"))
    assert {path for path in tmp_path.rglob("*") if path.is_file()} <= set(inside.rglob("*"))
