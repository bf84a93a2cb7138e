"""`ascend-sim run CASE`: one call of an operator, and what each kernel did."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.options import Case, command
from ascend_sim.cli.page import RunFiles
from ascend_sim.cli.progress import Progress, ProgressLine, announce
from ascend_sim.cli.terminal import console, print_json, print_paragraphs, print_summary, print_written
from ascend_sim.errors import SimError
from ascend_sim.options.description import filled, names_of
from ascend_sim.options.run_options import CaseOptions, PlanOptions

if TYPE_CHECKING:
    from ascend_sim.runtime.outlook import Outlook


@command(epilog="Example:  ascend-sim run resnet50_conv2_3x3 --chip ascend910b3 --cube-math-type 0 --out out/")
def run(
    context: typer.Context,
    case: Case,
    asked: CaseOptions,
    files: RunFiles,
    input: Annotated[
        Path | None, typer.Option(help="The case's tensors by name (.npz), for example grad_output, input, weight.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the plan too: kernels, tensors between them, workspace.")] = False,
    flags: Annotated[
        bool, typer.Option("--flags", help="Run nothing: list the kernels' flags, quoted as a shell takes them for --disarm.")
    ] = False,
) -> None:
    """Run one convolution, backward or forward, and print how long it takes, where the time goes, and what helps.

    Exit code 1 where a result is wrong or something is found. Without --out and --html a run in timing mode keeps no timeline
    beyond 100 million instructions: its report then has no waterfall and no advice. A timeline lies in a temporary file
    (TMPDIR), some 20 bytes an instruction.
    """
    from ascend_sim.calls.cases import commands_of, of_this_case, run_case
    from ascend_sim.calls.run import check_fits
    from ascend_sim.chip import chip_of
    from ascend_sim.ops.case import case_label, load_case

    with errors(files.json_output):
        if flags:
            _check_alone(context)
        files.check(asked["mode"])
        loaded = load_case(case)
        how = of_this_case(loaded, asked)
        chip = chip_of(how["chip"])
        check_fits(loaded.tensors, chip)
        if flags:
            from ascend_sim.calls.checks import flags_of_call

            found = flags_of_call(loaded, chip, **filled(PlanOptions, how))
            names = [shlex.quote(f"{kernel}.{flag}") for kernel, flags in found.items() for flag in flags]
            print(json.dumps(found, indent=1) if files.json_output else "\n".join(names))  # not wrapped, to be copied
            return
        files.make_folder()

        def ahead() -> Outlook:
            from ascend_sim.calls.checks import tasks_of_call
            from ascend_sim.runtime.outlook import look_ahead

            plan = filled(PlanOptions, {**how, "disarm": None})
            return look_ahead(chip, tasks_of_call(loaded, chip, **plan)[1], how["mode"])

        announce(case_label(case), ahead, "" if how["mode"] == "timing" else ", then the check of its results")
        with Progress() as progress:
            result = run_case(
                case, input, **CaseOptions({**asked, "chip": chip, "progress": progress, "timeline": files.timeline})
            )
            commands = commands_of(case, loaded, asked, "" if input is None else str(input))
            result.report = replace(result.report, commands=commands)
            written, said = files.write(result, progress)
        with ProgressLine("checking the results against float64"):
            passed = result.report.passed
        if files.json_output:
            print_json(result.report.to_dict())
        else:
            report, recording = result.report, result.recording
            if files.full:
                from ascend_sim.report.text import render
                from ascend_sim.report.what_if import faster_chip

                render(report, console(), None if recording is None or said else faster_chip(recording, report.kernels))
            else:
                print_summary(report)
            if plan:
                from ascend_sim.report.pages import plan_table

                console().print(plan_table(report.plan, report.workspace_bytes))
            if files.full:
                print_paragraphs(said)
            print_written(written)
    raise typer.Exit(0 if passed else 1)


def _check_alone(context: typer.Context) -> None:
    """Raise SimError for an option given beside --flags, which runs nothing; only those that choose the plan, and --json, are
    allowed.
    """
    deciding = names_of(PlanOptions) - {"disarm"} | {"case", "chip", "flags", "json_output"}
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in deciding and source is not None and source.name == "COMMANDLINE":
            raise SimError(f"--flags runs nothing and does not take {option.opts[0]}: give one of them")
