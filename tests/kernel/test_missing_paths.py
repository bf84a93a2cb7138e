"""Every move between two spaces, on every architecture: built where the path table has it, refused with its row where not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

SPACES = ("GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB")
PRODUCTS = ("910", "310P", "910B", "910_93", "910_95")
# asc-devkit data path page and architecture pages, ini moves of 910 and 310P: who has the path, in the order of `PRODUCTS`.
# (L1 to GM was removed after the 910_93, GM to L0A and L0B too; UB to L0C is a bias of the coupled chips' ini.)
TABLE = {
    "GM->L1": "11111", "GM->UB": "11111", "GM->L0A": "11110", "GM->L0B": "11110", "L1->L0A": "11111", "L1->L0B": "11111",
    "L1->UB": "11001", "L1->BT": "00111", "L1->FB": "00111", "L1->GM": "00110", "L0C->UB": "11001", "L0C->L1": "00111",
    "L0C->GM": "00111", "UB->L1": "11001", "UB->GM": "11111", "UB->L0C": "11000",
}  # fmt: skip
OF_OTHERS = {"L1->L0A", "L1->L0B", "L0C->UB", "L0C->L1", "L0C->GM"}
"""Ways that no copy goes: loads of fractals and what takes results out of L0C do (asc-devkit, routes of the DataCopy pages)."""
OF_OTHERS_IF_COUPLED = {"GM->L0A", "GM->L0B"}
"""Ways of fractals that are simulated as copies on the split chips alone."""
CHIPS = {product: [name for name in chip_names() if load_chip(name).identity.product == product] for product in PRODUCTS}


def test_there_are_five_products() -> None:
    assert sum(map(len, CHIPS.values())) == len(chip_names())
    assert all(CHIPS.values())


@sampled(75, 300)
@given(st.sampled_from(PRODUCTS), st.sampled_from(SPACES), st.sampled_from(SPACES), st.data())
def test_a_copy_is_built_where_there_is_a_path_and_a_core_for_it(
    product: str, source: str, destination: str, data: st.DataObject
) -> None:
    chip = load_chip(data.draw(st.sampled_from(CHIPS[product])))
    kind = data.draw(st.sampled_from(sorted(chip.cores.kinds)))
    has_path = TABLE.get(f"{source}->{destination}", "00000")[PRODUCTS.index(product)] == "1"
    k = KernelBuilder(InstructionTable(chip, kind), 0, kind, [1 << 20])
    ends = [gm_operand(0, 0) if space == "GM" else 0 for space in (destination, source)]

    def build() -> None:
        k.data_copy(source, destination, *ends, 1024)
        k.finish()

    if not has_path:
        there = [name for name in TABLE if name.startswith(f"{source}->") and TABLE[name][PRODUCTS.index(product)] == "1"]
        with pytest.raises(SimError) as refused:
            build()
        assert f"({chip.identity.arch}) has no path {source}->{destination}; from {source} there is " in str(refused.value)
        row = re.search(r"there is (.*) \(chip file, paths\)", str(refused.value))
        assert row and {name.split(":")[0] for name in row[1].split(", ")} - {"nothing"} == set(there)
        return
    way = f"{source}->{destination}"
    if way in OF_OTHERS or (way in OF_OTHERS_IF_COUPLED and product in ("910", "310P")):
        lacks = rf"data_copy {way}: .* has no such instruction; no chip has it|\({way}\): .* has it, but it is not simulated"
        with pytest.raises(SimError, match=lacks):
            build()
        return
    own = {*chip.cores.kinds[kind].buffers, "GM"}
    if {source, destination} <= own and chip.path(source, destination).pipe in chip.cores.kinds[kind].pipes:
        build()
    else:
        with pytest.raises(SimError, match=rf"{kind} of {chip.name} has|an {kind} has|cores\.kinds"):
            build()
