"""The shipped chips against the vendor's platform files and published or measured figures."""

from __future__ import annotations

import json
from importlib import resources

import pytest
import yaml

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.chip.files import merge, read_layers
from tests.support.places import DATA

pytestmark = pytest.mark.fast

INI = json.loads((DATA / "chips_ini.json").read_text(encoding="utf-8"))["socs"]
CLOCK_NOT_FROM_INI = {"ascend910b4": 1650, "ascend910b4-1": 1650}
NO_INI = "ascend950pr_9599"  # no platform file of it is public
CHIPS = [*(soc.lower() for soc in INI), NO_INI]

# Cube peaks in TFLOPS, published or arithmetic on the ini; the 910B4 at its measured 1650 MHz.
PEAKS = {
    "910b1 910_9391 910_9392": {"float16": 363.7, "hf32": 181.9, "float32": 90.9},
    "910b2 910b2c 910_9381 910_9382": {"float16": 353.9, "hf32": 176.9, "float32": 88.5},
    "910b3 910_9372": {"float16": 294.9, "hf32": 147.5, "float32": 73.7},
    "910b4 910b4-1": {"float16": 270.3, "hf32": 135.2, "float32": 67.6},
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
    "910_95 950pr_9589 950dt_9581 950dt_9582": {
        "float16": 432.5, "hifloat8": 865.1, "float8_e5m2": 865.1, "mxfp4": 1730.2, "hf32": 216.3, "float32": 27.0,
    },
    "950pr_9579 950dt_9572": {
        "float16": 378.5, "float8_e4m3fn": 756.9, "mxfp4": 1513.9, "hf32": 189.2, "float32": 23.7,
    },
    "950pr_9599": {"float16": 530.8, "mxfp8": 1061.7, "mxfp4": 2123.4},
}  # fmt: skip
PEAKS = {f"ascend{name}": peaks for names, peaks in PEAKS.items() for name in names.split()}

# Memory bandwidth in GB/s: ini ddr_rate x cores x clock (310P: with its vector-only cores), or what is preferred to it.
BANDWIDTHS = {
    "910a": 1024, "910proa": 1126, "910premiuma": 1249, "910prob": 1104,
    "910b": 1020,  # measured streams; the ini's product is 864
    "310p1": 252, "310p3": 207, "310p5": 172, "310p7": 138,
    "910_95": 1637, "950pr_9589": 1637, "950pr_9579": 1432, "950pr_9599": 1637,
    "950dt_9581": 4224, "950dt_9582": 3221, "950dt_9572": 3696,
    "910b1": 1800, "910b2": 1750, "910b3": 1750, "910b4": 800, "910b4-1": 800,  # the profiler's chip figures
}  # fmt: skip


def soc_of(name: str) -> str:
    """Return the name of the file that a chip's SoC has."""
    return load_chip(name).identity.soc.lower()


def test_every_soc_of_the_platform_files_ships() -> None:
    assert set(CHIPS) <= set(chip_names())


@pytest.mark.parametrize("name", [name for name in chip_names() if name not in CHIPS and soc_of(name) in CHIPS])
def test_any_other_name_of_their_socs_is_a_variant(name: str) -> None:
    """A file that extends a SoC's and keeps what the SoC is: another memory, another clock."""
    chip = load_chip(name)
    like = load_chip(soc_of(name))
    assert chip.name == name and chip.identity == like.identity and chip.cores == like.cores
    assert chip != like


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
        # dav-1001 writes faster than its ub_to_l2_rate of 64: measured additions of dW are nearer its l2_write_rate.
        drain = ini["l2_write_rate"] if chip.identity.arch == "dav-1001" else ini["ub_to_l2_rate"]
        expected |= {"GM->L1": ini["l2_read_rate"], "GM->UB": ini["l2_read_rate"], "UB->GM": drain}
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
    chip, peaks = load_chip(name), PEAKS[name]
    assert {dtype: chip.peak_tflops(dtype) for dtype in peaks} == pytest.approx(peaks, abs=0.051)


@pytest.mark.parametrize(("name", "gb_per_s"), BANDWIDTHS.items())
def test_memory_bandwidth(name: str, gb_per_s: float) -> None:
    assert load_chip(f"ascend{name}").memory.hbm_gb_per_s == pytest.approx(gb_per_s, abs=0.51)


def test_the_product_is_one_that_the_operator_documents_know() -> None:
    for operator in ("convolution_backward", "conv_tbc_backward"):
        text = resources.files("ascend_sim.configs").joinpath("operators", f"{operator}.yaml").read_text(encoding="utf-8")
        known = yaml.safe_load(text)["products"]
        assert {load_chip(name).identity.product for name in CHIPS} == set(known)


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
