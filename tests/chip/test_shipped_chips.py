"""The shipped chips against the vendor's platform files and published or measured figures."""

from __future__ import annotations

import json
import math
import re
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from ascend_sim.chip import ChipSpec, chip_names, load_chip
from ascend_sim.chip.files import merge, read_layers
from ascend_sim.errors import ConfigError, SimError

INI = json.loads((Path(__file__).parents[1] / "data" / "chips_ini.json").read_text(encoding="utf-8"))["socs"]
CLOCK_NOT_FROM_INI = {"ascend910b4": 1650, "ascend910b4-1": 1650}
NO_INI = "ascend950pr_9599"  # no platform file of it is public
CHIPS = [*(soc.lower() for soc in INI), NO_INI]

# Cube peaks in TFLOPS, published or arithmetic on the ini; the 910B4 at its measured 1650 MHz.
PEAKS = {
    **dict.fromkeys(("910b1", "910_9391", "910_9392"), {"float16": 363.7, "hf32": 181.9, "float32": 90.9}),
    **dict.fromkeys(("910b2", "910b2c", "910_9381", "910_9382"), {"float16": 353.9, "hf32": 176.9, "float32": 88.5}),
    **dict.fromkeys(("910b3", "910_9372"), {"float16": 294.9, "hf32": 147.5, "float32": 73.7}),
    **dict.fromkeys(("910b4", "910b4-1"), {"float16": 270.3, "hf32": 135.2, "float32": 67.6}),
    "910_9362": {"float16": 245.8, "hf32": 122.9, "float32": 61.4},
    "910a": {"float16": 262.1, "int8": 524.3},
    "910proa": {"float16": 288.4},
    "910premiuma": {"float16": 319.8},
    "910b": {"float16": 221.2},
    "910prob": {"float16": 282.6},
    "310p1": {"float16": 86.8, "int8": 173.7},
    "310p3": {"float16": 69.5, "int8": 138.9},
    "310p5": {"float16": 52.4, "int8": 104.9},
    "310p7": {"float16": 36.0, "int8": 72.1},
    **dict.fromkeys(
        ("910_95", "950pr_9589", "950dt_9581", "950dt_9582"),
        {"float16": 432.5, "hifloat8": 865.1, "float8_e5m2": 865.1, "mxfp4": 1730.2, "hf32": 216.3, "float32": 27.0},
    ),
    **dict.fromkeys(
        ("950pr_9579", "950dt_9572"),
        {"float16": 378.5, "float8_e4m3fn": 756.9, "mxfp4": 1513.9, "hf32": 189.2, "float32": 23.7},
    ),
    "950pr_9599": {"float16": 530.8, "mxfp8": 1061.7, "mxfp4": 2123.4},
}

# Memory bandwidth in GB/s: ini ddr_rate x cores x clock (310P: with its vector-only cores), or what is preferred to it.
BANDWIDTHS = {
    "910a": 1024, "910proa": 1126, "910premiuma": 1249, "910prob": 1104,
    "910b": 1020,  # measured streams; the ini's product is 864
    "310p1": 252, "310p3": 207, "310p5": 172, "310p7": 138,
    "910_95": 1637, "950pr_9589": 1637, "950pr_9579": 1432, "950pr_9599": 1637,
    "950dt_9581": 4224, "950dt_9582": 3221, "950dt_9572": 3696,
    "910b1": 1800, "910b2": 1750, "910b3": 1750, "910b4": 800, "910b4-1": 800,  # the profiler's chip figures
}  # fmt: skip


@pytest.fixture
def b1() -> ChipSpec:
    return load_chip("ascend910b1")


def test_the_names_are_the_socs_of_the_platform_files() -> None:
    assert len(CHIPS) == 28
    assert chip_names() == sorted(CHIPS)


@pytest.mark.parametrize("soc", INI)
def test_sizes_agree_with_the_platform_file(soc: str) -> None:
    ini, chip = INI[soc], load_chip(soc)
    assert (chip.identity.soc, chip.identity.short_soc) == (soc, ini["Short_SoC_version"])
    cores = ini["cube_core_cnt"] if "cube_core_cnt" in ini else ini["ai_core_cnt"]
    assert (chip.cores.aic, chip.cores.aiv) == (cores, ini["vector_core_cnt"])
    assert chip.cores.coupled == ("cube_core_cnt" not in ini)
    assert chip.clock.cube_mhz == CLOCK_NOT_FROM_INI.get(chip.name, ini["cube_freq"])
    assert chip.memory.l2_bytes == ini["l2_size"]
    assert chip.memory.l2_write_bytes_per_cycle_per_aic == ini["l2_write_rate"]
    keys = {"L1": "l1", "L0A": "l0_a", "L0B": "l0_b", "L0C": "l0_c", "UB": "ub", "BT": "bt", "FB": "fb0"}
    assert chip.buffers == {buffer: ini[f"{key}_size"] for buffer, key in keys.items() if f"{key}_size" in ini}
    assert (chip.cube.m0, chip.cube.n0) == (ini["cube_m_size"], ini["cube_n_size"])
    assert chip.alignment.block == ini["ubblock_size"]
    k0 = {"float16": "Default", "int8": "DT_INT8", "int4": "DT_INT4", "float8_e4m3fn": "DT_FLOAT8_E4M3FN"}
    k0["float32"] = k0["hf32"] = "DT_FLOAT"
    for dtype, key in k0.items():
        if dtype in chip.cube.rates and key in ini["DtypeMKN_k"]:
            assert chip.cube.rates[dtype].k0 == ini["DtypeMKN_k"][key]  # type: ignore[index]


@pytest.mark.parametrize("soc", INI)
def test_ub_banks_agree_with_the_platform_file(soc: str) -> None:
    banks, ini = load_chip(soc).vector.banks, INI[soc]
    parts = 4 if "950" in soc or soc.endswith("_95") else 1  # there the ini's size is that of a quarter of a bank
    assert (banks.groups, banks.bytes) == (ini["ubbank_group_num"], parts * ini["ubbank_size"])
    physical = 262144 if ini["ub_size"] == 253952 else ini["ub_size"]  # 8 KB of the 950's 256 are not the kernel's
    assert banks.groups * banks.per_group * banks.bytes == physical


@pytest.mark.parametrize("soc", [soc for soc, ini in INI.items() if "l1_to_ub_rate" in ini])
def test_rates_of_the_platform_file(soc: str) -> None:
    """The local rates, with what is preferred where the documents contradict: half of L1->L0 (and of UB->L1 on 310P)."""
    ini, chip = INI[soc], load_chip(soc)
    halved = 2 if chip.cores.coupled else 1
    expected = {
        "L1->UB": ini["l1_to_ub_rate"],
        "L0C->UB": ini["l0_c_to_ub_rate"],
        "UB->L1": ini["ub_to_l1_rate"] / (2 if chip.identity.arch == "dav-2002" else 1),
        "L1->L0A": ini["l1_to_l0_a_rate"] / halved,
        "L1->L0B": ini["l1_to_l0_b_rate"] / halved,
    }
    if chip.cores.coupled:
        expected |= {"GM->L1": ini["l2_read_rate"], "GM->UB": ini["l2_read_rate"], "UB->GM": ini["ub_to_l2_rate"]}
        assert chip.memory.l2_read_bytes_per_cycle_per_aic == ini["l2_read_rate"]
    assert {key: chip.paths[key].bytes_per_cycle for key in expected} == expected


@pytest.mark.parametrize("soc", [soc for soc, ini in INI.items() if ini["Short_SoC_version"] == "Ascend310P"])
def test_the_vector_only_cores_of_310p_have_a_clock_and_ports_of_their_own(soc: str) -> None:
    ini, chip = INI[soc], load_chip(soc)
    assert chip.clock.vector_mhz == ini["vec_freq"]
    assert chip.cores.kinds["AIV"].buffers == ("UB",)
    for path, key in (("GM->UB:aiv", "vec_l2_read_rate"), ("UB->GM:aiv", "vec_ub_to_l2_rate")):
        hertz = chip.paths[path].bytes_per_cycle * chip.clock.cube_mhz
        assert hertz == pytest.approx(ini[key] * ini["vec_freq"], rel=0.001)


@pytest.mark.parametrize("soc", INI)
def test_memory_size_agrees_or_is_marked_assumed(soc: str) -> None:
    chip, given = load_chip(soc), INI[soc]["memory_size"]
    if given is None:
        assert chip.sources["memory.hbm_bytes"].mark == "assumed"
    else:
        assert chip.memory.hbm_bytes == given


def test_what_no_source_says_of_the_9599_is_marked_assumed() -> None:
    chip, like = load_chip(NO_INI), load_chip("ascend950pr_9589")
    assert (chip.cores.aic, chip.cores.aiv, chip.clock.cube_mhz, chip.buffers["UB"]) == (36, 72, 1800, 245760)
    assert chip.memory == like.memory
    for field in ("hbm_bytes", "hbm_gb_per_s", "l2_bytes"):
        assert chip.sources[f"memory.{field}"].mark == "assumed"


@pytest.mark.parametrize("name", CHIPS)
def test_peaks_of_the_cube(name: str) -> None:
    chip, peaks = load_chip(name), PEAKS[name.removeprefix("ascend")]
    assert {dtype: chip.peak_tflops(dtype) for dtype in peaks} == pytest.approx(peaks, abs=0.051)


@pytest.mark.parametrize(("name", "gb_per_s"), BANDWIDTHS.items())
def test_memory_bandwidth(name: str, gb_per_s: float) -> None:
    assert load_chip(f"ascend{name}").memory.hbm_gb_per_s == pytest.approx(gb_per_s, abs=0.51)


@pytest.mark.parametrize(
    ("arch", "dtypes"),
    [
        ("dav-1001", "float16 int8"),
        ("dav-2002", "float16 int8 int4"),
        ("dav-2201", "float16 bfloat16 float32 hf32 int8 int4"),
        ("dav-3510", "float16 bfloat16 float32 hf32 int8 hifloat8 float8_e4m3fn float8_e5m2 mxfp8 mxfp4"),
    ],
)
def test_what_the_cube_takes(arch: str, dtypes: str) -> None:
    """asc-devkit Mmad and Cube pages; the ini's Intrinsic_mmad for the coupled chips."""
    for chip in of_arch(arch):
        assert sorted(chip.cube.rates) == sorted(dtypes.split())
        assert chip.cube.hf32_mantissa_bits == {"dav-2201": 11, "dav-3510": 10}.get(arch)


def test_the_product_is_one_that_the_operator_documents_know() -> None:
    for operator in ("convolution_backward", "conv_tbc_backward"):
        text = (
            resources.files("ascend_sim.configs").joinpath("operators", f"{operator}.yaml").read_text(encoding="utf-8")
        )
        known = yaml.safe_load(text)["products"]
        assert {load_chip(name).identity.product for name in CHIPS} == set(known)


@pytest.mark.parametrize("name", chip_names())
def test_every_number_of_the_model_has_a_unit_and_a_source(name: str) -> None:
    chip = load_chip(name)

    def numbers(node: object, at: str) -> list[str]:
        if isinstance(node, dict):
            return [leaf for key, child in node.items() for leaf in numbers(child, f"{at}.{key}")]
        return [at[1:]] if isinstance(node, int | float) else []

    found = [place for place in numbers(chip.model_dump(), "") if place != "cores.coupled"]
    assert sorted(found) == sorted(chip.sources)
    assert all(source.unit and source.text for source in chip.sources.values())


@pytest.mark.parametrize("name", chip_names())
def test_sources_name_their_soc(name: str) -> None:
    chip = load_chip(name)
    if name == NO_INI:
        assert "36-core 950PR_9599" in chip.sources["cores.aic"].text
        return
    file = INI[chip.identity.soc].get("file", f"platform_config/{chip.identity.soc}.ini")
    places = ["cores.aic", "clock.cube_mhz"]
    places += [] if chip.identity.arch == "dav-1001" else ["cores.aiv"]
    places += ["memory.l2_bytes"] if chip.identity.arch == "dav-2201" else ["memory.hbm_gb_per_s"]
    for place in places:
        assert file in chip.sources[place].text


def test_chip_wide_bandwidth_rows(b1: ChipSpec) -> None:
    """Measured on 24 AIC / 48 AIV at 1850 MHz (asc-devkit data_copy): 1.490 TB/s from HBM, 6.02 TB/s from L2."""
    hertz = b1.clock.cube_mhz * 1e6
    assert b1.hbm_bytes_per_cycle() * hertz == pytest.approx(1.490e12, rel=0.005)
    assert b1.l2_read_bytes_per_cycle() * hertz == pytest.approx(6.02e12, rel=0.001)
    assert b1.path("GM", "L1", "nd2nz").bytes_per_cycle * b1.cores.aic * hertz == pytest.approx(5.04e12, rel=0.001)


@pytest.mark.parametrize(
    ("soc", "key", "gib_per_s"),
    [
        ("910b1", "GM->L1", 264), ("910b1", "GM->UB", 220.06), ("910b1", "UB->GM", 186.8),
        ("910b1", "L1->GM", 199.43), ("910b1", "L0C->GM", 209.32),
        ("910b3", "GM->L1", 256.86), ("910b3", "L0C->GM", 203.66),
        ("910b4", "GM->L1", 222), ("910b4", "GM->UB", 195.27), ("910b4", "UB->GM", 176.75),
        ("910b4", "L1->GM", 189.89), ("910b4", "L0C->GM", 190.7),
    ],
)  # fmt: skip
def test_path_peaks_of_the_profiler(soc: str, key: str, gib_per_s: float) -> None:
    chip = load_chip(f"ascend{soc}")
    peak = chip.paths[key].bytes_per_cycle * chip.clock.cube_mhz * 1e6 / 2**30
    assert peak == pytest.approx(gib_per_s, rel=0.001)


@pytest.mark.parametrize(("key", "low", "high"), [("GM->L1", 171, 174), ("GM->UB", 216.5, 235.3), ("L0C->GM", 80, 92)])
def test_isolated_transfers_of_1_kb(b1: ChipSpec, key: str, low: float, high: float) -> None:
    """MindStudio msKPP curves: one transfer at a time, L2 hits."""
    path = b1.paths[key]
    own = b1.fixpipe.head + b1.fixpipe.latency if key == "L0C->GM" and b1.fixpipe else 0
    assert low <= own + path.head + math.ceil(1024 / path.bytes_per_cycle) + path.latency <= high


def test_a_128_byte_row_in_a_stream(b1: ChipSpec) -> None:
    """Measured 20.6 cycles per GM->UB instruction; the row touches one line."""
    path = b1.path("GM", "UB")
    assert path.head + math.ceil(b1.memory.l2_line_bytes / path.bytes_per_cycle) == math.ceil(20.6)


@pytest.mark.parametrize(("n", "measured"), [(208, 36), (2048, 151)])
def test_isolated_mmad(b1: ChipSpec, n: int, measured: int) -> None:
    """MindStudio msKPP on a 910B3: a single fp16 Mmad 16 x 16 x n."""
    assert b1.cube.head_first + n // 16 + b1.cube.latency == measured


def test_the_8192_gemm_step(b1: ChipSpec) -> None:
    """Per 128 x 256 x 64 Mmad: 522 cycles of cube; 430 of MTE1 in one load3d of 16 KB and four load2d of 8 KB."""
    assert b1.cube.head_stream + 128 * 256 * 64 // b1.cube.macs_per_cycle("float16") == 522
    load3d = b1.load3d.head + (16 << 10) / b1.load3d.rate("L0A", 1, 2)
    load2d = b1.path("L1", "L0B").head + (8 << 10) / b1.path("L1", "L0B").bytes_per_cycle
    assert load3d + 4 * load2d == 430


def test_published_isolated_loads(b1: ChipSpec) -> None:
    """asc-devkit load_data_perf: load2d 28, load3d 50, L1->BT and L1->FB 20 cycles beyond the data."""
    beyond = {
        key: path.head + path.latency for key, path in b1.paths.items() if key.startswith("L1->") and key != "L1->GM"
    }
    assert beyond == {"L1->L0A": 28, "L1->L0B": 28, "L1->BT": 20, "L1->FB": 20}
    assert b1.load3d.head + b1.load3d.latency == 50


def test_load3d_rates_follow_the_published_formula(b1: ChipSpec) -> None:
    for stride in range(1, 64):
        if stride == 1:
            expected = {"L0A": 256.0, "L0B": 128.0}
        elif stride in (2, 4, 8):
            expected = {"L0A": max(32, 512 // (2 * stride)), "L0B": max(28.4, 512 // (2 * stride + 2))}
        else:
            expected = {"L0A": 32, "L0B": 28.4}
        assert {dest: b1.load3d.rate(dest, stride, 2) for dest in expected} == expected


def test_only_the_transposing_32_bit_load_into_l0b_is_slow(b1: ChipSpec) -> None:
    assert b1.load3d.rate("L0B", 1, 4, transpose=True) == 45
    assert b1.load3d.rate("L0B", 8, 4, transpose=True) == 28.4
    assert b1.load3d.rate("L0B", 1, 2, transpose=True) == 128
    assert b1.load3d.rate("L0A", 1, 4, transpose=True) == 256


def test_sliding_rows_are_off_and_follow_the_formula_when_on(b1: ChipSpec) -> None:
    assert b1.load3d.rate("L0A", 1, 4, rows=10) == 256
    sliding = b1.load3d.model_copy(update={"slide_rows": True})
    assert sliding.rate("L0A", 1, 4, rows=1) == 256
    assert sliding.rate("L0A", 1, 4, rows=10) == 512 // 12
    assert sliding.rate("L0B", 1, 4, rows=13) == 512 // 17
    assert sliding.rate("L0B", 2, 4, rows=100) == 28.4
    assert sliding.rate("L0A", 3, 4, rows=2) == 32


@pytest.mark.parametrize(
    ("op", "dtype", "repeats", "conflict", "measured"),
    [
        ("add", "float16", 64, False, 88.4),
        ("add", "float16", 64, True, 154),
        ("add", "float16", 32, True, 86.0),
        ("add", "float16", 128, True, 278.5),
        ("add", "float16", 127, False, 149.6),
        ("add", "float32", 64, True, 160),
        ("exp", "float32", 64, False, 159),
        ("div", "float32", 64, True, 288),
    ],
)
def test_measured_vector_instructions(
    b1: ChipSpec, op: str, dtype: str, repeats: int, conflict: bool, measured: float
) -> None:
    """asc-devkit bank_conflict_ub, add_high_performance; pto-isa tile operations on a 910B3."""
    assert sum(b1.vector.cycles(op, dtype, 256 * repeats, conflict)) == pytest.approx(measured, rel=0.06)


def test_a_partial_repeat_costs_a_whole_one_and_the_tail(b1: ChipSpec) -> None:
    head, work = b1.vector.cycles("reduce_sum", "float32", 512)
    assert b1.vector.cycles("reduce_sum", "float32", 516) == (head, work + 7 + 16)


def test_fixpipe_rates(b1: ChipSpec) -> None:
    assert b1.fixpipe is not None
    assert [b1.fixpipe.rate(size) for size in (1, 2, 4)] == [64, 128, 128]
    assert b1.fixpipe.rate(4, channel_split=True) == 32
    with pytest.raises(SimError, match=r"8-byte.*1, 2, 4"):
        b1.fixpipe.rate(8)


# asc-devkit, data path page and the NPU architecture pages 2002, 2201, 3510; the ini's moves for 1001 and 2002. Columns:
# dav-1001, dav-2002, dav-2201, dav-3510; "-" where the architecture has no such path. The last rows are no memory paths:
# constants (CCE reference), and the port of 310P's vector-only cores.
PATHS = """
    GM->L1         MTE2  MTE2  MTE2  MTE2
    GM->L1:nd2nz   -     -     MTE2  MTE2
    GM->L1:dn2nz   -     -     -     MTE2
    GM->UB         MTE2  MTE2  MTE2  MTE2
    GM->L0A        MTE2  MTE2  MTE2  -
    GM->L0B        MTE2  MTE2  MTE2  -
    L1->L0A        MTE1  MTE1  MTE1  MTE1
    L1->L0B        MTE1  MTE1  MTE1  MTE1
    L1->UB         MTE1  MTE1  -     MTE1
    L1->BT         -     -     MTE1  MTE1
    L1->FB         -     -     FIX   FIX
    L1->GM         -     -     MTE3  -
    L0C->UB        V     V     -     FIX
    L0C->L1        -     -     FIX   FIX
    L0C->GM        -     -     FIX   FIX
    UB->L1         MTE3  MTE3  -     MTE3
    UB->GM         MTE3  MTE3  MTE3  MTE3
    UB->L0C        V     V     -     -
    FILL->L1       MTE2  MTE2  MTE2  MTE2
    FILL->UB       V     V     V     V
    FILL->L0A      MTE1  MTE1  MTE1  MTE1
    FILL->L0B      MTE1  MTE1  MTE1  MTE1
    GM->UB:aiv     -     MTE2  -     -
    UB->GM:aiv     -     MTE3  -     -
"""
ARCHS = ("dav-1001", "dav-2002", "dav-2201", "dav-3510")


def of_arch(arch: str) -> list[ChipSpec]:
    found = [chip for chip in map(load_chip, CHIPS) if chip.identity.arch == arch]
    assert len(found) == {"dav-1001": 5, "dav-2002": 4, "dav-2201": 12, "dav-3510": 7}[arch]
    return found


@pytest.mark.parametrize("arch", ARCHS)
def test_the_paths_of_the_architecture(arch: str) -> None:
    rows = [line.split() for line in PATHS.strip().splitlines()]
    pipes = {row[0]: row[1 + ARCHS.index(arch)] for row in rows if row[1 + ARCHS.index(arch)] != "-"}
    absent = {row[0] for row in rows} - set(pipes)
    for chip in of_arch(arch):
        assert {key: path.pipe for key, path in chip.paths.items()} == pipes
        for key in absent:
            source, destination, variant = re.split(r"->|:", f"{key}:")[:3]
            with pytest.raises(SimError, match=rf"\({arch}\) has no path {key}; from {source} there is "):
                chip.path(source, destination, variant or None)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_path_belongs_to_a_core_that_has_its_pipe_and_an_end_of_it(arch: str) -> None:
    for chip in of_arch(arch):
        for key, path in chip.paths.items():
            ends = set(re.split(r"->|:", key)[:2])
            assert any(path.pipe in kind.pipes and ends & set(kind.buffers) for kind in chip.cores.kinds.values()), key


def test_coupled_cores_have_cube_and_vector_and_no_fixpipe() -> None:
    for chip in (*of_arch("dav-1001"), *of_arch("dav-2002")):
        core = chip.cores.kinds["AI_CORE"]
        assert core.pipes == ("S", "V", "M", "MTE1", "MTE2", "MTE3")
        assert core.buffers == ("L1", "L0A", "L0B", "L0C", "UB")
        assert chip.fixpipe is None
        assert chip.load3d.rate("L0A", 1, 2) == chip.load3d.rate("L0A", 3, 2) == 256
        assert chip.load3d.rate("L0B", 1, 2) == chip.load3d.rate("L0B", 3, 2) == 128
    assert {chip.sync.flag_ids for chip in of_arch("dav-1001")} == {4}
    assert {chip.sync.flag_ids for chip in of_arch("dav-2002")} == {8}
    assert {len(chip.cores.kinds) for chip in of_arch("dav-1001")} == {1}


def test_launch_of_the_old_910() -> None:
    """Trivial kernels of a 30-core 910: 1.55 us with 1 block, 2.1 with 8, 2.85 with 16, 3.7-4.6 with 30."""
    launch = load_chip("ascend910b").launch
    measured = {1: 1.55, 8: 2.1, 16: 2.85, 30: 4.15}
    for blocks, us in measured.items():
        assert launch.task_overhead_us["AI_CORE"] + blocks * launch.block_us["AI_CORE"] == pytest.approx(us, abs=0.15)


def test_a_missing_path_lists_what_there_is(b1: ChipSpec) -> None:
    with pytest.raises(SimError, match=r"ascend910b1 \(dav-2201\) has no path UB->L1; from UB there is UB->GM "):
        b1.path("UB", "L1")
    with pytest.raises(SimError, match=r"no path GM->UB:nd2nz; from GM there is GM->L1, GM->L1:nd2nz, GM->L0A"):
        b1.path("GM", "UB", "nd2nz")


def test_what_a_chip_lacks_is_an_error_with_the_alternatives(b1: ChipSpec) -> None:
    with pytest.raises(SimError, match=r"'float64'; it takes float16, "):
        b1.peak_tflops("float64")
    with pytest.raises(SimError, match=r"'tanh'; there are add, "):
        b1.vector.cycles("tanh", "float32", 256)
    with pytest.raises(SimError, match=r"exp has no 'int32'; it has float16, float32 "):
        b1.vector.cycles("exp", "int32", 256)
    with pytest.raises(SimError, match=r"'UB'; it reaches L0A, L0B "):
        b1.load3d.rate("UB", 1, 2)


@pytest.fixture
def a5() -> ChipSpec:
    return load_chip("ascend950pr_9589")


def test_950_bandwidth_rows(a5: ChipSpec) -> None:
    """Measured on 64 AIV / 32 AIC at 1650 MHz (asc-devkit data_copy): 1.613-1.65 TB/s from HBM, 5.36 TB/s from L2."""
    hertz = a5.clock.cube_mhz * 1e6
    assert a5.hbm_bytes_per_cycle() * hertz == pytest.approx(1.631e12, rel=0.012)
    assert a5.l2_read_bytes_per_cycle() * hertz == pytest.approx(5.36e12, rel=0.001)
    path = a5.path("GM", "UB")
    assert path.head + 128 / path.bytes_per_cycle == pytest.approx(39.4, abs=0.5)


@pytest.mark.parametrize(
    ("key", "gib_per_s"),
    [("GM->L1", 162.77), ("GM->UB", 163.13), ("UB->GM", 131.76), ("L0C->GM", 130.21)],
)
def test_950_path_peaks_of_the_profiler(a5: ChipSpec, key: str, gib_per_s: float) -> None:
    for chip, peak in ((a5, gib_per_s), (load_chip(NO_INI), gib_per_s * 1800 / 1650)):
        assert chip.paths[key].bytes_per_cycle * chip.clock.cube_mhz * 1e6 / 2**30 == pytest.approx(peak, rel=0.001)


def test_950_gemm_step(a5: ChipSpec) -> None:
    """Per 256 x 256 x 64 Mmad: 2564.813 us over 2542.00 us of cube work; 333.5 cycles of MTE1 in two loads of 32 KB."""
    work = 256 * 256 * 64 // a5.cube.macs_per_cycle("float16")
    assert work == 1024
    assert (a5.cube.head_stream + work) / work == pytest.approx(2564.813 / 2542.00, rel=0.0005)
    loads = [a5.paths[key].head + 32768 / a5.paths[key].bytes_per_cycle for key in ("L1->L0A", "L1->L0B")]
    assert sum(loads) == pytest.approx(333.5, abs=1)


def test_950_load3d_is_alike_into_both_buffers(a5: ChipSpec) -> None:
    for stride in range(1, 64):
        expected = max(32, 512 // (2 * stride)) if stride in (1, 2, 4, 8) else 32
        assert a5.load3d.rate("L0A", stride, 2) == a5.load3d.rate("L0B", stride, 2) == expected


@pytest.mark.parametrize(("vectors", "instructions", "vector_us"), [(32, 256, 15.465), (170, 48.188, 11.121)])
def test_950_adds_in_a_stream(a5: ChipSpec, vectors: int, instructions: float, vector_us: float) -> None:
    """asc-devkit add_high_performance, fp16 8192 x 8192 on 64 AIV: the vector pipe's busy time, occupancy alone."""
    assert a5.us(sum(a5.vector.cycles("add", "float16", 256 * vectors)) * instructions) == pytest.approx(
        vector_us, rel=0.02
    )


# pto-isa st_a5_fit: isolated tile operations in UB. (operation, dtype, rows, 256-byte vectors in a row, cycles)
TILES = [
    ("add", "float32", 10, 3, 131), ("add", "float32", 2, 3, 66), ("add", "float32", 20, 3, 211),
    ("add", "float32", 20, 10, 450), ("add", "float32", 20, 20, 869), ("mul", "float32", 10, 20, 449),
    ("adds", "float32", 1, 20, 76), ("adds", "float32", 1, 5, 61), ("adds", "float32", 10, 2, 121),
    ("adds", "float32", 10, 10, 201), ("adds", "float32", 20, 20, 583), ("adds", "float16", 1, 10, 66),
    ("exp", "float32", 1, 20, 102), ("exp", "float32", 3, 10, 122), ("exp", "float32", 20, 2, 199),
    ("exp", "float32", 10, 20, 462), ("exp", "float16", 10, 10, 463), ("exp", "float16", 1, 1, 69),
    ("sqrt", "float32", 20, 10, 463), ("div", "float32", 10, 10, 267),
    ("cast", "float32", 1, 10, 65), ("cast", "float32", 1, 1, 53),
]  # fmt: skip


@pytest.mark.parametrize(("op", "dtype", "rows", "vectors", "measured"), TILES)
def test_950_isolated_tiles(a5: ChipSpec, op: str, dtype: str, rows: int, vectors: int, measured: int) -> None:
    took = sum(a5.vector.cycles(op, dtype, 256 * vectors, rows=rows)) + a5.vector.latency
    assert took == pytest.approx(measured, rel=0.08)


def test_rows_cost_nothing_extra_where_the_unit_strides(b1: ChipSpec) -> None:
    assert b1.vector.row_overhead is None
    assert b1.vector.cycles("adds", "float32", 512, rows=10) == b1.vector.cycles("adds", "float32", 5120)


def test_950_partly_filled_vectors_cost_whole_ones(a5: ChipSpec) -> None:
    assert a5.vector.cycles("adds", "float32", 260) == a5.vector.cycles("adds", "float32", 512)


def test_cycles_and_microseconds() -> None:
    chip = load_chip("ascend910b3")
    assert chip.us(1800) == 1
    assert chip.cycles(1.1) == 1980  # 1.1 * 1800 is 1980.0000000000002
    assert chip.cycles(1.0001) == 1801
    assert all(chip.cycles(chip.us(n)) == n for n in (0, 1, 57, 12345, 10**9 + 1))
    assert all(later - earlier == 1800 for earlier, later in pairwise(chip.cycles(us) for us in range(5)))


def test_names_are_taken_in_any_case_and_loaded_once() -> None:
    assert load_chip("Ascend910B3") is load_chip("ascend910b3")
    assert len({load_chip(name) for name in chip_names()}) == len(chip_names())


def test_an_unknown_chip_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"'ascend910b33' is not a known chip; did you mean ascend910b3\?.*910_9362.*b4-1"
    ):
        load_chip("ascend910b33")
    with pytest.raises(ConfigError, match=r"'dav-2201' is a family, not a chip"):
        load_chip("dav-2201")


@pytest.mark.parametrize("name", chip_names())
def test_a_soc_file_says_only_what_differs(name: str) -> None:
    layers = read_layers(name)
    inherited = dict(_flat(merge(layers[1:])))
    for place, value in _flat(layers[0].tree):
        assert inherited.get(place) != value, f"{place} repeats what {layers[1].file} says"


def _flat(tree: object, at: str = "") -> list[tuple[str, object]]:
    if isinstance(tree, dict):
        return [item for key, child in tree.items() for item in _flat(child, f"{at}.{key}")]
    return [(at, tree)]
