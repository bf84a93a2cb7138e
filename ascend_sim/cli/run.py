"""`ascend-sim run CASE`: one call of an operator, and what each kernel did."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ascend_sim.cli.app import app, errors, make_folder
from ascend_sim.cli.options import Accumulate, Case, Chip, CubeMathType, Deterministic, Library, Overflow
from ascend_sim.cli.page import add_lines, check_html, check_lines, timeline_for, write_html
from ascend_sim.cli.progress import Progress, Status, announce
from ascend_sim.cli.terminal import console, print_paragraphs, print_text
from ascend_sim.cli.values import parse_block_dim, parse_disarm, parse_tiling
from ascend_sim.errors import SimError

if TYPE_CHECKING:
    from ascend_sim.report.report import Report
    from ascend_sim.runtime import Recording
    from ascend_sim.runtime.outlook import Outlook

_OF_FLAGS = (
    *("case", "chip", "cube_math_type", "deterministic", "conformance", "library", "tiling", "block_dim"),
    *("flags", "json_output"),
)
"""What `--flags` takes: what decides which kernels there are."""


@app.command(epilog="Example:  ascend-sim run resnet50_conv2_3x3 --chip ascend910b3 --cube-math-type 0 --out out/")
def run(
    context: typer.Context,
    case: Case,
    chip: Chip = None,
    cube_math_type: CubeMathType = None,
    mode: Annotated[str, typer.Option(help="full (values and time), functional (values) or timing (time).")] = "full",
    input: Annotated[
        Path | None, typer.Option(help="The case's tensors by name (.npz), for example grad_output, input, weight.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.json, trace.json.gz, timeline.npz, gradients.npz or outputs.npz."),
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
    deterministic: Deterministic = None,
    conformance: Annotated[
        str | None, typer.Option(help="documented (the operator documents) or library (the released library).")
    ] = None,
    library: Library = None,
    trace_limit: Annotated[
        int, typer.Option(min=1, help="Events in trace.json.gz at most; beyond, cores are left out.")
    ] = 500_000,
    max_cycles: Annotated[int | None, typer.Option(min=1, help="Stop a run that gets longer than this.")] = None,
    msprof: Annotated[
        bool, typer.Option("--msprof", help="With --out: also the folders of the vendor's msprof op simulator.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one page to this file: timeline, critical path, other rates, pictures.")
    ] = None,
    flags: Annotated[
        bool,
        typer.Option(
            "--flags", help="Run nothing: list the kernels' flags, quoted as a shell takes them for --disarm."
        ),
    ] = False,
    disarm: Annotated[
        list[str] | None,
        typer.Option(help="KERNEL.FLAG whose waits hold nothing (an experiment); more than once for several."),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Note the kernels' source lines, for the page and timeline.npz.")
    ] = False,
    accumulate: Accumulate = "blas",
    overflow: Overflow = None,
    check: Annotated[
        bool, typer.Option("--check", help="Also look for mistakes in the kernels, as `ascend-sim check` does.")
    ] = False,
    probe: Annotated[
        bool | None,
        typer.Option(
            help="Run the programs again on data on which each product counts; default: small calls, and where data need it."
        ),
    ] = None,
) -> None:
    """Run one convolution, backward or forward, and print what each kernel did.

    Without --out and --html a run in timing mode keeps no timeline beyond 100 million instructions, and with --json none: its
    report then has no waterfall. A timeline lies in a temporary file (TMPDIR), some 20 bytes an instruction.
    """
    from ascend_sim.calls.cases import named_in_commands, run_case
    from ascend_sim.calls.run import check_fits
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case

    with errors(json_output):
        if flags:
            _check_alone(context)
        given = {"chip": chip, "tiling": tiling, "block-dim": block_dim, "l2": l2, "conformance": conformance}
        _check_options(mode, given, out=out, msprof=msprof, html=html)
        check_lines(lines, mode, out, html)
        loaded = load_case(case)
        spec = load_chip(chip or loaded.chip)
        check_fits(loaded.tensors, spec)
        waits = parse_disarm(disarm)
        asked: dict[str, Any] = {
            "cube_math_type": cube_math_type,
            "deterministic": deterministic,
            "conformance": conformance,
            "library": library,
            "tiling": parse_tiling(tiling) if tiling else None,
            "block_dim": parse_block_dim(block_dim) if block_dim else None,
        }
        own = asked | {"tiling": asked["tiling"] or loaded.tiling, "block_dim": asked["block_dim"] or loaded.block_dim}
        if flags:
            from ascend_sim.checking import flags_of_call

            found = flags_of_call(loaded, spec, **own)
            names = [shlex.quote(f"{kernel}.{flag}") for kernel, flags in found.items() for flag in flags]
            print(json.dumps(found, indent=1) if json_output else "\n".join(names))
            return
        if out is not None:
            make_folder(out)
            if msprof:
                from ascend_sim.report.msprof import check_msprof

                check_msprof(out)

        def ahead() -> Outlook:
            from ascend_sim.checking import tasks_of_call
            from ascend_sim.runtime.outlook import look_ahead

            return look_ahead(spec, tasks_of_call(loaded, spec, **own)[1], mode)

        announce(Path(case).stem, ahead, "" if mode == "timing" else ", then the check of its results")
        said: list[str] = []
        with closing(Progress()) as progress:
            result = run_case(
                loaded,
                input,
                chip=spec,
                mode=mode,
                **asked,
                l2=l2,
                progress=progress,
                max_cycles=max_cycles,
                accumulate=accumulate,
                overflow=overflow,
                disarm=waits,
                check=check,
                timeline=timeline_for(out, html, json_output),
                probe=probe,
            )
            result.report = replace(result.report, case=named_in_commands(case, chip))
            written: list[Path] = []
            if lines:
                add_lines(result.recording)
            if out is not None:
                from ascend_sim.report.html import results_name
                from ascend_sim.report.run_files import write_run

                arrays = {name: (array, result.dtypes[name]) for name, array in result.outputs.items()}
                progress.close()
                with closing(Status(f"writing to {out}")):
                    written = write_run(
                        out,
                        result.report,
                        result.recording,
                        f"{results_name(arrays)}s",
                        arrays,
                        trace_limit=trace_limit,
                        msprof=msprof,
                    )
            if html is not None:
                said = write_html(
                    html, result.recording, result.report.to_dict(statements=True), progress, other_rates=True
                )
                written.append(html)
        with closing(Status("checking the results against float64")):
            passed = result.report.passed
        if json_output:
            print(json.dumps(result.report.to_dict(statements=True), indent=1))
        else:
            _print(result.report, result.recording, with_plan=plan, said=said, written=written)
    raise typer.Exit(0 if passed else 1)


def _check_alone(context: typer.Context) -> None:
    """Refuse what --flags, which runs nothing, has no use for."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in _OF_FLAGS and source is not None and source.name == "COMMANDLINE":
            raise SimError(f"--flags runs nothing and does not take {option.opts[0]}: give one of them")


def _check_options(
    mode: str, texts: Mapping[str, str | None], *, out: Path | None, msprof: bool, html: Path | None
) -> None:
    """Refuse what cannot go together before any work is done."""
    from ascend_sim.runtime import MODES

    if mode not in MODES:
        raise SimError(f"--mode {mode}: allowed are {', '.join(MODES)}")
    for option, text in texts.items():
        if text is not None and not text.strip():
            raise SimError(f"--{option}: nothing given; leave the option out to get its default")
    if msprof and (out is None or mode == "functional"):
        raise SimError("--msprof: needs a folder (--out DIR) and a mode with time (full or timing)")
    if html is not None:
        if mode == "functional":
            raise SimError("--html: needs a mode with time (full or timing)")
        check_html(html, out)


def _print(
    report: Report, recording: Recording | None, *, with_plan: bool, said: list[str], written: list[Path]
) -> None:
    """The tables of a run, what its page says (of a faster chip too), and the files that were written."""
    from ascend_sim.report.pages import plan_table
    from ascend_sim.report.text import render
    from ascend_sim.report.what_if import faster_chip

    out = console()
    render(report, out, None if recording is None or said else faster_chip(recording, report.kernels))
    if with_plan:
        out.print(plan_table(report.plan, report.workspace_bytes))
    print_paragraphs(said)
    if written:
        print_text(f"wrote {', '.join(str(path) for path in written)}")
