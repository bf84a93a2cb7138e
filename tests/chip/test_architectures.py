"""Abilities of each architecture: data paths and their pipes, kinds of cores, dtypes of the cube."""

from __future__ import annotations

import re

import pytest

from ascend_sim.chip import ChipSpec, chip_names, load_chip
from ascend_sim.errors import SimError

pytestmark = pytest.mark.fast

ARCHS = ("dav-1001", "dav-2002", "dav-2201", "dav-3510")


def of_arch(arch: str) -> list[ChipSpec]:
    """Return the shipped chips of an architecture."""
    return [chip for chip in map(load_chip, chip_names()) if chip.identity.arch == arch]


def test_every_chip_has_one_of_the_architectures() -> None:
    assert {load_chip(name).identity.arch for name in chip_names()} == set(ARCHS)


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
    FILL->L0A      MTE1  MTE1  MTE1  -
    FILL->L0B      MTE1  MTE1  MTE1  -
    GM->UB:aiv     -     MTE2  -     -
    UB->GM:aiv     -     MTE3  -     -
"""


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


@pytest.mark.parametrize(("arch", "taps"), [("dav-1001", 255), ("dav-2002", 255), ("dav-2201", 511), ("dav-3510", 255)])
def test_what_the_fields_of_load3d_hold(arch: str, taps: int) -> None:
    """Bytes for dilation and padding, six bits of stride, 16 of K; nine bits of kernel on dav-2201 alone."""
    for chip in of_arch(arch):
        fields = {"kernel": taps, "dilation": 2**8 - 1, "pad": 2**8 - 1, "stride": 2**6 - 1, "k_extent": 2**16 - 1}
        assert chip.load3d.limits.model_dump() == fields


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


def test_launch_of_the_old_910() -> None:
    """Trivial kernels of a 30-core 910: 1.55 us with 1 block, 2.1 with 8, 2.85 with 16, 3.7-4.6 with 30."""
    launch = load_chip("ascend910b").launch
    measured = {1: 1.55, 8: 2.1, 16: 2.85, 30: 4.15}
    for blocks, us in measured.items():
        assert launch.task_overhead_us["AI_CORE"] + blocks * launch.block_us["AI_CORE"] == pytest.approx(us, abs=0.15)


@pytest.mark.parametrize(
    ("arch", "pair", "modes"),
    [
        ("dav-1001", "float32->float16", "NONE ODD"),
        ("dav-2002", "float32->float16", "NONE ODD"),
        ("dav-2201", "float32->float16", "RINT FLOOR CEIL ROUND TRUNC ODD NONE"),
        ("dav-2201", "float32->bfloat16", "RINT FLOOR CEIL ROUND TRUNC"),
        ("dav-3510", "float32->float16", "RINT FLOOR CEIL ROUND TRUNC ODD NONE"),
        ("dav-3510", "float32->hifloat8", "ROUND HYBRID"),
        ("dav-3510", "float32->float8_e4m3fn", "RINT"),
        ("dav-3510", "bfloat16->float16", "RINT FLOOR CEIL ROUND TRUNC"),
        ("dav-1001", "float32->bfloat16", None),
        ("dav-2201", "float32->hifloat8", None),
        ("dav-3510", "bfloat16->hifloat8", None),
    ],
)
def test_the_casts_of_the_vector_unit(arch: str, pair: str, modes: str | None) -> None:
    """asc-devkit, Cast pages; the first mode is the one of a kernel that names none."""
    for chip in of_arch(arch):
        assert chip.vector.casts.get(pair) == (None if modes is None else tuple(modes.split()))


def test_only_the_coupled_architectures_saturate_always() -> None:
    for arch in ARCHS:
        for chip in of_arch(arch):
            saturates = arch in ("dav-1001", "dav-2002")
            assert (chip.overflow.default == "saturate") == saturates
            assert ("inf_nan" in chip.overflow.modes) != saturates
