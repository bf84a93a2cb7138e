"""The shipped chips against the vendor's platform files and published or measured figures."""

from __future__ import annotations

import json
from importlib import resources
from itertools import pairwise

import pytest
import yaml

from ascend_sim.chip import ChipSpec, chip_names, load_chip
from ascend_sim.chip.files import merge, read_layers
from ascend_sim.errors import ConfigError
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


def test_the_names_are_the_socs_of_the_platform_files() -> None:
    assert len(CHIPS) == 28 and set(CHIPS) <= set(chip_names())


@pytest.mark.parametrize("name", sorted(set(chip_names()) - set(CHIPS)))
def test_any_other_name_is_a_variant_of_one_of_them(name: str) -> None:
    """A file that extends a SoC's and keeps what the SoC is: another memory, another clock."""
    chip = load_chip(name)
    like = load_chip(chip.identity.soc.lower())
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


@pytest.mark.parametrize("given", ["910b3", "910B3", "Ascend910B3", " ascend910b3 "])
def test_one_chip_has_the_names_that_people_write(given: str) -> None:
    assert load_chip(given) is load_chip("ascend910b3")


@pytest.mark.parametrize(
    ("given", "name"), [("ascend910b", "ascend910b"), ("910b4", "ascend910b4"), ("910_95", "ascend910_95")]
)
def test_a_name_that_begins_another_is_still_a_chip(given: str, name: str) -> None:
    assert load_chip(given).name == name


@pytest.mark.parametrize("given", ["910B", "910b", "910_93", "Ascend910_93", "950", "ascend950", "310P", "910"])
def test_the_name_of_a_family_lists_its_chips(given: str) -> None:
    short = "ascend" + given.lower().removeprefix("ascend")
    members = [name for name in chip_names() if load_chip(name).identity.short_soc.lower() == short]
    assert len(members) > 1
    with pytest.raises(ConfigError, match=f"{given!r} is a family, not a chip; its chips: {', '.join(members)};"):
        load_chip(given)


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


@pytest.mark.parametrize("name", chip_names())
def test_a_chip_comes_back_from_json(name: str) -> None:
    chip = load_chip(name)
    back = ChipSpec.from_json(chip.to_json())
    assert back == chip and back.sources == chip.sources


def test_what_was_worked_out_of_a_chip_does_not_make_it_another() -> None:
    chip = load_chip("ascend310p3")
    again = chip.model_copy()
    again._vector_only = None
    assert chip.seen_by("AIV") is not chip
    assert again == chip and hash(again) == hash(chip)
    assert chip != chip.seen_by("AIV") and chip != load_chip("ascend310p1") and chip != chip.name
