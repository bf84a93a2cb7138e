"""The files of a run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def test_of_different_runs_that_end_at_once_the_files_of_one_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report and msprof of one folder tell of one run, however long the files take to be put in their places."""
    from concurrent.futures import ThreadPoolExecutor

    from ascend_sim import convolution_backward
    from ascend_sim.report import run_files

    def run(images: int) -> Any:
        x, w = np.ones((images, 16, 4, 4), np.float16), np.ones((16, 16, 1, 1), np.float16)
        return convolution_backward(
            x, x, w, None, 1, 0, 1, False, 0, 1, [False, True, False], chip="ascend910b3", mode="timing"
        )

    def files(out: Path) -> tuple[str, str]:
        return (out / "report.json").read_text(), next(out.glob("msprof/*grad_weight/OpBasicInfo.csv")).read_text()

    def write(out: Path, result: Any) -> None:
        run_files.write_run(out, result.report, result.recording, "gradients", {}, msprof=True)

    results = [run(1), run(2)]
    for number, result in enumerate(results):
        write(tmp_path / str(number), result)
    alone = [files(tmp_path / str(number)) for number in range(2)]
    assert alone[0][0] != alone[1][0] and alone[0][1] != alone[1][1]
    first, second_done, placed = threading.Lock(), threading.Event(), run_files.replace_msprof

    def late(*arguments: Path) -> None:
        if first.acquire(blocking=False):
            second_done.wait(0.5)  # without a lock on the folder the second overtakes
            placed(*arguments)
        else:
            placed(*arguments)
            second_done.set()

    monkeypatch.setattr(run_files, "replace_msprof", late)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, [tmp_path / "both"] * 2, results))
    assert files(tmp_path / "both") in alone
