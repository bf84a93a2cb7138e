"""`ascend-sim check CASE|KERNEL.py|KERNEL.cpp|OUT`: mistakes in kernels, whether or not a run shows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.completing import CHIPS, SUBJECTS, TOOLS, tiling_fields
from ascend_sim.cli.cpp import CppOptions, is_cpp
from ascend_sim.cli.kernel import KernelSubject, check_file, default_blocks, own_stdout, run_file, subject_of, subject_of_module
from ascend_sim.cli.options import command
from ascend_sim.cli.progress import ProgressLine, announce
from ascend_sim.cli.terminal import print_json, print_text
from ascend_sim.cli.values import fields_of, parse_block_dim, parse_disarm, parse_tiling
from ascend_sim.cli.verdict import verdict_of
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen

if TYPE_CHECKING:
    from ascend_sim.acl.out import DeviceRecorder
    from ascend_sim.check.findings import CheckReport


@frozen
class Checked:
    """Options of a command that checks a case or a kernel file; each kind of subject takes some of them."""

    chip: Annotated[
        str | None, typer.Option(help="Chip name or chip file; default: the case's, or ascend910b3.", autocompletion=CHIPS)
    ] = None
    blocks: Annotated[
        int | None, typer.Option(min=1, help="Of a kernel file: blocks; default: BLOCKS of the file, else one a core.")
    ] = None
    block_dim: Annotated[str | None, typer.Option(help="Of a case: blocks of the cube kernels, as in `run`.")] = None
    tiling: Annotated[str | None, typer.Option(help="Tiling, as in `run` and `kernel`.", autocompletion=tiling_fields)] = None
    seed: Annotated[int, typer.Option(min=0, help="Of a kernel file: seed of the generator for arguments(rng).")] = 0
    disarm: Annotated[
        list[str] | None, typer.Option(help="Ignore this flag's waits, to see what breaks; of a case KERNEL.FLAG. Repeatable.")
    ] = None

    def refuse(self, subject: str, kind: str, names: Sequence[str]) -> None:
        """Raise SimError for the first of the options `names` that was given; the message says that `subject` is `kind`, which
        does not take it.
        """
        for name in names:
            if getattr(self, name) is not None:
                raise SimError(f"--{name.replace('_', '-')}: {subject} is {kind}, which does not take it")


@command(epilog="Example:  ascend-sim check matmul.py --tool racecheck   |   ascend-sim check resnet50_conv2_3x3 --json")
def check(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="CASE|KERNEL.py|KERNEL.cpp|OUT",
            help="A case (or NETWORK:LAYER), a Python or C++ file with a kernel, or the folder of a run.",
            autocompletion=SUBJECTS,
        ),
    ],
    asked: Checked,
    cpp: CppOptions,
    name: Annotated[str | None, typer.Argument(help="The kernel, where the file has several.")] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            help="memcheck, racecheck, initcheck or synccheck; more than once for several. Default: all.", autocompletion=TOOLS
        ),
    ] = None,
    out: Annotated[list[str] | None, typer.Option(help="Of a C++ file: as --output. Repeatable.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look for mistakes in kernels: memory, races, initialisation, synchronisation. Exit code 1 where something is found.

    Exit code 2 where a kernel is refused.
    """
    with errors(json_output), own_stdout(json_output):
        path = Path(subject)
        if out and not is_cpp(path):
            raise SimError(f"--out: {subject} is not a C++ file; this option is for C++ kernels")
        cpp = cpp.with_outputs(out or ())
        if is_cpp(path):
            asked.refuse(subject, "a kernel file", ["block_dim"])
            report = _kernel(subject_of(path, name, fields_of(asked.tiling), asked.seed, cpp), asked, tool)
        elif path.suffix == ".py":
            cpp.refuse(subject)
            asked.refuse(subject, "a kernel file", ["block_dim"])
            report = _kernel_file(path, name, asked, tool)
        else:
            cpp.refuse(subject)
            kind = "the folder of a run" if isdir(path) else "a case"
            if name is not None:
                raise SimError(f"NAME: {subject} is {kind}, which does not take it")
            if isdir(path):
                asked.refuse(subject, kind, ["chip", "blocks", "block_dim", "tiling", "disarm"])
                from ascend_sim.checking import check_folder

                report = check_folder(path, tools=tool)
            else:
                asked.refuse(subject, kind, ["blocks"])
                report = _case(subject, asked, tool)
    if json_output:
        told = report.to_dict()
        print_json({**told, "verdict": verdict_of(told)})
    else:
        for line in report.render().splitlines():  # errors and warnings have the vendor's form, which programs read too
            ours = line.startswith(("====== REMARK", "====== SUMMARY"))
            (print_text if ours else print)(line)
    broken_off = any(one.kind == "refused" for one in report.findings)  # `kernel` refuses it with the same code
    raise typer.Exit(2 if broken_off else 0 if report.passed else 1)


def _kernel_file(path: Path, name: str | None, asked: Checked, tools: list[str] | None) -> CheckReport:
    from ascend_sim.acl.state import watched

    with watched() as devices:
        module = run_file(path)
    if hasattr(module, "acl") and not hasattr(module, "arguments"):
        return _program(path, devices, tools, asked.chip)
    check_file(path, module)
    return _kernel(subject_of_module(path, module, name, fields_of(asked.tiling), asked.seed), asked, tools)


def _kernel(one: KernelSubject, asked: Checked, tools: list[str] | None) -> CheckReport:
    from ascend_sim.checking import check_kernel
    from ascend_sim.chip import load_chip

    spec = load_chip(asked.chip or "ascend910b3")
    core = one.kernel.core_on(spec)
    count = default_blocks(one.file, one.module, core, spec) if asked.blocks is None else asked.blocks
    return check_kernel(one.kernel, count, *one.tensors, chip=spec, tools=tools, disarm=asked.disarm or (), **one.fields)


def _program(path: Path, devices: list[DeviceRecorder], tools: list[str] | None, chip: str | None) -> CheckReport:
    """Return the findings of a program that used `ascend_sim.acl`: the kernels that it launched, and memory that it did not
    free.

    The program has run; `devices` recorded it. `tools` None: all. Raises SimError for a `chip`, which a program chooses itself,
    for unknown tools, and if it launched nothing, unless memcheck is among the tools and a device was opened.
    """
    from ascend_sim.acl import aclGetRecentErrMsg, leaks
    from ascend_sim.check.findings import CheckReport
    from ascend_sim.check.run import chosen_tools

    if chip is not None:
        raise SimError("--chip: a program chooses its own chip (ascend_sim.use, ASCEND_SIM_CHIP)")
    wanted = chosen_tools(tools)
    said = aclGetRecentErrMsg()
    launching = [one for one in devices if one.launched]
    if not launching and (not devices or "memcheck" not in wanted):
        what = "it launches nothing" if devices else "it opens no device"
        raise SimError(f"{path}: {what}, so there is nothing to check (code under __main__ is not run)")
    whole = CheckReport(devices[-1].chip.name, wanted, leaks() if "memcheck" in wanted else [])
    for one in launching:
        report = one.check(wanted)
        whole.findings += report.findings
        whole.unused += report.unused
        whole.remarks += [text for text in report.remarks if text not in whole.remarks]
        whole.programs, whole.rows = whole.programs + report.programs, whole.rows + report.rows
    refused = f" (the last call that was refused: {said})" if said else ""
    whole.remarks.append(
        "a program of the C interface: looked at are its device memory and the kernels that it launched; reads of GM are "
        "taken as initialised"
        if launching
        else f"nothing was launched: looked at is device memory alone{refused}"
    )
    return whole


def _case(name: str, asked: Checked, tools: list[str] | None) -> CheckReport:
    from ascend_sim.calls.cases import of_this_case
    from ascend_sim.calls.checks import check_call, tasks_of_call
    from ascend_sim.check.run import check_tasks
    from ascend_sim.chip import chip_of
    from ascend_sim.ops.case import case_label, load_case
    from ascend_sim.options.description import filled
    from ascend_sim.options.run_options import CaseOptions, PlanOptions
    from ascend_sim.runtime.outlook import look_ahead

    case = load_case(name)
    how = of_this_case(
        case,
        CaseOptions(
            chip=asked.chip,
            disarm=parse_disarm(asked.disarm),
            tiling=parse_tiling(asked.tiling) if asked.tiling else None,
            block_dim=parse_block_dim(asked.block_dim) if asked.block_dim else None,
        ),
    )
    spec = chip_of(how["chip"])
    tasks = partial(tasks_of_call, case, spec, **filled(PlanOptions, how))
    announce(case_label(name), lambda: look_ahead(spec, tasks()[1], lambda task: check_tasks(spec, [task], tools=tools)))
    with ProgressLine(f"checking {case_label(name)}"):
        return check_call(case, spec, tools=tools, **filled(PlanOptions, how))
