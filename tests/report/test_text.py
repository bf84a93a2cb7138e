"""The printed report: golden text of a small case, and that it stays readable in logs and narrow windows."""

import io

import pytest
from rich.console import Console

from ascend_sim.report.report import Report
from ascend_sim.report.text import _waterfall, render
from ascend_sim.report.waterfall import WORDS
from tests.support.report.small_kernels import CHIP, run_three

pytestmark = pytest.mark.fast

PROBLEM = {
    "operator": "convolution_backward",
    "tensors": {
        "grad_output": {"shape": [1, 16, 8, 8], "dtype": "float16"},
        "input": {"shape": [1, 16, 8, 8], "dtype": "float16"},
        "weight": {"shape": [16, 16, 3, 3], "dtype": "float16"},
    },
    "stride": [1, 1],
    "padding": [1, 1],
    "macs": {"grad_input": 147456, "grad_weight": 147456},
}
TIMED = {
    "pipes_us": {"scalar": 1.0, "cube": 3.5, "mte2": 7.0},
    "roofline": {"bound_by": "cube", "cycles": {"cube": 4608, "mte2": 1200}},
}
KERNELS = (
    {
        "op_type": "Cast", "name": "Cast_grad_weight", "core_type": "AIV", "block_dim": 40, "task_us": 20.0, "core_us": 14.0,
        "interval": {"low_us": 15.0, "high_us": 26.0, "kernels": 9, "networks": 2},
        "core_cycles_max": 28000, "bottleneck_pipe": "mte2", "main_stall": {"cause": "HBM share", "share": 0.4321}, **TIMED,
    },
    {
        "op_type": "Conv2DBackpropInput", "name": "grad_input", "core_type": "AIC", "block_dim": 20, "task_us": 60.0,
        "core_us": 7.0, "core_cycles_max": 9216, "bottleneck_pipe": "cube", "main_stall": None, "macs": 147456,
        "ideal_cycles": 2304, "cube_efficiency": 0.25, **TIMED,
        "interval": {
            "low_us": 40.0, "high_us": 90.0, "kernels": 9, "networks": 2, "chips": ["ascend910b"], "borrowed": "dav-1001 Cast",
        },
    },
)  # fmt: skip
GRADIENTS = {
    "grad_input": {
        "shape": [1, 16, 8, 8], "dtype": "float16", "compute_dtype": "float16", "correct": True,
        "max_abs_error": 0.00123456, "worst_error_over_bound": 0.5,
    },
    "grad_weight": {
        "shape": [16, 16, 3, 3], "dtype": "float16", "compute_dtype": "float16", "correct": False,
        "max_abs_error": None, "worst_error_over_bound": 12.0,
    },
}  # fmt: skip

GOLDEN = """\
convolution_backward on ascend910b3, mode full
  grad_output  [1, 16, 8, 8]   float16
  input        [1, 16, 8, 8]   float16
  weight       [16, 16, 3, 3]  float16
  stride [1, 1], padding [1, 1]
  MACs: grad_input 147,456, grad_weight 147,456

Kernels in launch order
kernel            op_type              core  blocks     us  share  bottleneck  main stall
Cast_grad_weight  Cast                 AIV       40  20.00  25.0%  mte2 50.0%  HBM share 43.2%
grad_input        Conv2DBackpropInput  AIC       20  60.00  75.0%  cube 50.0%  none
Total: 80.00 us
Uncertainty: 80.0 us, 80 % interval 55.0 to 116.0 us; not measured, so the nearest kind's interval,
  wider (assumed): Conv2DBackpropInput 60.0 us (dav-1001 Cast); few measured on this chip, so other
  chips count too, wider (assumed): 60.0 us (ascend910b)

Against the bounds, in cycles
kernel            bound by  bound  longest core  ideal cube   cube
Cast_grad_weight  cube      4,608        28,000           -      -
grad_input        cube      4,608         9,216       2,304  25.0%

Gradients against float64
gradient     shape      dtype    computed in  max abs error  error/bound  verdict
grad_input   1x16x8x8   float16  float16            0.00123          0.5  correct
grad_weight  16x16x3x3  float16  float16         not finite           12  WRONG

hazard in Cast: block 0 reads what block 1 writes
"""


def printed(report, width):
    file = io.StringIO()
    render(report, Console(file=file, width=width))
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


def small_report(**changes):
    fields = {
        "chip": "ascend910b3", "mode": "full", "status": 0, "total_us": 80.0, "workspace_bytes": 0, "kernels": KERNELS,
        "problem": PROBLEM, "verdicts": GRADIENTS,
        "findings": ({"kind": "hazard", "task": "Cast", "text": "block 0 reads what block 1 writes"},),
    }  # fmt: skip
    return Report(**(fields | changes))


def test_golden():
    assert printed(small_report(), 100) == GOLDEN


@pytest.mark.parametrize("width", [40, 60, 80])
def test_narrow_windows_lose_nothing(width):
    """Columns that do not fit stand below, with the rows named again."""
    text = printed(small_report(), width)
    assert all(len(line) <= width for line in text.split("\n"))
    assert set(GOLDEN.split()) <= set(text.split())
    assert text.split().count("Cast_grad_weight") > GOLDEN.split().count("Cast_grad_weight")


def test_a_log_has_no_colour_codes_and_a_terminal_has():
    assert "\x1b" not in printed(small_report(), 100)
    file = io.StringIO()
    render(small_report(), Console(file=file, force_terminal=True, width=100, color_system="standard"))
    assert "\x1b[1;31mWRONG" in file.getvalue()


def test_functional_says_that_there_are_no_times():
    kernels = tuple(
        kernel | {"task_us": None, "pipes_us": None, "bottleneck_pipe": None, "main_stall": None, "roofline": None}
        for kernel in KERNELS
    )
    text = printed(small_report(mode="functional", total_us=None, kernels=kernels, findings=()), 100)
    assert "Total: no times in functional mode" in text
    assert "Against the bounds" not in text and "correct" in text
    assert "grad_input        Conv2DBackpropInput  AIC       20" in text


def test_many_findings_are_counted():
    many = tuple({"kind": "hazard", "task": "Cast", "text": f"number {i}"} for i in range(9))
    text = printed(small_report(findings=many), 100)
    assert "number 4" in text and "number 5" not in text and "... and 4 more findings" in text


def test_a_real_run_prints_every_kernel():
    tasks, timeline = run_three()
    report = Report.build(CHIP, timeline, tasks)
    text = printed(report, 100)
    for kernel in report.to_dict()["kernels"]:
        assert f"{kernel['task_us']:.2f}" in text and kernel["op_type"] in text


@pytest.mark.parametrize("times", [1, 10_000])
def test_a_waterfall_fits_a_terminal_of_80_columns(times: int) -> None:
    """The bars get narrower where the figures get longer; they end where the next begin."""
    waterfall = dict.fromkeys(WORDS, 123 * times)
    screen = Console(file=io.StringIO(), width=80)
    _waterfall(screen, {"problem": PROBLEM}, {"name": "grad_input", "waterfall": waterfall, "statements": []})
    lines = screen.file.getvalue().splitlines()[3:]
    assert [line.startswith(name) for line, name in zip(lines, WORDS.values(), strict=True)] == [True] * len(WORDS)
    assert all("\u2588" in line and len(line) <= 80 for line in lines)
    ends = [line.rstrip().rindex("\u2588") for line in lines]
    assert ends == sorted(ends) and lines[0].index("\u2588") + 18 < ends[-1] <= 79
