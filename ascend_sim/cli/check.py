"""`ascend-sim check CASE|KERNEL.py|OUT`: mistakes in kernels, whether or not a run shows them."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.completing import CHIPS, SUBJECTS
from ascend_sim.cli.kernel import called, check_file, choose_kernel, default_blocks, fields_of, own_stdout, run_file
from ascend_sim.cli.progress import Status, announce
from ascend_sim.cli.terminal import print_text
from ascend_sim.cli.values import parse_block_dim, parse_disarm, parse_tiling
from ascend_sim.errors import SimError

if TYPE_CHECKING:
    from ascend_sim.acl.out import Recorder
    from ascend_sim.checking import CheckReport


@app.command(
    epilog="Example:  ascend-sim check matmul.py --tool racecheck   |   ascend-sim check resnet50_conv2_3x3 --json"
)
def check(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="CASE|KERNEL.py|OUT",
            help="A case, a Python file with a kernel, or the folder of a run.",
            autocompletion=SUBJECTS,
        ),
    ],
    name: Annotated[str | None, typer.Argument(help="The kernel, where the file has several.")] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(help="memcheck, racecheck, initcheck or synccheck; more than once for several. Default: all."),
    ] = None,
    chip: Annotated[
        str | None,
        typer.Option(help="Chip name or chip file; default: the case's, or ascend910b3.", autocompletion=CHIPS),
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(min=1, help="Of a kernel file: blocks; default: BLOCKS of the file, else one a core.")
    ] = None,
    block_dim: Annotated[str | None, typer.Option(help="Of a case: blocks of the cube kernels, as in `run`.")] = None,
    tiling: Annotated[str | None, typer.Option(help="Tiling, as in `run` and `kernel`.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of a kernel file: seed of the generator for arguments(rng).")] = 0,
    disarm: Annotated[
        list[str] | None,
        typer.Option(help="A flag whose waits hold nothing (an experiment); of a case KERNEL.FLAG."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look for mistakes in kernels: memory, races, initialisation, synchronisation. Exit code 1 where something is found."""
    with errors(json_output), own_stdout(json_output):
        path = Path(subject)
        if path.suffix == ".py":
            _refuse(subject, "a kernel file", {"--block-dim": block_dim})
            report = _kernel_file(path, name, chip, blocks, tiling, seed, disarm or [], tool)
        elif path.is_dir():
            given = {"NAME": name, "--chip": chip, "--blocks": blocks, "--block-dim": block_dim, "--tiling": tiling}
            _refuse(subject, "the folder of a run", {**given, "--disarm": disarm})
            report = _folder(path, tool)
        else:
            _refuse(subject, "a case", {"NAME": name, "--blocks": blocks})
            report = _case(subject, chip, tiling, block_dim, disarm or [], tool)
    if json_output:
        print(json.dumps(report.to_dict(), indent=1))
    else:
        for line in report.render().splitlines():  # errors and warnings have the vendor's form, which programs read too
            ours = line.startswith(("====== REMARK", "====== SUMMARY"))
            (print_text if ours else print)(line)
    raise typer.Exit(0 if report.passed else 1)


def _refuse(subject: str, kind: str, options: dict[str, object]) -> None:
    for option, value in options.items():
        if value is not None:
            raise SimError(f"{option}: {subject} is {kind}, which does not take it")


def _kernel_file(
    path: Path,
    name: str | None,
    chip: str | None,
    blocks: int | None,
    tiling: str | None,
    seed: int,
    disarm: list[str],
    tools: list[str] | None,
) -> CheckReport:
    from ascend_sim.acl.state import watched
    from ascend_sim.checking import check_kernel
    from ascend_sim.chip import load_chip

    spec = load_chip(chip or "ascend910b3")
    with watched() as devices:
        module = run_file(path)
    if hasattr(module, "acl") and not hasattr(module, "arguments"):
        return _program(path, devices, tools, chip)
    check_file(path, module)
    kernel = choose_kernel(module, path, name)
    tensors = called(path, module.arguments, np.random.default_rng(seed))
    count = default_blocks(path, module, kernel.core_on(spec), spec) if blocks is None else blocks
    given = tensors if isinstance(tensors, tuple | list) else (tensors,)
    return check_kernel(kernel, count, *given, chip=spec, tools=tools, disarm=disarm, **fields_of(tiling))


def _program(path: Path, devices: list[Recorder], tools: list[str] | None, chip: str | None) -> CheckReport:
    """A program that used `ascend_sim.acl` has run: what it launched on its devices, and what it did not give back."""
    from ascend_sim.acl import aclGetRecentErrMsg, leaks
    from ascend_sim.check.run import CheckReport, chosen_tools

    if chip is not None:
        raise SimError("--chip: a program chooses its own chip (ascend_sim.use, ASCEND_SIM_CHIP)")
    wanted = chosen_tools(tools)
    said = aclGetRecentErrMsg()
    launching = [one for one in devices if one.launched]
    if not launching and (not devices or "memcheck" not in wanted):
        what = "it launches nothing" if devices else "it opens no device"
        raise SimError(f"{path}: {what}, so that nothing can be checked (what stands under __main__ is not run)")
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


def _folder(path: Path, tools: list[str] | None) -> CheckReport:
    from ascend_sim.checking import check_folder

    return check_folder(path, tools=tools)


def _case(
    name: str, chip: str | None, tiling: str | None, block_dim: str | None, disarm: list[str], tools: list[str] | None
) -> CheckReport:
    from ascend_sim.check.run import check_tasks
    from ascend_sim.checking import check_call, tasks_of_call
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case
    from ascend_sim.runtime.outlook import look_ahead

    case = load_case(name)
    spec = load_chip(chip or case.chip)
    options: dict[str, Any] = {
        "disarm": parse_disarm(disarm),
        "tiling": parse_tiling(tiling) if tiling else case.tiling,
        "block_dim": parse_block_dim(block_dim) if block_dim else case.block_dim or None,
    }
    tasks = partial(tasks_of_call, case, spec, **options)
    announce(Path(name).stem, lambda: look_ahead(spec, tasks()[1], lambda task: check_tasks(spec, [task], tools=tools)))
    with closing(Status(f"checking {Path(name).stem}")):
        return check_call(case, spec, tools=tools, **options)
