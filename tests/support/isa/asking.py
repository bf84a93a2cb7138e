"""How public methods of a kernel ask for a field of an instruction's word, by hand, from what the vendor's pages say of it.

An asker takes a kernel, where the bytes go and the values of the fields, in their units; fields that are not asked for are at
their least, as far as an instruction that does something can have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ascend_sim.chip.fractal import FRACTAL_BYTES
from ascend_sim.isa.l0c_to_l1 import FixpipeToL1
from ascend_sim.isa.transfer import DataCopyPadded
from ascend_sim.isa.vector import VectorBinary, VectorUnary
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import ChannelMatrices, ColumnRuns, CopyLoop, MapWindow, Span, TilePiece

Values = Mapping[str, int]
Asker = Callable[[KernelBuilder, Values], object]

BLOCK = 32


def filled(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def blocks(source: str, destination: str) -> tuple[Asker, dict[str, int]]:
    """DataCopy: rows, length and gaps in blocks."""

    def ask(k: KernelBuilder, v: Values) -> None:
        size, source_gap, gap = (v[name] * BLOCK for name in ("len_burst", "src_gap", "dst_gap"))
        k.data_copy(source, destination, 0, 0, size, v["n_burst"], size + source_gap, size + gap)

    return ask, {"n_burst": 2, "len_burst": 1, "src_gap": 0, "dst_gap": 0}


def copied() -> tuple[Asker, dict[str, int]]:
    """A copy in UB: rows, length and gaps in blocks of 16 float16."""

    def ask(k: KernelBuilder, v: Values) -> None:
        size, source_gap, gap = (v[name] * BLOCK for name in ("len_burst", "src_gap", "dst_gap"))
        shape = (v["n_burst"], size // 2)
        dst, src = (LocalTensor(0, shape, "float16", size + one) for one in (gap, source_gap))
        k.copy(dst, src)

    return ask, {"n_burst": 2, "len_burst": 1, "src_gap": 1, "dst_gap": 1}


def pad(source: str, destination: str) -> tuple[Asker, dict[str, int]]:
    """DataCopyPad: length and the gap in GM in bytes, the local gap in blocks behind a row that is filled up."""

    def ask(k: KernelBuilder, v: Values) -> None:
        size = v["len_burst"]
        far, near = size + v["gm_gap"], filled(size) + v["local_gap"] * BLOCK
        strides = (far, near) if source == "GM" else (near, far)
        k.data_copy(source, destination, 0, 0, size, v["n_burst"], *strides)

    return ask, {"n_burst": 2, "len_burst": 5, "gm_gap": 0, "local_gap": 0}


def pad_of_950(source: str, destination: str, compact: bool, looped: bool) -> tuple[Asker, dict[str, int]]:
    """DataCopyPad of the 950: strides from start to start; compact rows adjoin; a loop around."""

    def ask(k: KernelBuilder, v: Values) -> None:
        size, rows = v["len_burst"], v["n_burst"]
        near = v["local_stride"] if compact else v["local_stride"] * BLOCK
        far = v["gm_stride"]
        if compact:  # of rows that adjoin the stride is their length
            size = near = size if "len_burst" in asked_of(v) else near
        if not compact and near < filled(size):
            near = filled(size)
        order = (lambda a, b: (a, b)) if source == "GM" else (lambda a, b: (b, a))
        if not looped:
            k.data_copy(source, destination, 0, 0, size, rows, *order(far, near))
            return
        loop = order(v["loop1_gm"], v["loop1_local"] * BLOCK)
        k.data_copy_planes(source, destination, 0, 0, size, CopyLoop(rows, *order(far, near)), CopyLoop(v["loop1_size"], *loop))

    least = {"n_burst": 2, "len_burst": 5, "gm_stride": 5, "local_stride": 5 if compact else 1}
    return ask, least | ({"loop1_size": 2, "loop1_gm": 0, "loop1_local": 2} if looped else {})


def padded(by_stride: bool) -> tuple[Asker, dict[str, int]]:
    """DataCopyPad with a value: bytes before and behind each row."""

    def ask(k: KernelBuilder, v: Values) -> None:
        size, rows, pads = v["len_burst"], v["n_burst"], (v["left_pad"], v["right_pad"])
        held = filled(size + sum(pads))
        if by_stride:
            far, near = v["gm_stride"], v["local_stride"] * BLOCK if "local_stride" in asked_of(v) else held
        else:
            far, near = size + v["gm_gap"], held + v["local_gap"] * BLOCK
        k._emit((DataCopyPadded, "GM", "UB", size, rows, far, near, "", "", *pads, 7, 1))

    least = {"n_burst": 2, "len_burst": 5, "left_pad": 0, "right_pad": 0}
    return ask, least | ({"gm_stride": 5, "local_stride": 1} if by_stride else {"gm_gap": 0, "local_gap": 0})


def nd2nz(by_bytes: bool) -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        stride = v["loop1_src_stride"] if by_bytes else v["src_d_value"] * 2
        padded = max(v["dst_nz_c0_stride"], v["n_value"] if "dst_nz_c0_stride" not in asked_of(v) else 0)
        k.data_copy_nd2nz(0, 0, v["n_value"], v["d_value"], 2, stride, padded)

    return ask, {"n_value": 2, "d_value": 2, "dst_nz_c0_stride": 2, "loop1_src_stride" if by_bytes else "src_d_value": 4}


def asked_of(values: Values) -> frozenset[str]:
    """The fields that are asked for (kept beside the values under "")."""
    return values.get("", frozenset())  # type: ignore[return-value]


def dn2nz() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        steps = (v[name] * BLOCK for name in ("dst_nz_n_stride", "dst_nz_c0_stride"))
        matrices = v["nd_num"], v["loop4_src_stride"], v["dst_nz_matrix_stride"] * BLOCK
        k.data_copy_dn2nz(0, 0, ChannelMatrices(v["d_value"], v["n_value"], 2, v["loop1_src_stride"], *steps, *matrices))

    return ask, {
        "nd_num": 2, "n_value": 2, "d_value": 17, "loop1_src_stride": 2, "loop4_src_stride": 2, "dst_nz_n_stride": 1,
        "dst_nz_c0_stride": 2, "dst_nz_matrix_stride": 4,
    }  # fmt: skip


def fill(destination: str, field: str, unit: int) -> tuple[Asker, dict[str, int]]:
    return lambda k, v: k.fill(destination, 0, v[field] * unit), {field: 1}


def fractals(with_gap: bool) -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        k.load_data_2d("L0A", 0, 0, 2, v["repeat"], v["src_stride"], bool(v["transpose"]), v.get("dst_gap", 0) + 1)

    return ask, {"repeat": 2, "src_stride": 1, "transpose": 0} | ({"dst_gap": 0} if with_gap else {})


def fractals_of_gm() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        steps = v["src_stride"] * FRACTAL_BYTES, (v["dst_gap"] + 1) * FRACTAL_BYTES
        k.data_copy("GM", "L0A", 0, 0, FRACTAL_BYTES, v["repeat"], *steps)

    return ask, {"repeat": 2, "src_stride": 1, "dst_gap": 0}


def squares() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        steps = v["src_stride"] * 2, True, v["dst_gap"] + 1, v["dst_frac_gap"] + 1
        k.load_data_2d("L0B", 0, 0, 1, v["repeat"], *steps)

    return ask, {"repeat": 2, "src_stride": 1, "dst_gap": 1, "dst_frac_gap": 0}


def steps() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        k.load_data_2d("L0A", 0, 0, 2, v["k_step"], v["src_stride"], bool(v["transpose"]), v["dst_stride"])

    return ask, {"k_step": 2, "src_stride": 1, "dst_stride": 1, "transpose": 0}


def img2col() -> tuple[Asker, dict[str, int]]:
    """Return an asker for a map of 2-byte items under a kernel, as wide as the fields allow."""

    def ask(k: KernelBuilder, v: Values) -> None:
        if {"k_start", "k_extension"} & asked_of(v):  # two taps, so that the channels are half as many
            v = {**v, "filter_w": 2}
        sizes = {}
        for axis, near, far in (("w", "left", "right"), ("h", "top", "bottom")):
            reach = v[f"dilation_{axis}"] * (v[f"filter_{axis}"] - 1) + 1
            size = max(v[f"fmatrix.l1_{axis}"], 1)
            pads = v[f"fmatrix.pad_{near}"], v[f"fmatrix.pad_{far}"]
            step = v[f"stride_{axis}"]
            size = max(size, reach - sum(pads)) + (step if step > 1 else 0)
            sizes[axis] = size, pads[0], (size + sum(pads) - reach) // max(step, 1) + 1
        (height, top, tall), (width, left, wide) = sizes["h"], sizes["w"]
        window = MapWindow(
            height, width, v["filter_h"], v["filter_w"], v["stride_h"], v["stride_w"], v["dilation_h"], v["dilation_w"],
            top, left, tall, wide,
        )  # fmt: skip
        start, length = v["k_start"], v["k_extension"]
        if "channel_size" in asked_of(v):
            start, length = v["channel_size"] - 16, 16
        k.load_data_3d("L0A", 0, 0, 2, window, Span(v["m_start"], v["m_extension"]), Span(start, length))

    taps = {f"{name}_{axis}": 1 for name in ("stride", "filter", "dilation") for axis in "wh"}
    pads = {f"fmatrix.pad_{side}": 0 for side in ("left", "right", "top", "bottom")}
    part = {"k_extension": 16, "m_extension": 16, "k_start": 0, "m_start": 0, "channel_size": 16}
    return ask, taps | pads | part | {"fmatrix.l1_w": 1, "fmatrix.l1_h": 1}


def img2col_runs() -> tuple[Asker, dict[str, int]]:
    """Return an asker for runs of columns of 4-byte items under a kernel of nine taps, to rows of fractals that lie apart."""

    def ask(k: KernelBuilder, v: Values) -> None:
        window = MapWindow(1, 1, 3, 3, pad_top=1, pad_left=1)
        columns = ColumnRuns(0, 8, v["repeat_time"], v["repeat_stride"], v["rpt_dst_stride"])
        k.load_data_3d("L0B", 0, 0, 4, window, Span(0, 8), columns)

    return ask, {"repeat_stride": 1, "repeat_time": 2, "rpt_dst_stride": 1}


def mad() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        bias = 0 if v.get("c_matrix_source") else -1
        single = "disable_gemv" in asked_of(v)  # only one row has the mode
        m, gemv = (1, not v["disable_gemv"]) if single else (v["m"], None)
        k.mmad(0, 0, 0, m, v["k"], v["n"], "float16", bias < 0 and not v["c_matrix_init_val"], gemv=gemv, bias=bias)

    return ask, {"m": 2, "k": 1, "n": 1, "c_matrix_init_val": 1, "c_matrix_source": 0, "disable_gemv": 0}


def drain_blocks() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        c0 = 8 if v["channel_split"] else 16
        unit = 1 if k.chip.identity.arch == "dav-3510" else BLOCK
        k.fixpipe(0, 0, v["m_size"], v["n_size"], v["src_stride"], "float32", c0, v["dst_stride"] * unit)

    return ask, {"n_size": 32, "m_size": 1, "src_stride": 16, "dst_stride": 64, "channel_split": 0}


def drain_to_l1() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        k._emit((FixpipeToL1, v["m_size"], v["n_size"], v["src_stride"], "float16", 16, v["dst_stride"] * BLOCK, False, None))

    return ask, {"n_size": 32, "m_size": 1, "src_stride": 16, "dst_stride": 64}


def drain_rows() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        k.fixpipe_nd(0, 0, v["m_size"], v["n_size"], v["src_stride"], "float16", v["dst_stride"] * 2)

    return ask, {"n_size": 1, "m_size": 2, "src_stride": 16, "dst_stride": 1}


def drain_piece(by_rows: bool) -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        strides = (v["dst_stride"] * 2, 2) if by_rows else (2, v["dst_stride"] * 2)
        k.fixpipe_dn(0, 0, TilePiece(v["m_size"], v["n_size"], v["src_stride"]), "float16", *strides)

    return ask, {"n_size": 2, "m_size": 2, "src_stride": 16, "dst_stride": 2}


def drain_fractals() -> tuple[Asker, dict[str, int]]:
    def ask(k: KernelBuilder, v: Values) -> None:
        rows, gap = v["len_burst"] * 16, v["src_gap"] * 16
        k.l0c_to_ub(0, 0, rows, v["n_burst"], rows + gap, "float16")

    return ask, {"n_burst": 2, "len_burst": 1, "src_gap": 0}


def vector_blocks(sources: int) -> tuple[Asker, dict[str, int]]:
    """Return an asker for one repeat of 8 blocks of float16 that lie apart."""
    names = ["dst_block_stride", *(f"src{number}_block_stride" for number in range(sources))]

    def ask(k: KernelBuilder, v: Values) -> None:
        kind, operation, second = (VectorBinary, "add", (0,)) if sources == 2 else (VectorUnary, "abs", ())
        steps = tuple(v[name] * BLOCK for name in names)
        k._emit((kind, operation, "float16", 128, 1, 0, 0, None, steps, *second))

    return ask, dict.fromkeys(names, 1)


ASKERS: dict[tuple[str, str], tuple[Asker, dict[str, int]]] = {
    ("copy_gm_to_ubuf", ""): blocks("GM", "UB"),
    ("copy_ubuf_to_gm", ""): blocks("UB", "GM"),
    ("copy_gm_to_cbuf", ""): blocks("GM", "L1"),
    ("copy_cbuf_to_gm", ""): blocks("L1", "GM"),
    ("copy_ubuf_to_cbuf", ""): blocks("UB", "L1"),
    ("copy_cbuf_to_ubuf", ""): blocks("L1", "UB"),
    ("copy_ubuf_to_ubuf", ""): copied(),
    ("copy_gm_to_ubuf_align", ""): pad("GM", "UB"),
    ("copy_ubuf_to_gm_align", ""): pad("UB", "GM"),
    ("copy_gm_to_ubuf_align (padded)", ""): padded(by_stride=False),
    ("copy_gm_to_ubuf_align_v2 (padded)", ""): padded(by_stride=True),
    **{
        (f"{name}_align_v2{words}", ""): pad_of_950(source, destination, "compact" in words, "loops" in words)
        for name, source, destination in (
            ("copy_gm_to_ubuf", "GM", "UB"), ("copy_ubuf_to_gm", "UB", "GM"), ("copy_gm_to_cbuf", "GM", "L1"),
        )
        for words in ("", " (compact)", " (loops)", " (loops, compact)")
    },
    ("copy_gm_to_cbuf_multi_nd2nz", "dav-2201"): nd2nz(by_bytes=False),
    ("copy_gm_to_cbuf_multi_nd2nz", "dav-3510"): nd2nz(by_bytes=True),
    ("copy_gm_to_cbuf_multi_dn2nz", ""): dn2nz(),
    ("create_cbuf_matrix", "dav-1001"): fill("L1", "repeat", 512),
    ("create_cbuf_matrix", "dav-2002"): fill("L1", "repeat", 512),
    ("create_cbuf_matrix", ""): fill("L1", "block_num", 32),
    ("create_ca_matrix, create_cb_matrix", ""): fill("L0A", "repeat", 512),
    ("load_cbuf_to_ca, load_cbuf_to_cb", "dav-1001"): fractals(with_gap=False),
    ("load_cbuf_to_ca, load_cbuf_to_cb", ""): fractals(with_gap=True),
    ("load_gm_to_ca, load_gm_to_cb", ""): fractals_of_gm(),
    ("load_cbuf_to_ca_transpose, load_cbuf_to_cb_transpose", ""): squares(),
    ("load_cbuf_to_ca, load_cbuf_to_cb (v2)", ""): steps(),
    ("img2colv2_cbuf_to_ca, img2colv2_cbuf_to_cb", ""): img2col(),
    ("img2col_cbuf_to_ca, img2col_cbuf_to_cb (v1)", ""): img2col(),
    ("img2colv2_cbuf_to_cb (runs of columns)", ""): img2col_runs(),
    ("mad", ""): mad(),
    ("copy_matrix_cc_to_gm (nz)", ""): drain_blocks(),
    ("copy_matrix_cc_to_cbuf", ""): drain_to_l1(),
    ("copy_matrix_cc_to_gm (nz2nd)", ""): drain_rows(),
    ("copy_matrix_cc_to_gm (nz2nd)", "piece"): drain_piece(by_rows=True),
    ("copy_matrix_cc_to_gm (nz2dn)", ""): drain_piece(by_rows=False),
    ("copy_matrix_cc_to_ubuf", ""): drain_fractals(),
    ("vector (dst, src)", ""): vector_blocks(1),
    ("vector (dst, src0, src1)", ""): vector_blocks(2),
}  # fmt: skip
"""By instruction and, where they differ, architecture."""
