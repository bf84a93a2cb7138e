"""Mistakes around the cube: L1, L0A, L0B and L0C, on cube cores and on cores that have both units."""

from tests.support.check.bugs.planted import CUBE, SPLIT, order, out, planted, x

A = 16 * 16 * 2  # bytes of a fractal of float16
C = 16 * 16 * 4
STEPS = 3


def drain(k, target, source, name="", *, waits=True):
    """A 16 x 16 tile of L0C to GM, on whichever way the chip has; behind the cube unless `waits` is false."""
    if "FIX" in k.chip.cores.kinds[k.core_kind].pipes:
        if waits:
            order(k, "M", "FIX", f"product {name}")
        k.fixpipe_nd(target.address, source, 16, 16, 16, "float32", 64)
        return "FIX"
    held = k.allocate("UB", C, f"held {name}")
    if waits:
        order(k, "M", "V", f"product {name}")
    k.l0c_to_ub(held, source, 16, 1, 16, "float32")
    order(k, "V", "MTE3", f"held {name}")
    k.data_copy("UB", "GM", target.address, held, C)
    return "V"


def load_both(k, a, b, a1, b1):
    k.data_copy("GM", "L1", a1, a.address, A)
    k.data_copy("GM", "L1", b1, b.address, A)


def to_l0(k, a0, b0, a1, b1):
    k.load_data_2d("L0A", a0, a1, 2, 1)
    k.load_data_2d("L0B", b0, b1, 2, 1)


def product(k, c0, a0, b0, accumulate=False):
    k.mmad(c0, a0, b0, 16, 16, 16, "float16", accumulate)


HALVES = (x(16, 16, dtype="float16"), x(16, 16, dtype="float16"), out(16, 16))
ROWS = (x(STEPS, 16, 16, dtype="float16"), x(STEPS, 16, 16, dtype="float16"), out(STEPS, 16, 16))


@planted("RAW L1", *HALVES, core=CUBE, left_out="MTE2->MTE1")
@planted("RAW L0A, RAW L0B", *HALVES, core=CUBE, left_out="MTE1->M")
@planted("RAW L0C", *HALVES, core=CUBE, left_out="M->drain")
def one_product(k, a, b, c, *, bug, left_out):
    """Load, multiply, drain; a flag is missing."""
    missing = left_out if bug else ""
    load_both(k, a, b, 0, A)
    if missing != "MTE2->MTE1":
        order(k, "MTE2", "MTE1")
    to_l0(k, 0, 0, 0, A)
    if missing != "MTE1->M":
        order(k, "MTE1", "M")
    product(k, 0, 0, 0)
    drain(k, c, 0, waits=missing != "M->drain")


@planted("RAW L0B", *HALVES, core=CUBE, last="L0B")
@planted("RAW L0A", *HALVES, core=CUBE, last="L0A")
@planted("RAW L1", *HALVES, core=CUBE, last="L1")
def flag_between_two_operands(k, a, b, c, *, bug, last):
    """The flag is set when one of two operands is there."""
    l1, l0 = k.flag("MTE2", "MTE1", "in L1"), k.flag("MTE1", "M", "in L0")
    k.data_copy("GM", "L1", 0, a.address, A)
    if bug and last == "L1":
        k.set_flag(l1)
    k.data_copy("GM", "L1", A, b.address, A)
    if not (bug and last == "L1"):
        k.set_flag(l1)
    k.wait_flag(l1)
    loads = [("L0A", 0), ("L0B", A)]
    if last == "L0A":
        loads.reverse()
    for i, (buffer, source) in enumerate(loads):
        k.load_data_2d(buffer, 0, source, 2, 1)
        if i == (0 if bug and last != "L1" else 1):
            k.set_flag(l0)
    k.wait_flag(l0)
    product(k, 0, 0, 0)
    drain(k, c, 0)


@planted("WAR L1", *ROWS, core=CUBE, also="double set", left_out="MTE1->MTE2")
@planted("WAR L0A, WAR L0B", *ROWS, core=CUBE, also="double set", left_out="M->MTE1")
@planted("WAR L0C", *ROWS, core=CUBE, left_out="drain->M", chips=SPLIT)
def products_in_one_place(k, a, b, c, *, bug, left_out):
    """A loop with one buffer each; a flag back is missing."""
    missing = left_out if bug else ""
    back = {name: k.flag(*name.split("->"), name) for name in ("MTE1->MTE2", "M->MTE1")}
    drained = k.flag("FIX" if "FIX" in k.chip.cores.kinds[k.core_kind].pipes else "V", "M", "drained")

    def wait(name, flag, i):
        if i and missing != name:
            k.wait_flag(flag)

    def tell(name, flag, i):
        if i < STEPS - 1 and missing != name:
            k.set_flag(flag)

    for i in range(STEPS):
        wait("MTE1->MTE2", back["MTE1->MTE2"], i)
        load_both(k, a[i], b[i], 0, A)
        order(k, "MTE2", "MTE1")
        wait("M->MTE1", back["M->MTE1"], i)
        to_l0(k, 0, 0, 0, A)
        tell("MTE1->MTE2", back["MTE1->MTE2"], i)
        order(k, "MTE1", "M")
        wait("drain->M", drained, i)
        product(k, 0, 0, 0)
        tell("M->MTE1", back["M->MTE1"], i)
        drain(k, c[i], 0, str(i))
        tell("drain->M", drained, i)


@planted("WAR L1", *ROWS, core=CUBE, buffer="L1")
@planted("WAR L0A", *ROWS, core=CUBE, buffer="L0A")
@planted("WAR L0B", *ROWS, core=CUBE, buffer="L0B")
@planted("WAR L0C", *ROWS, core=CUBE, buffer="L0C", chips=SPLIT)
def place_of_the_other_turn(k, a, b, c, *, bug, buffer):
    """Two places each, and flags for each; from the third turn on one buffer's address stays the other one's."""

    def place(name, i):
        return (1 if bug and name == buffer and i == 2 else i) % 2

    free = {name: [k.flag(*name.split("->"), f"{name} {i}") for i in range(2)] for name in ("MTE1->MTE2", "M->MTE1")}
    drained = [k.flag("FIX" if "FIX" in k.chip.cores.kinds[k.core_kind].pipes else "V", "M", f"drained {i}") for i in range(2)]

    def wait(flags, i):
        if i > 1:
            k.wait_flag(flags[i % 2])

    def tell(flags, i):
        if i < STEPS - 2:
            k.set_flag(flags[i % 2])

    for i in range(STEPS):
        l1 = place("L1", i) * 2 * A
        wait(free["MTE1->MTE2"], i)
        load_both(k, a[i], b[i], l1, l1 + A)
        order(k, "MTE2", "MTE1", f"in L1 {i % 2}")
        wait(free["M->MTE1"], i)
        a0, b0, c0 = place("L0A", i) * A, place("L0B", i) * A, place("L0C", i) * C
        to_l0(k, a0, b0, l1, l1 + A)
        tell(free["MTE1->MTE2"], i)
        order(k, "MTE1", "M", f"in L0 {i % 2}")
        wait(drained, i)
        product(k, c0, a0, b0)
        tell(free["M->MTE1"], i)
        drain(k, c[i], c0, str(i))
        tell(drained, i)


@planted("WAW L1", *HALVES, core=CUBE)
def second_load_without_barrier(k, a, b, c, *, bug):
    """Zeros first, then the operand over them."""
    k.data_copy("GM", "L1", 0, b.address, A)
    k.data_copy("GM", "L1", A, b.address, A)
    if not bug:
        k.pipe_barrier("MTE2")
    k.data_copy("GM", "L1", 0, a.address, A)
    order(k, "MTE2", "MTE1")
    to_l0(k, 0, 0, 0, A)
    order(k, "MTE1", "M")
    product(k, 0, 0, 0)
    drain(k, c, 0)


@planted("WAW L0A", x(2, 16, 16, dtype="float16"), x(16, 16, dtype="float16"), out(16, 16), core=CUBE, buffer="L0A")
@planted("WAW L0B", x(2, 16, 16, dtype="float16"), x(16, 16, dtype="float16"), out(16, 16), core=CUBE, buffer="L0B")
def operand_loaded_twice(k, a, b, c, *, bug, buffer):
    k.data_copy("GM", "L1", 0, a.address, 2 * A)
    k.data_copy("GM", "L1", 2 * A, b.address, A)
    order(k, "MTE2", "MTE1")
    other = "L0B" if buffer == "L0A" else "L0A"
    k.load_data_2d(buffer, 0, 0, 2, 1)
    k.load_data_2d(other, 0, 2 * A, 2, 1)
    if not bug:
        k.pipe_barrier("MTE1")
    k.load_data_2d(buffer, 0, A, 2, 1)
    order(k, "MTE1", "M")
    product(k, 0, 0, 0)
    drain(k, c, 0)


@planted("uninitialized read L0C", *HALVES, core=CUBE)
def sum_without_a_beginning(k, a, b, c, *, bug):
    """The first product is added to what L0C happens to hold."""
    load_both(k, a, b, 0, A)
    order(k, "MTE2", "MTE1")
    to_l0(k, 0, 0, 0, A)
    order(k, "MTE1", "M")
    product(k, 0, 0, 0, accumulate=bug)
    drain(k, c, 0)


@planted("uninitialized read L1", *HALVES, core=CUBE, buffer="L1")
@planted("uninitialized read L0A", *HALVES, core=CUBE, buffer="L0A")
@planted("uninitialized read L0B", *HALVES, core=CUBE, buffer="L0B")
@planted("uninitialized read L0C", *HALVES, core=CUBE, buffer="L0C")
def read_one_place_further(k, a, b, c, *, bug, buffer):
    """An address that is off by one tile: what is read nobody wrote."""
    off = {name: int(bug and name == buffer) for name in ("L1", "L0A", "L0B", "L0C")}
    load_both(k, a, b, 0, A)
    order(k, "MTE2", "MTE1")
    to_l0(k, 0, 0, 0, A * (1 + off["L1"]))
    order(k, "MTE1", "M")
    product(k, 0, off["L0A"] * A, off["L0B"] * A)
    drain(k, c, off["L0C"] * C)


@planted("uninitialized read L1", x(15, 16, dtype="float16"), x(16, 16, dtype="float16"), out(16, 16), core=CUBE, chips=SPLIT)
def padding_of_a_layout(k, a, b, c, *, bug):
    """Fifteen rows in fractals of sixteen; the sixteenth is what the load finds there."""
    if not bug:
        k.fill("L1", 0, A)
        k.pipe_barrier("MTE2")
    k.gm_to_l1(0, a, held=16)
    k.gm_to_l1(A, b)
    order(k, "MTE2", "MTE1")
    to_l0(k, 0, 0, 0, A)
    order(k, "MTE1", "M")
    product(k, 0, 0, 0)
    drain(k, c, 0)


@planted("illegal read L1", *HALVES, core=CUBE, buffer="L1")
@planted("illegal read L0A", *HALVES, core=CUBE, buffer="L0A")
@planted("illegal read L0C", *HALVES, core=CUBE, buffer="L0C")
@planted("illegal write L0B", *HALVES, core=CUBE, buffer="to L0B")
@planted("illegal write L0C", *HALVES, core=CUBE, buffer="to L0C")
@planted("illegal write L1", *HALVES, core=CUBE, buffer="to L1")
def beyond_the_end_of_a_buffer(k, a, b, c, *, bug, buffer):
    """One tile beyond the last."""

    def at(name, size):
        return k.chip.buffers[name.removeprefix("to ")] - size // 2 if bug and name == buffer else 0

    k.data_copy("GM", "L1", at("to L1", A), a.address, A)
    k.data_copy("GM", "L1", A, b.address, A)
    order(k, "MTE2", "MTE1")
    k.load_data_2d("L0A", 0, at("L1", A), 2, 1)
    k.load_data_2d("L0B", at("to L0B", A), A, 2, 1)
    order(k, "MTE1", "M")
    product(k, at("to L0C", C), at("L0A", A), 0)
    drain(k, c, at("L0C", C))


@planted("misaligned access L1", *HALVES, core=CUBE, buffer="L1")
@planted("misaligned access L0A", *HALVES, core=CUBE, buffer="L0A")
@planted("misaligned access L0C", *HALVES, core=CUBE, buffer="L0C")
def unaligned(k, a, b, c, *, bug, buffer):
    load_both(k, a, b, 0, A)
    order(k, "MTE2", "MTE1")
    k.load_data_2d("L0A", 0, 16 if bug and buffer == "L1" else 0, 2, 1)
    k.load_data_2d("L0B", 0, A, 2, 1)
    order(k, "MTE1", "M")
    product(k, 0, 32 if bug and buffer == "L0A" else 0, 0)
    drain(k, c, 32 if bug and buffer == "L0C" else 0)
