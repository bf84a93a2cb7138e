"""The command line: `ascend-sim run CASE`, `ascend-sim chips [NAME]`, `ascend-sim chips --compare A B ...`.

Exit codes: 0 fine; 1 a verdict failed (a gradient that is not correct, or a finding such as a hazard); 2 bad input or a
refused call, told in one line.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer.core import TyperCommand, TyperGroup

from ascend_sim.errors import AclnnError, ConfigError, SimError

_CLICK_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""The base of click's errors, wherever typer has its click from."""


class _OneLine(TyperGroup):
    """A wrong option or command ends as all bad input does: one line (JSON under --json) and exit code 2."""

    def main(self, *arguments: Any, **settings: Any) -> Any:
        args = arguments[0] if arguments else settings.pop("args", None)
        given = list(sys.argv[1:] if args is None else args)
        try:
            for option, value in pairwise([*given, "--"]):
                if option.startswith("--") and (value == "" or option.endswith("=")):
                    raise typer.BadParameter(
                        f"{option.rstrip('=')}: nothing given; leave the option out for its default"
                    )
            code = super().main(given, *arguments[1:], **{**settings, "standalone_mode": False})
        except _CLICK_ERROR as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
                sys.exit(error.exit_code)
            context = getattr(error, "ctx", None)
            text = " ".join(error.format_message().split()).rstrip(".")
            if context is not None:
                text += f"; {context.command_path} --help tells more"
            if "--json" in given:
                print(json.dumps({"status": None, "error": text}))
            else:
                print(f"ascend-sim: {text}", file=sys.stderr)
            sys.exit(2)
        except typer.Abort:
            sys.exit(1)
        sys.exit(code or 0)


app = typer.Typer(
    cls=_OneLine,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Convolution backward on a simulated Ascend AI Core: gradients, cycles and a timeline of every instruction.",
    epilog="Examples:  ascend-sim run resnet50_conv2_3x3 --out out/   |   ascend-sim chips ascend910b3",
)

PROGRESS_AFTER_SECONDS = 2.0
_ROWS_WORTH_PROCESSES = 50_000
"""Instructions from which it pays to share runs out among processes."""
_WHOLE_NUMBER = re.compile("-?[0-9]{1,18}")


class _Progress:
    """A bar on a terminal for work longer than two seconds; silent in a log."""

    def __init__(self, unit: str = "blocks") -> None:
        self._unit = unit
        self._begin = time.monotonic()
        self._bar: Progress | None = None
        self._tasks: dict[str, Any] = {}

    def __call__(self, name: str, done: int, total: int) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self._begin < PROGRESS_AFTER_SECONDS:
            return
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(f"{name}: {self._unit}", total=total)
        self._bar.update(self._tasks[name], completed=done)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Status:
    """A line on a terminal that says where long work stands; silent in a log."""

    def __init__(self) -> None:
        self._status: Any = None

    def __call__(self, text: str) -> None:
        if not sys.stderr.isatty():
            return
        if self._status is None:
            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)

    def close(self) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextmanager
def _errors(as_json: bool) -> Iterator[None]:
    """Turn the errors a user can cause into one line and exit code 2."""
    try:
        yield
    except (SimError, OSError, MemoryError) as error:
        status = error.status if isinstance(error, AclnnError) else None
        text = f"this machine has not enough memory: {error}" if isinstance(error, MemoryError) else str(error)
        if as_json:
            print(json.dumps({"status": status, "error": text}))
        else:
            print(f"ascend-sim: {text}", file=sys.stderr)
        raise typer.Exit(2) from None


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
    progress = _Progress()
    with _errors(json_output):
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
    trace_limit: int, max_cycles: int | None, progress: _Progress, plan: bool, accumulate: str, overflow: str | None,
    msprof: bool, html: Path | None,
) -> int:  # fmt: skip
    from ascend_sim.api import TensorSpec, check_fits, conv_tbc_backward, convolution_backward
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case, make_tensors
    from ascend_sim.report.msprof import check_msprof
    from ascend_sim.report.pages import plan_table
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
        _check_html(html, out)
    case = load_case(name)
    if tensors is not None:
        case = case.with_file(tensors)
    spec = load_chip(chip or case.chip)
    check_fits(case.tensors, spec)
    if out is not None:
        _make_folder(out)
        if msprof:
            check_msprof(out)
    if mode == "timing" and tensors is None:
        values: dict[str, Any] = {key: TensorSpec(shape, dtype) for key, (shape, dtype) in case.tensors.items()}
    else:
        values = make_tensors(case)
    operator: Any = conv_tbc_backward if case.operator == "conv_tbc_backward" else convolution_backward
    result = operator(
        *values.values(), **case.attributes,
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
    written = _write(result, spec, out, trace_limit, msprof) if out is not None else []
    said: list[str] = []
    if html is not None:
        said = _write_html(html, result.recording, result.report.to_dict(), progress, other_rates=True)
        written.append(html)
    progress.close()
    if as_json:
        print(json.dumps(result.report.to_dict(), indent=1))
    else:
        console = Console(width=None if sys.stdout.isatty() else 140)
        render(result.report, console)
        if plan:
            console.print(plan_table(result.report.plan, result.report.workspace_bytes))
        _say(said, console)
        if written:
            print(f"wrote {', '.join(str(path) for path in written)}")
    return 0 if result.report.passed else 1


def _make_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise SimError(f"--out {out}: there is a file of that name; give a folder")
    out.mkdir(parents=True, exist_ok=True)


def _check_html(html: Path, out: Path | None = None) -> None:
    """Refuse before the work what would fail after it."""
    from ascend_sim.report.page import check_plotly

    check_plotly()
    if html.is_dir():
        raise SimError(f"--html {html}: that is a folder; give a file, for example {html / 'report.html'}")
    if not html.parent.is_dir() and html.parent != out:
        raise SimError(f"--html {html}: there is no folder {html.parent}")


def _write_html(
    html: Path, recording: Any, report: dict[str, Any], progress: _Progress, *, other_rates: bool
) -> list[str]:
    """Write the page; returns what it says of the bottleneck."""
    from ascend_sim.report.page import write_page
    from ascend_sim.report.what_if import what_if
    from ascend_sim.workers import usable_cores

    rows = sum(len(run.program) for run in recording.timeline.programs)
    jobs = usable_cores() if rows > _ROWS_WORTH_PROCESSES else 1
    outcomes = what_if(recording, jobs=jobs, progress=progress) if other_rates else None
    return write_page(html, recording, report, outcomes)


def _say(paragraphs: list[str], console: Console) -> None:
    for text in paragraphs:
        console.print(f"\n{text}", highlight=False, markup=False)
    if paragraphs:
        console.print()


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

    progress = _Progress("runs")
    with _errors(as_json=False):
        html = html or folder / "report.html"
        recording, stored = open_run(folder)
        _check_html(html)
        try:
            said = _write_html(html, recording, stored, progress, other_rates=what_if)
        finally:
            progress.close()
        _say(said, Console(width=None if sys.stdout.isatty() else 140))
        print(f"wrote {html}")


def _write(result: Any, chip: Any, out: Path, trace_limit: int, msprof: bool) -> list[Path]:
    from ascend_sim.ops.tensor_files import save_tensors
    from ascend_sim.report.files import write_json
    from ascend_sim.report.msprof import remove_msprof, write_msprof
    from ascend_sim.report.timeline_file import write_timeline
    from ascend_sim.report.trace import write_trace

    for name in (
        "trace.json",
        "timeline.npz",
        "gradients.npz",
        "report.html",
    ):  # of an older run, which this one may not replace
        (out / name).unlink(missing_ok=True)
    remove_msprof(out)
    written = [out / "report.json"]
    write_json(written[0], result.report.to_dict())
    if result.timeline is not None:
        written += [out / "trace.json", out / "timeline.npz"]
        write_trace(written[1], result.timeline, result.tasks, chip, trace_limit)
        write_timeline(written[2], result.recording)
    if result.gradients:
        written.append(out / "gradients.npz")
        save_tensors(written[-1], {name: (array, result.dtypes[name]) for name, array in result.gradients.items()})
    if msprof:
        written.append(write_msprof(out, result.timeline, result.tasks, chip, trace_limit))
    return written


def parse_tiling(text: str) -> dict[str, dict[str, Any]]:
    """Tiling fields per cube kernel, from KERNEL.FIELD=VALUE,... or from a YAML file; ConfigError names what is wrong."""
    if "=" not in text:
        return _tiling_file(Path(text))
    fields: dict[str, dict[str, Any]] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        kernel, dot, field = key.strip().partition(".")
        if not dot or not _WHOLE_NUMBER.fullmatch(value.strip()):
            raise ConfigError(
                f"--tiling {part!r}: allowed is KERNEL.FIELD=WHOLE NUMBER, for example grad_input.baseM=256"
            )
        if field in fields.setdefault(kernel, {}):
            raise ConfigError(f"--tiling: {kernel}.{field} is given twice")
        fields[kernel][field] = int(value)
    return fields


def _tiling_file(path: Path) -> dict[str, dict[str, Any]]:
    from ascend_sim.ops.case import read_yaml

    if not path.is_file():
        raise ConfigError(f"--tiling {path}: no such file, and not of the form KERNEL.FIELD=VALUE,...")
    data = read_yaml(path, "must map grad_input and grad_weight to fields, like grad_input: {baseM: 256}")
    if not all(isinstance(fields, dict) for fields in data.values()):
        raise ConfigError(
            f"--tiling {path}: must map grad_input and grad_weight to fields, like grad_input: {{baseM: 256}}"
        )
    return data


def parse_block_dim(text: str) -> int | dict[str, int]:
    """Blocks of the cube kernels: one number for both, or KERNEL=NUMBER,...; ConfigError names what is wrong."""
    if _WHOLE_NUMBER.fullmatch(text.strip()):
        return int(text)
    blocks: dict[str, int] = {}
    for part in text.split(","):
        kernel, _, value = part.partition("=")
        if not _WHOLE_NUMBER.fullmatch(value.strip()):
            raise ConfigError(
                f"--block-dim {part!r}: allowed is a number, or KERNEL=NUMBER, for example grad_weight=32"
            )
        if kernel.strip() in blocks:
            raise ConfigError(f"--block-dim: {kernel.strip()} is given twice")
        blocks[kernel.strip()] = int(value)
    return blocks


@app.command("explain", epilog="Example:  ascend-sim explain strided --element 1,16,14,14")
def explain_command(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    element: Annotated[
        str | None, typer.Option(help="An element of grad_input, n,c,h,w (TBC: t,n,c); default: its middle.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="An element of grad_weight, co,ci,kh,kw (TBC: k,ci,co).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the walk as a page with step, back and slider.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print what the page shows as JSON.")] = False,
    chip: Annotated[str | None, typer.Option(help="Chip name or chip file; default: the case's.")] = None,
    cube_math_type: Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")] = None,
    tiling: Annotated[
        str | None, typer.Option(help="grad_input.baseM=256,grad_weight.baseK=64,... or a YAML file.")
    ] = None,
    deterministic: Annotated[
        bool | None, typer.Option("--deterministic/--no-deterministic", help="Default: of the chip and profile.")
    ] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library; default: the case's.")] = None,
    accumulate: Annotated[str, typer.Option(help="Model of the cube's sums: blas, chunk or exact_group.")] = "blas",
    overflow: Annotated[str | None, typer.Option(help="inf_nan or saturate; default: the chip's.")] = None,
) -> None:
    """Follow one number of a gradient from the formula through tiles, loads and mmads to the result."""
    from ascend_sim.explain import explain
    from ascend_sim.report.explain import explain_page
    from ascend_sim.report.explain_html import explain_data, explain_html
    from ascend_sim.report.files import atomic_write

    progress = _Progress()
    with _errors(json_output):
        if html is not None and (html.is_dir() or not html.parent.is_dir()):
            raise SimError(f"--html {html}: give the name of a file in a folder that there is")
        try:
            explanation = explain(
                case,
                element=parse_index("--element", element),
                weight=parse_index("--weight", weight),
                chip=chip,
                cube_math_type=cube_math_type,
                tiling=parse_tiling(tiling) if tiling else None,
                deterministic=deterministic,
                conformance=conformance,
                accumulate=accumulate,
                overflow=overflow,
                tiles=html is not None,
                progress=progress,
            )
        finally:
            progress.close()
        if json_output:
            print(json.dumps(explain_data(explanation), indent=1))
        else:
            print(explain_page(explanation), end="")
        if html is not None:
            with atomic_write(html) as file:
                file.write(explain_html(explanation).encode())
            print(f"wrote {html}", file=sys.stderr if json_output else sys.stdout)
    raise typer.Exit(0 if explanation.agrees else 1)


def parse_index(option: str, text: str | None) -> tuple[int, ...] | None:
    """The index of an element from whole numbers with commas; ConfigError for anything else."""
    if text is None:
        return None
    parts = text.split(",")
    if not all(_WHOLE_NUMBER.fullmatch(part.strip()) for part in parts):
        raise ConfigError(f"{option} {text!r}: allowed are whole numbers with commas, for example {option} 0,3,5,5")
    return tuple(int(part) for part in parts)


@app.command("explain-status", epilog="Example:  ascend-sim explain-status document_example_2d --conformance library")
def explain_status(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    chip: Annotated[str | None, typer.Option(help="Chip name or chip file; default: the case's.")] = None,
    cube_math_type: Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library.")] = None,
) -> None:
    """Show every rule that the operator checks for a case: pass, fail, skipped or not reached."""
    from ascend_sim.api import check_case
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case
    from ascend_sim.report.pages import status_table

    with _errors(as_json=False):
        loaded = load_case(case)
        number = loaded.cube_math_type if cube_math_type is None else cube_math_type
        result, rules = check_case(loaded, load_chip(chip or loaded.chip), number, conformance or loaded.conformance)
        Console(width=None if sys.stdout.isatty() else 160).print(status_table(result, rules))
        if result.failure is not None:
            print(f"status {result.status}: {result.failure.message}")
    raise typer.Exit(0 if result.status == 0 else 1)


@app.command(epilog="Examples:  ascend-sim chips ascend910b3   |   ascend-sim chips --compare ascend910a ascend910b3")
def chips(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="A chip's name or file; without it, all chips are listed."),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Print the named chips side by side.")] = False,
) -> None:
    """List the chips, print every number of one with its source, or compare some."""
    from ascend_sim.chip import load_chip
    from ascend_sim.report.chips import chip_detail, chips_table, compare_table

    with _errors(as_json=False):
        specs = [load_chip(name) for name in names or []]
        if compare and len(specs) < 2:
            raise SimError("chips --compare: give two chips or more, for example --compare ascend910a ascend910b3")
        if not compare and len(specs) > 1:
            raise SimError(f"chips: one chip at a time, got {len(specs)}; --compare prints them side by side")
        table = compare_table(specs) if compare else chip_detail(specs[0]) if specs else chips_table()
        Console(width=None if sys.stdout.isatty() else 160).print(table)


class _OptionalValues(TyperCommand):
    """Options that may stand without a value, and the value that they then have."""

    alone = {"--accumulate": "all", "--plot": "precision.png"}  # noqa: RUF012 - a constant

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        filled = []
        for argument, following in pairwise([*args, "--"]):
            filled.append(argument)
            if argument in self.alone and following.startswith("--"):
                filled.append(self.alone[argument])
        return super().parse_args(ctx, filled)


@app.command(
    cls=_OptionalValues,
    epilog="Example:  ascend-sim precision fp32_keep --chips ascend910b3,ascend910_9391 --inputs normal --accumulate all",
)
def precision(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    chips: Annotated[str | None, typer.Option(help="Chips side by side, with commas; default: the case's.")] = None,
    inputs: Annotated[
        str | None, typer.Option(help="uniform, normal, relu, wide, ones, adversarial or a .npz file.")
    ] = None,
    accumulate: Annotated[
        str, typer.Option(help="Models of the cube's sums: blas, chunk, exact_group, several with commas, or all.")
    ] = "blas",
    overflow: Annotated[str | None, typer.Option(help="inf_nan or saturate; default: the chip's.")] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library; default: the case's.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print all figures as CSV.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write the error distributions to this PNG file.")] = None,
) -> None:
    """Run a case in every precision that the product offers and compare the errors of its gradients."""
    from ascend_sim import precision_bench
    from ascend_sim.report import precision as pages

    progress = _Progress("rows")
    with _errors(json_output):
        if json_output and csv_output:
            raise SimError("--json and --csv: give one of them")
        try:
            table = precision_bench.precision(
                case,
                chips=chips.split(",") if chips else None,
                inputs=inputs,
                accumulate=accumulate if accumulate == "all" else accumulate.split(","),
                overflow=overflow,
                conformance=conformance,
                progress=progress,
            )
        finally:
            progress.close()
        if plot is not None:
            pages.plot(table, plot)
        if json_output:
            print(json.dumps({**table.to_dict(), "notes": pages.notes(table)}, indent=1))
        elif csv_output:
            print(pages.csv_text(table), end="")
        else:
            pages.render(table, Console(width=max(Console().width, 170)))  # wider than most terminals; nothing is cut
            if plot is not None:
                print(f"wrote {plot}")
    raise typer.Exit(0 if table.passed else 1)


@app.command("format", epilog="Example:  ascend-sim format hifloat8 --value 0.1 --rounding hybrid")
def format_command(
    name: Annotated[str, typer.Argument(help="A number format: float16, bf16, hf32, hifloat8, float8_e4m3fn, ...")],
    value: Annotated[str | None, typer.Option(help="A number to round step by step, such as 0.1, inf or nan.")] = None,
    rounding: Annotated[str | None, typer.Option(help="A cast mode of the format; default: its first.")] = None,
    mantissa_bits: Annotated[int | None, typer.Option(help="For hf32: 11 (910B, 910_93) or 10 (950).")] = None,
) -> None:
    """Explain a number format: layout, range, special codes, spacing, and how a number is rounded to it."""
    from ascend_sim.report.format_page import format_page

    with _errors(as_json=False):
        print(format_page(name, value, rounding=rounding, mantissa_bits=mantissa_bits), end="")


@app.command("run-network", epilog="Example:  ascend-sim run-network resnet50 --batch 64 --chip ascend910b3 --out out/")
def run_network(
    network: Annotated[str, typer.Argument(help="A network file (.yaml) or the name of one that ships: resnet50.")],
    batch: Annotated[int, typer.Option(min=1, help="Images in a batch.")] = 64,
    chip: Annotated[str, typer.Option(help="Chip name or chip file.")] = "ascend910b3",
    conformance: Annotated[str, typer.Option(help="documented or library.")] = "documented",
    l2: Annotated[str, typer.Option(help="cold: each layer starts with an empty L2; warm: with its inputs.")] = "cold",
    out: Annotated[Path | None, typer.Option(help="Folder for network.json and layers.csv.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")] = None,
) -> None:
    """Time the backward pass of every convolution of a network: one line a layer and the totals."""
    from ascend_sim import network as networks
    from ascend_sim.report import network as pages
    from ascend_sim.report.files import atomic_write, write_json
    from ascend_sim.workers import usable_cores

    progress = _Progress("layers")
    begin = time.monotonic()
    with _errors(json_output):
        loaded = networks.load_network(network)
        if out is not None:
            _make_folder(out)
        jobs = jobs or usable_cores()
        try:
            run = networks.run_network(
                loaded, chip=chip, batch=batch, conformance=conformance, l2=l2, jobs=jobs, progress=progress
            )
        finally:
            progress.close()
        if json_output:
            print(json.dumps(run.to_dict(), indent=1))
        else:
            pages.render(run, Console(width=None if sys.stdout.isatty() else 140))
        if out is not None:
            write_json(out / "network.json", run.to_dict())
            with atomic_write(out / "layers.csv") as file:
                file.write(pages.csv_text(run).encode())
        print(pages.cost_line(run, time.monotonic() - begin, jobs), file=sys.stderr)
    raise typer.Exit(1 if run.findings else 0)


@app.command(epilog="Example:  ascend-sim validate --chip ascend910b2 --csv rows.csv --plot accuracy.png")
def validate(
    chip: Annotated[str | None, typer.Option(help="Only rows of these chips, with commas.")] = None,
    rows: Annotated[Path | None, typer.Option(help="Your own measured rows (CSV); default: those that ship.")] = None,
    csv_output: Annotated[
        Path | None, typer.Option("--csv", help="Write all rows with predictions to this file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write predicted against measured to this PNG file.")] = None,
    l2: Annotated[
        str, typer.Option(help="warm: a kernel finds its inputs in the L2, as far as they fit; cold.")
    ] = "warm",
    long: Annotated[
        bool, typer.Option("--long", help="Run the rows that take minutes too (MatMul of 8192 and more).")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")] = None,
) -> None:
    """Compare simulated with measured kernels: errors of task, core and pipe times by chip and operator."""
    from ascend_sim import validate as validation
    from ascend_sim.instruction_points import compare_points, shipped_points
    from ascend_sim.report import accuracy as pages
    from ascend_sim.report.files import atomic_write
    from ascend_sim.workers import usable_cores

    progress = _Progress("kernels")
    begin = time.monotonic()
    with _errors(json_output):
        if plot is not None:
            pages.check_plot(plot)
        measured = validation.read_rows(rows, l2) if rows is not None else validation.shipped_rows(l2)
        if chip is not None:
            measured = validation.of_chips(measured, chip.split(","))
        try:
            compared = validation.compare(measured, jobs=jobs or usable_cores(), progress=progress, long=long)
        finally:
            progress.close()
        if csv_output is not None:
            with atomic_write(csv_output) as file:
                file.write(pages.csv_text(compared).encode())
        if plot is not None:
            pages.plot(compared, plot)
        # Published points are of architectures: they belong to the whole table.
        shipped = rows is None and chip is None
        points = pages.group_points(compare_points(shipped_points())) if shipped else []
        if json_output:
            figures = pages.to_dict(compared) | ({"points": pages.points_dict(points)} if shipped else {})
            print(json.dumps(figures, indent=1))
        else:
            pages.render(compared, Console(width=None if sys.stdout.isatty() else 170))
            print("\n".join(pages.points_text(points)), end="\n" if points else "")
        print(f"took {time.monotonic() - begin:.1f} s", file=sys.stderr)


class _TileCommand(_OptionalValues):
    alone = {"--plot": "tilings.png"}  # noqa: RUF012 - a constant


@app.command(
    cls=_TileCommand,
    epilog="Examples:  ascend-sim tile resnet50_conv2_3x3 --kernel grad_input --out tilings/   |   "
    "ascend-sim tile fp32_keep --chip ascend910b3,ascend910a --time-limit 60 --plot",
)
def tile(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    kernel: Annotated[str | None, typer.Option(help="grad_input or grad_weight; default: both.")] = None,
    chip: Annotated[str | None, typer.Option(help="Chips, with commas; default: the case's.")] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Fix a field: baseM=256, or grad_input.baseM=256; again for more.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.sqlite (the search goes on from there) and best.yaml.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="New simulations at most, for each kernel.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0, help="Seconds at most, for each kernel.")] = None,
    within: Annotated[
        float, typer.Option(min=0, max=100, help="Leave out what can be better by less than this many per cent.")
    ] = 0.0,
    top: Annotated[int, typer.Option(min=1, help="Tilings in the table.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Write cycles against bound and L1 use to this PNG file.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    l2: Annotated[
        str, typer.Option(help="warm: the kernel finds its operands in the L2, as within a call; cold: it does not.")
    ] = "warm",
    cube_math_type: Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")] = None,
    deterministic: Annotated[
        bool | None, typer.Option("--deterministic/--no-deterministic", help="Default: of the chip and profile.")
    ] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library; default: the case's.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")] = None,
) -> None:
    """Search the tiling of a cube kernel that takes the fewest cycles, and show the best beside the simulator's own."""
    from ascend_sim.ops.case import load_case
    from ascend_sim.report import tilings as pages
    from ascend_sim.report.accuracy import check_plot
    from ascend_sim.search import command
    from ascend_sim.workers import usable_cores

    progress = _Status()
    with _errors(json_output):
        if plot is not None:
            check_plot(plot)
        loaded = load_case(case)
        kernels = command.kernels_of(
            loaded, chip.split(",") if chip else [loaded.chip], kernel, l2=l2, cube_math_type=cube_math_type,
            deterministic=deterministic, conformance=conformance,
        )  # fmt: skip
        if out is not None:
            _make_folder(out)
        try:
            outcomes = command.run_searches(
                kernels, field or [], out, jobs=jobs or usable_cores(), limit=limit, seconds=time_limit,
                within=within / 100, progress=lambda name, state: progress(pages.progress_text(name, state)),
            )  # fmt: skip
        finally:
            progress.close()
        written = command.write_best(outcomes, out) if out is not None else []
        if plot is not None:
            pages.plot(outcomes, plot)
            written.append(plot)
        if json_output:
            print(json.dumps([pages.to_dict(outcome, top) for outcome in outcomes], indent=1))
        else:
            console = Console(width=None if sys.stdout.isatty() else 170)
            for outcome in outcomes:
                pages.render(outcome, console, top)
                console.print()
            if len({outcome.kernel.chip.name for outcome in outcomes}) > 1:
                pages.compare_chips(outcomes, console)
            if written:
                print(f"wrote {', '.join(str(path) for path in written)}")
        seconds = sum(outcome.seconds for outcome in outcomes)
        again = sum(outcome.reused for outcome in outcomes)
        print(f"took {seconds:.1f} s" + (f"; {again} results were there before" if again else ""), file=sys.stderr)
        if outcomes[-1].reason == "interrupted":
            raise typer.Exit(130)
        raise typer.Exit(1 if any(one["findings"] for outcome in outcomes for one in outcome.results) else 0)


def main() -> None:
    """Entry point of `ascend-sim`."""
    app()


if __name__ == "__main__":
    main()
