"""Our tilings of the 910B's dW and of the 950's dx against programs that others wrote from a description of the vendor's.

The programs lie in a folder beside the repository and are no part of it; without them each test here is skipped, and its
reason says how many problems are then not compared (pytest -rs). Rows that they decided stand in tests/data and are compared
always.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.parts import NO_HK, NO_HK_WK, UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import decided
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import cache_tiling
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import PLAIN_SPLIT
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tiling_problems import BUFFERS, LOAD3D
from tests.support.places import DATA, ROOT

FACTS = ROOT.parent / "shared" / "facts"
COUNT = 2000
ARCH35 = json.loads((DATA / "dx_tilings_arch35.json").read_text())
LOAD3D_950 = load_chip("ascend950pr_9589").load3d.limits


def program(name: str) -> ModuleType:
    path = FACTS / f"{name}.py"
    if not path.is_file():
        pytest.skip(f"{COUNT} problems are NOT compared: {path}, which decides them separately, is not beside this tree")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def problems(
    seed: int, kernels: tuple[int, ...], largest: int, groups: tuple[int, ...] = (1,)
) -> Iterator[tuple[ConvProblem, Any]]:
    """Random problems without an end, with the generator for what else is drawn: some 3-D, some 1x1 and plain."""
    rng = np.random.default_rng(seed)
    while True:
        volumetric, plain = rng.random() < 0.3, rng.random() < 0.1
        size, out, kernel, stride, dilation, pads = [], [], [], [], [], []
        for axis in range(3):
            if axis == 0 and not volumetric:
                values = (1, 1, 1, 1, 1, (0, 0))
            else:
                k, s, d = int(rng.choice(kernels)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
                if plain:
                    k = s = 1
                o = int(rng.integers(1, 5 if axis == 0 else largest))
                before, after = (int(pad) for pad in rng.integers(0, k, 2))
                i = (o - 1) * s + (k - 1) * d + 1 - before - after
                values = (i, o, k, s, d, (before, after))
            for found, value in zip((size, out, kernel, stride, dilation, pads), values, strict=True):
                found.append(value)
        if min(size) < 1:
            continue
        count = int(rng.choice(groups))
        widths = (3, 8, 16, 32, 48, 64, 100, 128, 256, 512)[: 10 if count == 1 else 4]
        channels = [count * int(rng.choice(widths)) for _ in range(2)]
        flat = [pad for pair in pads for pad in pair]
        yield (ConvProblem(int(rng.integers(1, 33)), *channels, *size, *out, *kernel, *stride, *dilation, *flat, count), rng)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "largest"), [(1, 60), (4, 600), (9, 2000)])
def test_weight_gradients_of_the_910b(seed: int, largest: int) -> None:
    """Cuts over cores, tiles of L0 and L1, buffers and cycles; rows cut and gathered input are not in the program, and a few
    signals of few channels break it off. Outputs of up to `largest` rows and columns: of wide maps L1 holds few rows.
    """
    oracle, costs, seen = program("dw2d_model"), cycle_costs("dav-2201"), Counter[str]()
    differ: list[Any] = []
    unanswered = 0
    for problem, rng in problems(seed, (1, 1, 2, 3, 3, 5, 7), largest, (1, 1, 1, 2, 4)):
        deep, itemsize = problem.k_d > 1 or problem.d_out > 1 or problem.d_in > 1, int(rng.choice((2, 2, 4)))
        hf32, cores = bool(itemsize == 4 and rng.random() < 0.5), int(rng.choice((20, 24)))
        ours = FilterProblem(problem, itemsize, cores, BUFFERS["L1"], BUFFERS["L0A"], BUFFERS["L0C"], LOAD3D, hf32, deep)
        try:
            found = cache_tiling(ours, costs)
        except TilingError:
            continue
        if ours.load in (Load.SPLIT_W, Load.DMA):
            continue
        asked = oracle.Problem(
            problem.n, problem.c_in, problem.h_in, problem.w_in, problem.c_out, problem.h_out, problem.w_out,
            problem.k_h, problem.k_w, problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w,
            (problem.pad_up, problem.pad_down, problem.pad_left, problem.pad_right),
            "float32" if itemsize == 4 else "float16", hf32, problem.groups, cores, dout=problem.d_out, kd=problem.k_d,
            pad_f=problem.pad_front, pad_b=problem.pad_back, is_3d=deep,
        )  # fmt: skip
        try:
            theirs, *_ = oracle.Dw(asked).run()
        except TypeError:
            assert ours.conv1d, problem
            unanswered += 1
            continue
        got = found.to_vendor()
        names = [name for name in got if name != "source"]
        if ours.conv1d:  # decided by loads: what B holds is not worked out there
            names = [name for name in names if name not in ("ho_bl1", "bl1_bound")]
            if 2 in (theirs.db_al1, theirs.db_bl1):  # it counts one of two buffers: its operands need not fit L1
                names = [name for name in names if name not in ("db_al1", "db_bl1", "m_al1", "n_bl1")]
        wrong = {name: (got[name], getattr(theirs, name)) for name in names if got[name] != getattr(theirs, name)}
        if not ours.conv1d and found.cycles != theirs.cycles:
            wrong["cycles"] = (found.cycles, theirs.cycles)
        if wrong:
            differ.append((problem, itemsize, cores, wrong))
        seen["3-D" if deep else ours.load.name] += 1
        if seen.total() == COUNT:
            break
    assert differ == []
    assert min(seen[kind] for kind in ("3-D", "LOAD3D", "LOAD2D")) > 20 and unanswered < COUNT // 200


def test_input_gradients_of_the_950() -> None:
    """Template, block, share of a core, buffers, steps of L1, cut of the kernel, segments of K."""
    oracle, seen = program("dx35_model"), Counter[str]()
    differ: list[Any] = []
    for problem, rng in problems(2, (1, 1, 2, 3, 3, 4, 5, 7, 9), 120):
        itemsize, cores = int(rng.choice((1, 2, 2, 4))), int(rng.choice((1, 8, 28, 32, 36)))
        inp = TilingInput(
            problem, itemsize, cores, ARCH35["buffers"], ARCH35["l2_bytes"], layout=PLANAR, family=PLAIN_SPLIT,
            load3d=LOAD3D_950,
        )  # fmt: skip
        try:
            tiling = decided(DataProblem.of(inp))
        except TilingError:
            continue
        c0, size = inp.c0, ARCH35["buffers"]
        theirs = oracle.Dx(
            oracle.P(
                problem.n, problem.c_in, problem.c_out, -(-problem.c_out // c0), 1, 1, problem.d_in, problem.h_in,
                problem.w_in, problem.d_out, problem.h_out, problem.w_out, problem.k_d, problem.k_h, problem.k_w,
                problem.stride_d, problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w,
                *(pad for pad in back_padding(problem)), itemsize, itemsize, c0, cores, size["L0A"], size["L0C"],
                size["L1"], size["UB"], False,
            )
        )  # fmt: skip
        template, t = theirs.run()
        if t is None:
            continue
        expected = {
            "baseM": t.m, "baseK": t.k, "baseN": t.n, "stepKa": t.ka, "stepKb": t.kb, "cl0Pbuffer": t.c, "al1Pbuffer": t.a1,
            "bl1Pbuffer": t.b1, "singleCoreM": t.scm, "singleCoreCin": t.scn, "singleCoreDin": t.din,
            "enableFullLoad": t.full,
        }  # fmt: skip
        got = tiling.to_vendor() | {tiling.VENDOR[name]: getattr(tiling, name) for name in tiling.DIRECT_ONLY}
        wrong = {name: (got[name], value) for name, value in expected.items() if got[name] != value}
        if DataProblem.of(inp).cut != (UNCUT, NO_HK, NO_HK_WK)[theirs.mode]:
            wrong["cut"] = (DataProblem.of(inp).cut, theirs.mode)
        if wrong:
            differ.append((problem, itemsize, cores, template, wrong))
        seen[template] += 1
        if seen.total() == COUNT:
            break
    assert differ == []
    assert min(seen[template] for template in ("small shape", "full load", "inner product")) > 20


def back_padding(problem: ConvProblem) -> tuple[int, int, int]:
    """Pads of the convolution that makes dx: above, below, left."""
    reach_h, reach_w = (problem.k_h - 1) * problem.dilation_h, (problem.k_w - 1) * problem.dilation_w
    up = reach_h - problem.pad_up
    down = problem.h_in - ((problem.h_out - 1) * problem.stride_h + 1) + reach_h - up
    return up, down, reach_w - problem.pad_left
