"""`ascend-sim run CASE`, and `ascend-sim report OUT` of an earlier run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ascend_sim.cli.app import app, errors, make_folder
from ascend_sim.cli.page import check_html, say, write_html
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.values import parse_block_dim, parse_tiling
from ascend_sim.errors import SimError


@app.command(epilog="Example:  ascend-sim run resnet50_conv2_3x3 --chip ascend910b3 --cube-math-type 0 --out out/")
def run(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    chip: Annotated[str | None, typer.Option(help="Chip name or chip file; default: the case's.")] = None,
    cube_math_type: Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")] = None,
    mode: Annotated[str, typer.Option(help="full (values and time), functional (values) or timing (time).")] = "full",
    input: Annotated[Path | None, typer.Option(help="Tensors (.npz): grad_output, input, weight.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.json, trace.json, timeline.npz, gradients.npz.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the plan too: kernels, tensors between them, workspace.")
    ] = False,
    tiling: Annotated[
        str | None,
        typer.Option(help="grad_input.baseM=256,grad_weight.baseK=64,... or a YAML file with the same fields."),
    ] = None,
    block_dim: Annotated[
        str | None, typer.Option(help="Blocks of the cube kernels: 32, or grad_weight=32,grad_input=16.")
    ] = None,
    l2: Annotated[
        str | None, typer.Option(help="cold: nothing is in the L2 at the start; warm: the inputs are.")
    ] = None,
    deterministic: Annotated[
        bool | None, typer.Option("--deterministic/--no-deterministic", help="Default: of the chip and profile.")
    ] = None,
    conformance: Annotated[
        str | None, typer.Option(help="documented (the operator documents) or library (the released library).")
    ] = None,
    trace_limit: Annotated[
        int, typer.Option(min=1, help="Events in trace.json at most; beyond, cores are left out.")
    ] = 500_000,
    max_cycles: Annotated[int | None, typer.Option(min=1, help="Stop a run that gets longer than this.")] = None,
    msprof: Annotated[
        bool, typer.Option("--msprof", help="With --out: also the folders of the vendor's msprof op simulator.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one page to this file: timeline, critical path, other rates, pictures.")
    ] = None,
    accumulate: Annotated[str, typer.Option(help="Model of the cube's sums: blas, chunk or exact_group.")] = "blas",
    overflow: Annotated[str | None, typer.Option(help="inf_nan or saturate; default: the chip's.")] = None,
) -> None:
    """Run one convolution backward and print what each kernel did."""
    progress = Progress()
    with errors(json_output):
        try:
            code = _run(
                case, chip, cube_math_type, mode, input, out, json_output, tiling, block_dim, l2, deterministic, conformance,
                trace_limit, max_cycles, progress, plan, accumulate, overflow, msprof, html,
            )  # fmt: skip
        finally:
            progress.close()
    raise typer.Exit(code)


def _run(
    name: str, chip: str | None, cube_math_type: int | None, mode: str, tensors: Path | None, out: Path | None, as_json: bool,
    tiling: str | None, block_dim: str | None, l2: str | None, deterministic: bool | None, conformance: str | None,
    trace_limit: int, max_cycles: int | None, progress: Progress, plan: bool, accumulate: str, overflow: str | None,
    msprof: bool, html: Path | None,
) -> int:  # fmt: skip
    from ascend_sim.api import TensorSpec, call_case, check_fits
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case, make_tensors
    from ascend_sim.report.msprof import check_msprof
    from ascend_sim.report.pages import plan_table
    from ascend_sim.report.run_files import write_run
    from ascend_sim.report.text import render
    from ascend_sim.runtime import MODES

    if mode not in MODES:
        raise SimError(f"--mode {mode}: allowed are {', '.join(MODES)}")
    options = {"chip": chip, "tiling": tiling, "block-dim": block_dim, "l2": l2, "conformance": conformance}
    for option, text in options.items():
        if text is not None and not text.strip():
            raise SimError(f"--{option}: nothing given; leave the option out for its default")
    if msprof and (out is None or mode == "functional"):
        raise SimError("--msprof: needs a folder (--out DIR) and a mode with time (full or timing)")
    if html is not None:
        if mode == "functional":
            raise SimError("--html: needs a mode with time (full or timing)")
        check_html(html, out)
    case = load_case(name)
    if tensors is not None:
        case = case.with_file(tensors)
    spec = load_chip(chip or case.chip)
    check_fits(case.tensors, spec)
    if out is not None:
        make_folder(out)
        if msprof:
            check_msprof(out)
    if mode == "timing" and tensors is None:
        values: dict[str, Any] = {key: TensorSpec(shape, dtype) for key, (shape, dtype) in case.tensors.items()}
    else:
        values = make_tensors(case)
    result = call_case(
        case, values,
        cube_math_type=case.cube_math_type if cube_math_type is None else cube_math_type,
        chip=spec,
        mode=mode,
        deterministic=case.deterministic if deterministic is None else deterministic,
        conformance=conformance or case.conformance,
        tiling=parse_tiling(tiling) if tiling else case.tiling,
        block_dim=parse_block_dim(block_dim) if block_dim else case.block_dim or None,
        l2=l2 or case.l2,
        progress=progress,
        max_cycles=max_cycles,
        accumulate=accumulate,
        overflow=overflow,
    )  # fmt: skip
    written = []
    if out is not None:
        arrays = {name: (array, result.dtypes[name]) for name, array in result.gradients.items()}
        written = write_run(
            out, result.report, result.recording, "gradients", arrays, trace_limit=trace_limit, msprof=msprof
        )
    said: list[str] = []
    if html is not None:
        said = write_html(html, result.recording, result.report.to_dict(), progress, other_rates=True)
        written.append(html)
    progress.close()
    if as_json:
        print(json.dumps(result.report.to_dict(), indent=1))
    else:
        console = Console(width=None if sys.stdout.isatty() else 140)
        render(result.report, console)
        if plan:
            console.print(plan_table(result.report.plan, result.report.workspace_bytes))
        say(said, console)
        if written:
            print(f"wrote {', '.join(str(path) for path in written)}")
    return 0 if result.report.passed else 1


@app.command(epilog="Example:  ascend-sim run resnet50_conv2_3x3 --mode timing --out out/ && ascend-sim report out/")
def report(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder that `run --out` wrote.")],
    html: Annotated[Path | None, typer.Option(help="The page; default: report.html in the folder.")] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if/--no-what-if", help="Run the programs again with each rate of the chip doubled.")
    ] = True,
) -> None:
    """Draw an earlier run as one page: timeline, critical path, what other rates would change, pictures."""
    from ascend_sim.report.page import open_run

    progress = Progress("runs")
    with errors(as_json=False):
        html = html or folder / "report.html"
        recording, stored = open_run(folder)
        check_html(html)
        try:
            said = write_html(html, recording, stored, progress, other_rates=what_if)
        finally:
            progress.close()
        say(said, Console(width=None if sys.stdout.isatty() else 140))
        print(f"wrote {html}")
