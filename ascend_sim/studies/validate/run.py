"""Measured kernels against simulated ones: rows of a profiler, each run alone in `timing` mode.

    rows = read_rows("my_rows.csv")            # or shipped_rows()
    compared = compare(rows)
    compared[0].prediction.task_us, compared[0].row.duration_us

A row is one launch; `read_rows` takes a profiler's tables too (`ascend_sim.op_summary`). Columns of a file of one's own:
chip, op_type, dtype, duration_us, what the kernel's size needs (`SIZES`), `block_dim` for the cube kernels, and where
counters exist aicore_time_us and mac_ratio, mte1_ratio, ... (parts of it). Lines that begin with # are comments, other
columns are carried along. Nothing of a row but its sizes reaches the simulator (of a MatMul also the base block and the share
of a core where they are known).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.chip.files import is_path, read_layers
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.engine.engine import Engine, Progress
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.numerics import canonical, numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.ops.kernels.vector.cast import cast_task
from ascend_sim.ops.kernels.vector.mem_set import mem_set_task
from ascend_sim.ops.kernels.vector.reduce_sum import reduce_sum_task
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_feature import FeatureShape, feature_from_c0_task, feature_to_c0_task
from ascend_sim.ops.kernels.vector.trans_data_filter import (
    FilterShape,
    filter_from_fractal_z_task,
    filter_to_fractal_z_task,
)
from ascend_sim.ops.operators.convolution_backward.accept import accept, make_plan
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.report.report import Report
from ascend_sim.runtime import Device, Task
from ascend_sim.runtime.workers import spread
from ascend_sim.studies.validate import op_summary
from ascend_sim.studies.validate.microbench import STREAMS, Stream, VectorAdd, measure, transfer_cycles

__all__ = [
    "MICROBENCHMARKS",
    "PIPES",
    "Comparison",
    "Kernel",
    "Prediction",
    "Row",
    "compare",
    "of_chips",
    "read_rows",
    "shipped_rows",
    "simulate",
    "unknown_operator",
]

PIPES = {
    "mac": "cube",
    "mte1": "mte1",
    "mte2": "mte2",
    "mte3": "mte3",
    "vec": "vec",
    "fixpipe": "fixpipe",
    "scalar": "scalar",
}
"""Pipes by the profiler's names and by the report's."""

CHIPS = {"ascend910b_gen1": "ascend910b"}
"""Other names of chips in published tables: the first 910 with 30 cores."""

GRADIENTS = {"Conv2DBackpropInput": "grad_input", "Conv2DBackpropFilter": "grad_weight"}
_CONV = (
    "N", "Ci", "Hi", "Wi", "Co", "Ho", "Wo", "kh", "kw", "stride_h", "stride_w", "pad_h_total", "pad_w_total", "block_dim",
)  # fmt: skip
MATMULS = ("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul")
_TRANSPOSED = ("trans_a", "trans_b")
_MATMUL_TILING = {"block_dim": "usedCoreNum"} | {
    name: name for name in ("baseM", "baseN", "baseK", "singleCoreM", "singleCoreN")
}
MICROBENCHMARKS = ("DataCopyStream", "DataCopy", "VectorAdd")
"""Small programs of `ascend_sim.microbench`; `duration_us` of such a row is the time of its `quantity`."""
L2_STATES = ("cold", "stale", "warm")
"""What the L2 holds before a kernel: nothing (cold); its inputs, as far as they fit (warm); or what a long training step
leaves when the inputs were written or read long before (stale): lines that other kernels wrote, none of them yet written
back, and the buffers that the kernel writes, which were in use a moment ago.
"""
LONG = 2**38
"""Multiply-accumulates above which a row takes minutes: such rows run only when asked for."""

_FEATURE, _FILTER = ("N", "Ci", "Hi", "Wi", "C0"), ("Co", "Ci", "kh", "kw", "C0")
SIZES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(GRADIENTS, _CONV),
    "TransData": ("Ci", "C0"),
    "ReduceSum": ("N", "Ci", "Hi", "Wi"),
    "Cast": ("N",),
    "MemSet": ("Co", "Ci", "kh", "kw"),
    **dict.fromkeys(MATMULS, ("M", "N", "K")),
    "DataCopyStream": ("M", "N", "tile_m", "tile_n", "block_dim"),
    "DataCopy": ("nbytes",),
    "VectorAdd": ("M", "N", "tile_n", "block_dim"),
}
"""Operators that can be compared, with the columns that give their size (TransData: of a feature map or of a filter)."""

FORMATS = (
    "ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "NC1HWC0", "NDC1HWC0", "FRACTAL_Z", "FRACTAL_Z_3D", "FRACTAL_NZ",
)  # fmt: skip
"""Formats of the vendor's that a TransData may have on either side."""
_TURNS = (["NC1HWC0", "NCHW"], ["FRACTAL_Z", "NCHW"])
_LABELS = ("dtype_out", "format_in", "format_out", "path", "quantity")
_PROGRAM = ("tile_m", "tile_n", "splits", "repeats", "buffers", "bypass", "nbytes")
_COLUMNS = tuple(
    dict.fromkeys((*_CONV, *_FEATURE, *_FILTER, "M", "K", "batch", *_TRANSPOSED, *_MATMUL_TILING, *_PROGRAM))
)
_FLAGS = (*_TRANSPOSED, "bypass")
_FROM_ZERO = ("pad_h_total", "pad_w_total", *_FLAGS)
_CUBE_DTYPES = {"hf32": ("float32", 3), "fp32": ("float32", 0), "fp16": ("float16", 0), "bf16": ("bfloat16", 0)}


@dataclass(frozen=True)
class Kernel:
    """What is simulated: rows of equal kernels share one run. `sizes` are (column, value) pairs of what the row gives."""

    chip: str
    op_type: str
    dtype: str
    sizes: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, str], ...] = ()
    l2: str = "warm"

    def __getitem__(self, column: str) -> int:
        return dict(self.sizes)[column]

    def get(self, column: str, default: int) -> int:
        """A size that may be left out."""
        return dict(self.sizes).get(column, default)

    @property
    def is_long(self) -> bool:
        """Whether the run takes minutes."""
        if self.op_type not in MATMULS:
            return False
        return self.get("batch", 1) * self["M"] * self["N"] * self["K"] > LONG

    def label(self, column: str) -> str:
        """A text column, "" where it is empty."""
        return dict(self.labels).get(column, "")


@dataclass(frozen=True)
class Row:
    """One measured launch; times in us, `core_us` and `pipes` (by `PIPES`) means over the cores where counters exist.

    `unlike` says why no kernel here does the same work; `series` keeps rows apart that must not be averaged with others.
    """

    kernel: Kernel
    duration_us: float
    core_us: float | None
    pipes: Mapping[str, float]
    series: str
    unlike: str
    cells: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Prediction:
    """Times of the simulated kernel in us, or why there are none."""

    task_us: float = math.nan
    core_us: float = math.nan
    pipes: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""


@dataclass(frozen=True)
class Comparison:
    """A row and what the simulator says of it."""

    row: Row
    prediction: Prediction

    @property
    def error(self) -> float:
        """(predicted - measured) / measured of the task time."""
        return self.prediction.task_us / self.row.duration_us - 1


def shipped_rows(l2: str = "warm") -> list[Row]:
    """The measured rows that ship with the package."""
    folder = Path(str(files("ascend_sim.configs"))) / "measurements"
    return [row for path in sorted(folder.glob("*.csv")) for row in read_rows(path, l2)]


def read_rows(path: str | Path, l2: str = "warm", chip: str | None = None) -> list[Row]:
    """The rows of a CSV file, or of a profiler's table or folder, whose `chip` must then be given.

    `l2` is one of L2_STATES, for rows without a column of that name. Raises ConfigError with file, line and column for a
    value that cannot be.
    """
    path = Path(path)
    if l2 not in L2_STATES:
        raise SimError(f"l2 {l2!r}: allowed are {', '.join(L2_STATES)}")
    if not path.is_dir():
        return _read_file(path, l2, chip)
    found = op_summary.tables(path)
    if not found:
        raise ConfigError(
            f"{path}: a folder without a profiler's table; looked for {' and '.join(op_summary.FILES)} below it"
        )
    return [row for file in found for row in _read_file(file, l2, chip)]


def _read_file(path: Path, l2: str, chip: str | None) -> list[Row]:
    if not path.exists():
        raise ConfigError(f"{path}: no such file; --rows takes a CSV of measured rows, or a profiler's folder")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as CSV text: {error}") from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    if len(numbered) < 2:
        raise ConfigError(f"{path}: no rows; a first line names the columns, every other line is a measured launch")
    heads = next(csv.reader([numbered[0][1]]))
    from_profiler = op_summary.is_op_summary(heads)
    if from_profiler:
        _check_profiled(path, heads, chip)
    missing = [name for name in ("chip", "op_type", "dtype", "duration_us") if name not in heads]
    if missing and not from_profiler:
        raise ConfigError(f"{path}: no column {', '.join(missing)} in the first line: {', '.join(heads)}")
    rows = []
    for number, line in numbered[1:]:
        cells = dict(zip(heads, next(csv.reader([line])), strict=False))
        where = f"{path}, line {number}"
        rows.append(_profiled(where, cells, l2, chip) if from_profiler and chip else _row(where, cells, l2))
    return rows


def _check_profiled(path: Path, heads: Sequence[str], chip: str | None) -> None:
    missing = op_summary.missing_columns(heads)
    if missing:
        raise ConfigError(
            f"{path}: a profiler's table without {', '.join(missing)}; msprof writes shapes with --task-time=l1, "
            "torch_npu from profiler level 1"
        )
    if chip is None:
        raise SimError(f"{path}: a profiler's table does not name its chip; give one with --chip")
    load_chip(chip)


def _profiled(where: str, cells: Mapping[str, str], l2: str, chip: str) -> Row:
    """A line of a profiler's table; one that cannot be simulated says why."""
    try:
        row = {"chip": chip, **op_summary.to_row(cells, _COLUMNS)}
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    skipped = row.get("skipped") or _unlike(row["op_type"], "")
    if skipped:
        found = Row(Kernel(_chip_name(chip), row["op_type"], "", ()), math.nan, None, {}, "", skipped, {})
    else:
        found = _row(where, row, l2)
    return replace(found, cells={**cells, **row})


def of_chips(rows: Iterable[Row], names: Iterable[str]) -> list[Row]:
    """The rows of these chips; SimError names the chips that there are when one has none.

    A chip file of the user's takes the rows of the nearest chip that it extends.
    """
    rows = list(rows)
    found = sorted({row.kernel.chip for row in rows})
    chosen = []
    for given in names:
        name = _chip_name(given.strip())
        bases = [Path(layer.file).stem for layer in read_layers(name)] if is_path(name) else [name]
        base = next((base for base in (name, *bases) if base in found), None)
        if base is None:
            raise SimError(f"chip {name!r} has no measured rows; there are rows of {', '.join(found)}")
        load_chip(name)
        chosen += [replace(row, kernel=replace(row.kernel, chip=name)) for row in rows if row.kernel.chip == base]
    return chosen


def _row(where: str, cells: Mapping[str, str], l2: str) -> Row:
    text = {name: value.strip() for name, value in cells.items()}
    chip = _chip_name(text.get("chip", ""))
    try:
        load_chip(chip)
    except ConfigError as error:
        raise ConfigError(f"{where}: chip: {error}") from None
    op_type = text.get("op_type", "")
    op_type = op_summary.STATIC.get(op_type, op_type)
    sizes = {name: _whole(where, name, text[name], name in _FROM_ZERO) for name in _COLUMNS if text.get(name)}
    for name in _FLAGS:
        if sizes.get(name, 0) > 1:
            raise ConfigError(f"{where}: {name}: {text[name]!r} given; allowed: 0, 1")
    labels = {name: text[name] for name in _LABELS if text.get(name)}
    labels |= _formats(labels)
    unlike = _unlike(op_type, text.get("fused", "")) or _other_formats(op_type, labels)
    if not unlike:
        _require_sizes(where, op_type, sizes, labels)
    residency = text.get("l2") or l2
    if residency not in L2_STATES:
        raise ConfigError(f"{where}: l2: {residency!r} given; allowed: {', '.join(L2_STATES)}")
    kernel = Kernel(
        chip, op_type, text.get("dtype", "").lower(), tuple(sorted(sizes.items())), tuple(labels.items()), residency
    )
    core = _time(where, text, "aicore_time_us")
    ratios = {pipe: _time(where, text, f"{pipe}_ratio") for pipe in PIPES}
    pipes = {pipe: ratio * core for pipe, ratio in ratios.items() if ratio is not None and core is not None}
    duration = _time(where, text, "duration_us")
    if not duration:
        raise ConfigError(f"{where}: duration_us: {text.get('duration_us', '')!r} given; must be a time above 0")
    return Row(kernel, duration, core, pipes, text.get("series", ""), unlike, dict(cells))


def _chip_name(name: str) -> str:
    """A chip by one name; a file of the user's keeps its own."""
    return name if is_path(name) else CHIPS.get(name.lower(), name.lower())


def _unlike(op_type: str, fused: str) -> str:
    parts = set(op_type.split("_"))
    if (
        op_type.startswith("FusionOp")
        or (len(parts) > 1 and parts & set(SIZES))
        or fused.lower() in ("true", "1", "yes")
    ):
        return "fused with other operators"
    return "" if op_type in SIZES else unknown_operator(op_type)


def _formats(labels: Mapping[str, str]) -> dict[str, str]:
    """Formats as a kernel here names them: ND beside channel blocks is NCHW, and a profiler writes C0 = 16 of fp32 as :1."""
    found = {side: labels[side].upper().split(":")[0] for side in ("format_in", "format_out") if side in labels}
    blocked = {"NC1HWC0", "FRACTAL_Z"} & set(found.values())
    return {side: "NCHW" if name == "ND" and blocked else name for side, name in found.items()}


def _other_formats(op_type: str, labels: Mapping[str, str]) -> str:
    """Why a TransData between two formats of the vendor's is skipped, "" for what is simulated or no format at all."""
    formats = [labels.get(side, "") for side in ("format_in", "format_out")]
    if op_type != "TransData" or not set(formats) <= set(FORMATS) or sorted(formats) in _TURNS:
        return ""
    return f"TransData {formats[0]} -> {formats[1]} is not simulated"


def unknown_operator(op_type: str) -> str:
    """Why a row of an operator without a kernel here is skipped."""
    return f"no kernel of {op_type or 'an empty op_type'} here"


def _require_sizes(where: str, op_type: str, sizes: Mapping[str, int], labels: Mapping[str, str]) -> None:
    needed = list(SIZES[op_type])
    if op_type == "TransData":
        formats = {labels.get("format_in", ""), labels.get("format_out", "")}
        if formats == {"NCHW", "NC1HWC0"}:
            needed = list(_FEATURE)
        elif formats == {"NCHW", "FRACTAL_Z"}:
            needed = list(_FILTER)
        else:
            raise ConfigError(
                f"{where}: format_in, format_out: '{labels.get('format_in', '')} -> {labels.get('format_out', '')}' given; "
                "allowed for TransData: NCHW on one side, NC1HWC0 or FRACTAL_Z on the other"
            )
    missing = [name for name in needed if name not in sizes]
    if missing:
        raise ConfigError(f"{where}: {', '.join(missing)} missing; {op_type} needs {', '.join(needed)}")
    if op_type in MICROBENCHMARKS:
        _require_quantity(where, op_type, labels)
    if op_type == "Cast" and not labels.get("dtype_out"):
        raise ConfigError(f"{where}: dtype_out missing; Cast needs N, dtype and dtype_out")
    if op_type in GRADIENTS:
        for axis in "hw":
            reach = sizes[f"{'H' if axis == 'h' else 'W'}i"] + sizes[f"pad_{axis}_total"] - sizes[f"k{axis}"]
            follows = reach // sizes[f"stride_{axis}"] + 1
            given = sizes["Ho" if axis == "h" else "Wo"]
            if given != follows:
                raise ConfigError(
                    f"{where}: {axis.upper()}o: {given} given; input, kernel, stride and padding give {follows}"
                )


QUANTITIES = {"DataCopyStream": ("mte2", "core"), "DataCopy": ("transfer",), "VectorAdd": ("task",)}
"""What `duration_us` of a small program is the time of."""


def _require_quantity(where: str, op_type: str, labels: Mapping[str, str]) -> None:
    allowed = QUANTITIES[op_type]
    if labels.get("quantity", allowed[0]) not in allowed:
        raise ConfigError(
            f"{where}: quantity: {labels['quantity']!r} given; allowed for {op_type}: {', '.join(allowed)}"
        )
    if op_type != "VectorAdd" and not labels.get("path"):
        raise ConfigError(f"{where}: path missing; {op_type} needs one")


def _whole(where: str, name: str, text: str, zero: bool) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= (0 if zero else 1) and value == int(value)):
        raise ConfigError(f"{where}: {name}: {text!r} given; must be a whole number from {0 if zero else 1}")
    return int(value)


def _time(where: str, text: Mapping[str, str], name: str) -> float | None:
    if not text.get(name):
        return None
    try:
        value = float(text[name])
    except ValueError:
        value = math.nan
    if not (0 <= value < math.inf):
        raise ConfigError(f"{where}: {name}: {text[name]!r} given; must be a number from 0")
    return value


def compare(
    rows: Iterable[Row], *, jobs: int = 1, progress: Progress | None = None, long: bool = True
) -> list[Comparison]:
    """Every row with its prediction, in order; equal kernels run once, `jobs` processes share the distinct ones.

    Without `long` rows that take minutes are skipped.
    """
    rows = [row if long or not row.kernel.is_long else replace(row, unlike=_TOO_LONG) for row in rows]
    kernels = list(dict.fromkeys(as_timed(row.kernel) for row in rows if not row.unlike))
    # Long ones first, so that none is left over at the end.
    ordered = sorted(kernels, key=lambda kernel: -math.prod(size for _, size in kernel.sizes))
    found = dict(zip(ordered, spread(simulate, ordered, jobs=jobs, name="rows", progress=progress), strict=True))
    return [
        Comparison(row, Prediction(skipped=row.unlike) if row.unlike else found[as_timed(row.kernel)]) for row in rows
    ]


def as_timed(kernel: Kernel) -> Kernel:
    """A kernel that takes the same time: no cost depends on values, and a product in bf16 is one in fp16 at the same rate."""
    rates = load_chip(kernel.chip).cube.rates
    same = kernel.op_type in MATMULS and kernel.dtype == "bf16" and rates.get("bfloat16") == rates.get("float16")
    if not same or kernel.label("dtype_out") not in ("", "bf16"):
        return kernel
    labels = tuple((name, "fp16" if name == "dtype_out" else value) for name, value in kernel.labels)
    return replace(kernel, dtype="fp16", labels=labels, op_type="MatMul")


_TOO_LONG = "takes minutes; --long runs it"


def simulate(kernel: Kernel) -> Prediction:
    """One launch on a fresh device; what the simulator refuses is told in `skipped`.

    The L2 begins in the kernel's state, see L2_STATES.
    """
    try:
        chip = load_chip(kernel.chip)
        if kernel.op_type in ("DataCopyStream", "DataCopy"):
            return Prediction(_copy_us(kernel, chip))
        device = Device(chip, with_values=False)
        task, inputs = _launch(kernel, chip, device)
        if kernel.l2 == "stale":
            device.l2.soil()
        for tensor in task.tensors:
            if kernel.l2 != "cold" and (tensor in inputs) == (kernel.l2 == "warm"):
                device.warm(tensor)
        timeline = Engine(device).run([task])
        figures = Report.build(chip, timeline, [task], mode="timing", l2=kernel.l2).kernels[0]
    except SimError as error:
        return Prediction(skipped=str(error))
    pipes = {pipe: figures["pipes_us"][ours] for pipe, ours in PIPES.items()}
    return Prediction(figures["task_us"], figures["core_us"], pipes)


def stream_of(kernel: Kernel) -> Stream:
    """The stream of a row."""
    return Stream(
        STREAMS[kernel.label("path")], (kernel["tile_m"], kernel["tile_n"]), kernel["M"], kernel["N"],
        splits=kernel.get("splits", 1), repeats=kernel.get("repeats", 1),
    )  # fmt: skip


def _copy_us(kernel: Kernel, chip: ChipSpec) -> float:
    """Time in us of a stream, as its source counts it, or of one transfer."""
    path = kernel.label("path")
    if kernel.op_type == "DataCopy":
        return chip.us(transfer_cycles(chip, path, kernel["nbytes"]))
    if path not in STREAMS:
        raise SimError(f"path {path!r}: allowed for DataCopyStream: {', '.join(STREAMS)}")
    stream = stream_of(kernel)
    cores = stream.cores(chip)
    if kernel["block_dim"] != cores:
        raise SimError(
            f"block_dim {kernel['block_dim']}: a stream is read by all {cores} {stream.core_kind} of {chip.name}"
        )
    if kernel.label("quantity") == "core":
        return measure(chip, stream).core_us
    return stream.useful_bytes / measure(chip, stream.shortened(cores)).by_mte2 / 1e6


def _launch(kernel: Kernel, chip: ChipSpec, device: Device) -> tuple[Task, list[Allocation]]:
    """The task of a row, and its inputs."""
    if kernel.op_type in GRADIENTS:
        return _cube_launch(kernel, chip, device)
    if kernel.op_type in MATMULS:
        return _matmul_launch(kernel, chip, device)
    if kernel.op_type == "VectorAdd":
        add = VectorAdd(
            kernel["M"] * kernel["N"], kernel["tile_n"], kernel["block_dim"], kernel.get("buffers", 1),
            bool(kernel.get("bypass", 0)),
        )  # fmt: skip
        return add.task(chip, device), []
    for dtype in filter(None, (kernel.dtype, kernel.label("dtype_out"))):
        try:
            canonical(dtype)
        except SimError:
            raise SimError(f"{kernel.op_type} of {dtype} is not simulated") from None
    itemsize = int(numpy_dtype(canonical(kernel.dtype)).itemsize)
    target_itemsize = itemsize
    if kernel.op_type == "MemSet":
        nbytes = _filter_elements(kernel, BLOCK_BYTES // itemsize) * itemsize
        return mem_set_task(chip, device.allocate(nbytes, "output"), nbytes, dtype=canonical(kernel.dtype)), []
    if kernel.op_type == "Cast":
        count, to_dtype = kernel["N"], canonical(kernel.label("dtype_out"))
        target_itemsize = int(numpy_dtype(to_dtype).itemsize)
        plain = blocked = count
        make: Any = partial(cast_task, count=count, from_dtype=canonical(kernel.dtype), to_dtype=to_dtype)
    elif kernel.op_type == "ReduceSum":
        n, c, hw = kernel["N"], kernel["Ci"], kernel["Hi"] * kernel["Wi"]
        plain, blocked = n * c * hw, c
        make = partial(reduce_sum_task, n=n, c=c, hw=hw, dtype=canonical(kernel.dtype))
    elif "FRACTAL_Z" in (kernel.label("format_in"), kernel.label("format_out")):
        co, ci, taps, c0 = kernel["Co"], kernel["Ci"], kernel["kh"] * kernel["kw"], kernel["C0"]
        plain, blocked = co * ci * taps, _filter_elements(kernel, c0)
        turn = filter_to_fractal_z_task if kernel.label("format_in") == "NCHW" else filter_from_fractal_z_task
        make = partial(turn, shape=FilterShape(co, ci, 1, taps, 1), layout=BlockLayout.of(itemsize, c0))
    else:
        n, c, hw, c0 = kernel["N"], kernel["Ci"], kernel["Hi"] * kernel["Wi"], kernel["C0"]
        plain, blocked = n * c * hw, n * -(-c // c0) * c0 * hw
        move = feature_to_c0_task if kernel.label("format_in") == "NCHW" else feature_from_c0_task
        make = partial(move, shape=FeatureShape(n, c, 1, hw), layout=BlockLayout.of(itemsize, c0))
    if kernel.op_type == "TransData" and kernel.label("format_in") != "NCHW":
        plain, blocked = blocked, plain
    source = device.allocate(plain * itemsize, "input")
    return make(chip, source, device.allocate(blocked * target_itemsize, "output")), [source]


def _filter_elements(kernel: Kernel, c0: int) -> int:
    """Elements of a filter in FRACTAL_Z."""
    return -(-kernel["Ci"] // c0) * c0 * kernel["kh"] * kernel["kw"] * -(-kernel["Co"] // FRACTAL) * FRACTAL


def _matmul_launch(kernel: Kernel, chip: ChipSpec, device: Device) -> tuple[Task, list[Allocation]]:
    """The product of a row, with its blocks and what else it says of the tiling."""
    if kernel.dtype not in _CUBE_DTYPES:
        raise SimError(f"dtype {kernel.dtype!r}: allowed for {kernel.op_type}: {', '.join(_CUBE_DTYPES)}")
    batch = kernel.get("batch", 1)
    dtype = canonical(kernel.dtype)
    problem = MatMulProblem(
        kernel["M"], kernel["N"], kernel["K"], dtype, canonical(kernel.label("dtype_out") or _CUBE_DTYPES[kernel.dtype][0]),
        batch, bool(kernel.get("trans_a", 0)), bool(kernel.get("trans_b", 0)), batch > 1,
    )  # fmt: skip
    given = dict(kernel.sizes)
    fields = {field: given[column] for column, field in _MATMUL_TILING.items() if column in given}
    tiling = choose_matmul(problem, chip, fields)
    tensors = [device.allocate(size, name) for size, name in zip(problem.sizes, "abc", strict=True)]
    return matmul_task(chip, problem, tiling, tensors), tensors[:2]


def _cube_launch(kernel: Kernel, chip: ChipSpec, device: Device) -> tuple[Task, list[Allocation]]:
    """The cube kernel of a convolution backward that wants this gradient alone, with the row's blocks."""
    if kernel.dtype not in _CUBE_DTYPES:
        raise SimError(f"dtype {kernel.dtype!r}: allowed for {kernel.op_type}: {', '.join(_CUBE_DTYPES)}")
    dtype, cube_math_type = _CUBE_DTYPES[kernel.dtype]
    gradient = GRADIENTS[kernel.op_type]
    size = dict(kernel.sizes)
    totals = (size["pad_h_total"], size["pad_w_total"])
    even = not any(total % 2 for total in totals)
    padding = [t // 2 for t in totals] if even else [part for t in totals for part in (t // 2, t - t // 2)]
    shapes = {
        "grad_output": (size["N"], size["Co"], size["Ho"], size["Wo"]),
        "input": (size["N"], size["Ci"], size["Hi"], size["Wi"]),
        "weight": (size["Co"], size["Ci"], size["kh"], size["kw"]),
    }
    tensors = {name: TensorArg(shape, dtype, "NCHW") for name, shape in shapes.items()}
    call = ConvBackwardCall(
        **tensors, bias_sizes=(size["Co"],), stride=(size["stride_h"], size["stride_w"]), padding=tuple(padding),
        dilation=(1, 1), transposed=False, output_padding=(0, 0), groups=1,
        output_mask=(gradient == "grad_input", gradient == "grad_weight", False), cube_math_type=cube_math_type,
        grad_input=tensors["input"], grad_weight=tensors["weight"], grad_bias=None,
    )  # fmt: skip
    accepted = accept(
        call, chip, conformance="documented", deterministic=False, block_dim={gradient: size["block_dim"]}
    )
    if accepted.compute_dtype != canonical(kernel.dtype):
        raise SimError(f"{chip.name} computes {kernel.dtype} convolutions in {accepted.compute_dtype}")
    plan = make_plan(accepted, chip)
    step = next((step for step in plan.steps if step.op_type == kernel.op_type), None)
    if step is None:
        launched = ", ".join(step.op_type for step in plan.steps)
        raise SimError(f"{chip.name} has no {kernel.op_type} for this problem; it launches {launched}")
    allocations = {name: device.allocate(plan.tensors[name].size, name) for name in step.tensors}
    return step.make(chip, allocations), [allocations[name] for name in step.inputs]
