"""Launches of measured rows: an entry of `LAUNCHES` for every operator that can be compared.

An entry has the columns of a kernel's size, their allowed values, and the task that they describe. A further operator is a
class here, and in `inferred_sizes` the inference of its sizes from a profiler's shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.numerics import canonical, numpy_dtype
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.ops.kernels.vector.cast import cast_work
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.mem_set import mem_set_work
from ascend_sim.ops.kernels.vector.reduce_sum import reduce_sum_work
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_feature import FeatureShape, feature_work
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape, filter_work
from ascend_sim.runtime import Device, Task
from ascend_sim.studies.validate.calls import ConvCall, FilterCall, ForwardConvolution, TransposedCall
from ascend_sim.studies.validate.conv_kernel import ConvGradient, ConvKernel
from ascend_sim.studies.validate.launch import MeasuredKernel, MeasuredLaunch, cube_dtype
from ascend_sim.studies.validate.microbench import STREAMS, MatrixStream, VectorAdd, measure, transfer_cycles

LONG = 2**38
"""Multiply-accumulates above which a row takes minutes: such rows run only when asked for."""

Launched = tuple[Task, list[Allocation]]


class MatMul(MeasuredLaunch):
    """Task builder for measured matrix products, with the number of blocks and the tiling fields that the row has."""

    columns = ("M", "N", "K")
    tiling: ClassVar = {"block_dim": "usedCoreNum"} | {
        name: name for name in ("baseM", "baseN", "baseK", "singleCoreM", "singleCoreN")
    }
    optional = ("batch", "trans_a", "trans_b", *tiling)
    helps: ClassVar = {"block_dim": ("block_dim",), "tiling": tuple(tiling)[1:]}

    def unlike(self, labels: Mapping[str, str], sizes: Mapping[str, int]) -> str:
        if labels.get("quantity") == "core":
            return "a time of the cores alone, below that of any launch"
        return "an operand in FRACTAL_NZ is not simulated" if labels.get("format_in") == "FRACTAL_NZ" else ""

    def is_long(self, kernel: MeasuredKernel) -> bool:
        return kernel.get("batch", 1) * kernel["M"] * kernel["N"] * kernel["K"] > LONG

    def as_timed(self, kernel: MeasuredKernel) -> MeasuredKernel:
        """Return the kernel as a MatMul of fp16 in place of bf16 where the chip's cube takes equal time for both; otherwise the
        kernel itself.

        A bf16 row with another output dtype is left as it is.
        """
        rates = load_chip(kernel.chip).cube.rates
        same = kernel.dtype == "bf16" and rates.get("bfloat16") == rates.get("float16")
        if not same or kernel.label("dtype_out") not in ("", "bf16"):
            return kernel
        labels = tuple((name, "fp16" if name == "dtype_out" else value) for name, value in kernel.labels)
        return replace(kernel, dtype="fp16", labels=labels, op_type="MatMul")

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        operands = cube_dtype(kernel)[0]
        batch, given = kernel.get("batch", 1), dict(kernel.sizes)
        dtypes = canonical(kernel.dtype), canonical(kernel.label("dtype_out") or operands)
        turned = bool(kernel.get("trans_a", 0)), bool(kernel.get("trans_b", 0))
        problem = MatMulProblem(kernel["M"], kernel["N"], kernel["K"], *dtypes, batch, *turned, batch > 1)
        fields = {field: given[column] for column, field in self.tiling.items() if column in given}
        tiling = choose_matmul(problem, chip, fields)
        tensors = [device.allocate(size, name) for size, name in zip(problem.sizes, "abc", strict=True)]
        return matmul_task(chip, problem, tiling, tensors), tensors[:2]


class FeatureTurn(MeasuredLaunch):
    """Task builder for a TransData of a feature map, NCHW on one side and NC1HWC0 on the other."""

    columns = ("N", "Ci", "Hi", "Wi", "C0")

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        n, c, hw, c0 = kernel["N"], kernel["Ci"], kernel["Hi"] * kernel["Wi"], kernel["C0"]
        itemsize, to_c0 = _itemsize(_dtypes(kernel)[0]), _to_blocks(kernel)
        work = feature_work(chip, FeatureShape(n, c, 1, hw), BlockLayout.of(itemsize, c0), to_c0)
        return _turned(kernel, chip, device, work, (n * c * hw * itemsize, n * -(-c // c0) * c0 * hw * itemsize))


class FilterTurn(MeasuredLaunch):
    """Task builder for a TransData of a filter, NCHW on one side and FRACTAL_Z on the other."""

    columns = ("Co", "Ci", "kh", "kw", "C0")

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        c_out, c_in, taps, c0 = kernel["Co"], kernel["Ci"], kernel["kh"] * kernel["kw"], kernel["C0"]
        itemsize, to_c0 = _itemsize(_dtypes(kernel)[0]), _to_blocks(kernel)
        work = filter_work(chip, FilterShape(c_out, c_in, 1, taps, 1), BlockLayout.of(itemsize, c0), to_c0)
        return _turned(kernel, chip, device, work, (c_out * c_in * taps * itemsize, _filter_elements(kernel, c0) * itemsize))


class TransData(MeasuredLaunch):
    """Task builder for layout conversions: of a feature map if one side is NC1HWC0, of a filter if it is FRACTAL_Z; the
    other side is NCHW.
    """

    turns: ClassVar[Mapping[str, MeasuredLaunch]] = {"NC1HWC0": FeatureTurn(), "FRACTAL_Z": FilterTurn()}
    optional = tuple(dict.fromkeys((*FeatureTurn.columns, *FilterTurn.columns)))
    formats = (
        "ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "NC1HWC0", "NDC1HWC0", "FRACTAL_Z", "FRACTAL_Z_3D", "FRACTAL_NZ",
    )  # fmt: skip
    """Formats of the vendor's that a TransData may have on either side."""

    def unlike(self, labels: Mapping[str, str], sizes: Mapping[str, int]) -> str:
        source, target = (labels.get(side, "") for side in ("format_in", "format_out"))
        if self._turn(source, target) or not {source, target} <= set(self.formats):
            return ""
        return f"TransData {source} -> {target} is not simulated"

    def check(self, kernel: MeasuredKernel) -> None:
        source, target = kernel.label("format_in"), kernel.label("format_out")
        turn = self._turn(source, target)
        if turn is None:
            raise ValueError(
                f"format_in, format_out: '{source} -> {target}' given; "
                "allowed for TransData: NCHW on one side, NC1HWC0 or FRACTAL_Z on the other"
            )
        turn.check(kernel)

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        source, target = kernel.label("format_in"), kernel.label("format_out")
        turn = self._turn(source, target)
        if turn is None:
            raise SimError(f"TransData {source} -> {target} is not simulated")
        return turn.task(kernel, chip, device)

    def _turn(self, source: str, target: str) -> MeasuredLaunch | None:
        blocked = target if source == "NCHW" else source
        return self.turns.get(blocked) if "NCHW" in (source, target) else None


class Cast(MeasuredLaunch):
    """Task builder for the conversion of `N` elements from `dtype` to `dtype_out`."""

    columns = ("N",)

    def check(self, kernel: MeasuredKernel) -> None:
        super().check(kernel)
        if not kernel.label("dtype_out"):
            raise ValueError("dtype_out missing; Cast needs N, dtype and dtype_out")

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        from_dtype, to_dtype = _dtypes(kernel)
        count = kernel["N"]
        source = device.allocate(count * _itemsize(from_dtype), "input")
        target = device.allocate(count * _itemsize(to_dtype), "output")
        work = cast_work(chip, count, from_dtype, to_dtype, "Cast")
        return work_task(chip, TaskWords("Cast", "Cast_input"), work, [source, target]), [source]


class ReduceSum(MeasuredLaunch):
    """Task builder for the sum of a tensor [N, Ci, Hi Wi] over N and Hi Wi."""

    columns = ("N", "Ci", "Hi", "Wi")

    def unlike(self, labels: Mapping[str, str], sizes: Mapping[str, int]) -> str:
        """Return the reason why a row is not simulated: its cores share a sum, as they do with fewer sums than cores; "" if
        not.

        Without a number of blocks a row of one sum counts as shared.
        """
        sums, cores = sizes.get("Ci", 0), sizes.get("block_dim", 0)
        if not sums or (cores or 2) <= sums:
            return ""
        left = f"{sums} {'sum' if sums == 1 else 'sums'}" + (f" on {cores} cores" if cores else "")
        return f"{left}: cores share the summed axes, which the kernel here does not model (a core has whole sums)"

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        dtype = _dtypes(kernel)[0]
        n, c, hw = kernel["N"], kernel["Ci"], kernel["Hi"] * kernel["Wi"]
        source = device.allocate(n * c * hw * _itemsize(dtype), "input")
        target = device.allocate(c * _itemsize(dtype), "output")
        work = reduce_sum_work(chip, (n, c, hw), dtype, "ReduceSum")
        return work_task(chip, TaskWords("ReduceSum", "ReduceSum_input"), work, [source, target]), [source]


class MemSet(MeasuredLaunch):
    """Task builder for the zero fill of a filter in FRACTAL_Z."""

    columns = ("Co", "Ci", "kh", "kw")

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        dtype = _dtypes(kernel)[0]
        itemsize = _itemsize(dtype)
        nbytes = _filter_elements(kernel, BLOCK_BYTES // itemsize) * itemsize
        work = mem_set_work(chip, nbytes, "MemSet", dtype=dtype)
        return work_task(chip, TaskWords("MemSet", "MemSet_output"), work, [device.allocate(nbytes, "output")]), []


class MicroBenchmark(MeasuredLaunch):
    """Base of the task builders for small programs of `microbench`. A row's `duration_us` is the time of the quantity in its
    column `quantity`, one of `quantities`; an empty column means the first of them.
    """

    quantities: ClassVar[tuple[str, ...]] = ()
    needs_path: ClassVar = True

    def check(self, kernel: MeasuredKernel) -> None:
        super().check(kernel)
        quantity = kernel.label("quantity")
        if quantity and quantity not in self.quantities:
            allowed = ", ".join(self.quantities)
            raise ValueError(f"quantity: {quantity!r} given; allowed for {kernel.op_type}: {allowed}")
        if self.needs_path and not kernel.label("path"):
            raise ValueError(f"path missing; {kernel.op_type} needs one")


class Add(MicroBenchmark):
    """Task builder for the vector add of M x N halves, launched like any kernel."""

    columns = ("M", "N", "tile_n", "block_dim")
    optional = ("buffers", "bypass")
    quantities = ("task",)
    needs_path = False

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        count, bypass = kernel["M"] * kernel["N"], bool(kernel.get("bypass", 0))
        add = VectorAdd(count, kernel["tile_n"], kernel["block_dim"], kernel.get("buffers", 1), bypass)
        return add.task(chip, device), []


class Timed(MicroBenchmark):
    """Base of predictions for small programs whose measured time is not that of a launch: `us` returns the time, `task` is not
    implemented.
    """

    def us(self, kernel: MeasuredKernel, chip: ChipSpec) -> float:
        """Return the predicted time in us of the measured row's work, as its source counts it. Subclasses implement it.

        Raises SimError for a row with values that are not allowed, and for a program that the chip cannot run.
        """
        raise NotImplementedError


class CopyStream(Timed):
    """Prediction for a stream in which all cores read one matrix from GM, tile by tile: time of MTE2, or of the cores for
    quantity "core".
    """

    columns = ("M", "N", "tile_m", "tile_n", "block_dim")
    optional = ("splits", "repeats")
    quantities = ("mte2", "core")

    def us(self, kernel: MeasuredKernel, chip: ChipSpec) -> float:
        path = kernel.label("path")
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


class Copy(Timed):
    """Prediction for one transfer of `nbytes` on an idle device."""

    columns = ("nbytes",)
    quantities = ("transfer",)

    def us(self, kernel: MeasuredKernel, chip: ChipSpec) -> float:
        return chip.us(transfer_cycles(chip, kernel.label("path"), kernel["nbytes"]))


LAUNCHES: Mapping[str, MeasuredLaunch] = {
    "Conv2DBackpropInput": ConvGradient("grad_input"),
    "Conv2DBackpropFilter": ConvGradient("grad_weight"),
    **dict.fromkeys(("Conv3DBackpropInput", "Conv3DBackpropInputV2"), ConvKernel("grad_input")),
    **dict.fromkeys(("Conv3DBackpropFilter", "Conv3DBackpropFilterV2"), ConvKernel("grad_weight")),
    **dict.fromkeys(("Conv2D", "Conv3D", "Conv3DV2"), ConvKernel()),
    "TransData": TransData(),
    "ReduceSum": ReduceSum(),
    "Cast": Cast(),
    "MemSet": MemSet(),
    **dict.fromkeys(("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul"), MatMul()),
    "npu_conv3d_backward": FilterCall(),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), ForwardConvolution()),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), TransposedCall()),
    "DataCopyStream": CopyStream(),
    "DataCopy": Copy(),
    "VectorAdd": Add(),
}
"""Operators that can be compared, by their names in a profiler's table."""

MATMULS = tuple(name for name, launch in LAUNCHES.items() if isinstance(launch, MatMul))
CALLS = tuple(name for name, launch in LAUNCHES.items() if isinstance(launch, ConvCall))
MICROBENCHMARKS = tuple(name for name, launch in LAUNCHES.items() if isinstance(launch, MicroBenchmark))
COLUMNS = tuple(dict.fromkeys(name for launch in LAUNCHES.values() for name in (*launch.columns, *launch.optional)))
"""Every column that holds a number of some kernel."""


def stream_of(kernel: MeasuredKernel) -> MatrixStream:
    """Return the matrix stream that a row of DataCopyStream describes."""
    return MatrixStream(
        STREAMS[kernel.label("path")],
        (kernel["tile_m"], kernel["tile_n"]),
        kernel["M"],
        kernel["N"],
        splits=kernel.get("splits", 1),
        repeats=kernel.get("repeats", 1),
    )


def _dtypes(kernel: MeasuredKernel) -> tuple[str, str]:
    """Return (dtype read, dtype written) of a row's vector kernel by their canonical names.

    Raises SimError for an unknown one.
    """
    found = []
    for dtype in (kernel.dtype, kernel.label("dtype_out") or kernel.dtype):
        try:
            found.append(canonical(dtype))
        except SimError:
            raise SimError(f"{kernel.op_type} of {dtype} is not simulated") from None
    return found[0], found[1]


def _itemsize(dtype: str) -> int:
    return int(numpy_dtype(dtype).itemsize)


def _to_blocks(kernel: MeasuredKernel) -> bool:
    return kernel.label("format_in") == "NCHW"


def _turned(kernel: MeasuredKernel, chip: ChipSpec, device: Device, work: Any, sizes: tuple[int, int]) -> Launched:
    """Return the task of a layout conversion, with its KernelWork `work`, and its input; the measured formats give the
    direction.

    `sizes` are the bytes of its plain and of its blocked tensor.
    """
    to_c0 = _to_blocks(kernel)
    source, target = (device.allocate(sizes[side], name) for side, name in ((not to_c0, "input"), (to_c0, "output")))
    words = TaskWords("TransData", f"TransData_{(source if to_c0 else target).name}")
    return work_task(chip, words, work, [source, target]), [source]


def _filter_elements(kernel: MeasuredKernel, c0: int) -> int:
    """Return the number of elements of a row's filter in FRACTAL_Z, padded to whole C0 and whole fractals."""
    return -(-kernel["Ci"] // c0) * c0 * kernel["kh"] * kernel["kw"] * -(-kernel["Co"] // FRACTAL) * FRACTAL
