"""Mistakes between cores: the same bytes of GM, cross-core flags, atomic sums."""

from tests.support.check.bugs.planted import ALL, SPLIT, order, out, planted, work, x

N = 64
MIX = {"core": "MIX", "chips": SPLIT}
TOGETHER = {"core": "AIV", "chips": SPLIT, "all_cores": True}
ON_ITS_PIPE, STOPS_ISSUE = {"chips": ("ascend950pr_9589",)}, {"chips": ("ascend910b3",)}
"""Chips by the effect of a wait for a flag between cores."""
THREE = (x(3, 16, 16, dtype="float16"), work(16, 16), out(3, 16, 16))


def copied(k, source, target, name="held", **options):
    """A row from GM to GM."""
    held = k.local_tensor(source.shape, source.dtype, name)
    k.gm_to_ub(held, source)
    order(k, "MTE2", "MTE3", f"{name} there")
    k.ub_to_gm(target, held, **options)


@planted("WAW GM, several cores GM", x(4, N), out(4, N), blocks=4)
def rows_of_the_next_core(k, a, b, *, bug):
    """Each core writes a row too many; the last one's is cut off."""
    end = k.block + (2 if bug else 1)
    copied(k, a[k.block : end], b[k.block : end])


@planted("WAW GM, several cores GM", x(4 * N), out(4 * N), blocks=4)
def share_that_begins_a_block_early(k, a, b, *, bug):
    start = max(k.block * N - (8 if bug else 0), 0)
    copied(k, a[start : (k.block + 1) * N], b[start : (k.block + 1) * N])


@planted("WAW GM, several cores GM", x(4, N), out(4, N), blocks=4)
def share_of_every_core_is_the_first(k, a, b, *, bug):
    for row in range(0 if bug else k.block, 4, 1 if bug else k.blocks):
        held = k.local_tensor(N, "float32", f"held {row}")
        k.gm_to_ub(held, a[row])
        order(k, "MTE2", "MTE3", f"there {row}")
        k.ub_to_gm(b[row], held)


@planted("WAW GM, several cores GM", x(4, N), x(N), blocks=4)
def plain_stores_for_a_sum(k, a, total, *, bug):
    """Every core adds its row to the total; one that stores replaces it."""
    copied(k, a[k.block], total, atomic_add=not bug)


@planted("WAW GM, several cores GM", x(4, N), x(N), blocks=4)
def one_core_stores_where_others_add(k, a, total, *, bug):
    copied(k, a[k.block], total, atomic_add=not (bug and k.block == 3))


@planted("WAW GM, several cores GM", x(8, N), out(N), blocks=8, **TOGETHER)
def zeros_that_others_do_not_wait_for(k, a, total, *, bug):
    """The first core clears the total, all add to it: a barrier of all cores stands between."""
    if k.block == 0:
        zero = k.local_tensor(N, "float32", "zero")
        k.duplicate(zero, 0)
        order(k, "V", "MTE3", "zero")
        k.ub_to_gm(total, zero)
    if not bug:
        k.cross_core_set(0, 0, "MTE3")
        k.cross_core_wait(0, 0, "MTE3")
    copied(k, a[k.block], total, atomic_add=True)


@planted("RAW GM", x(8, N), work(8, N), out(8, N), blocks=8, missing="both", **TOGETHER)
@planted("RAW GM", x(8, N), work(8, N), out(8, N), blocks=8, missing="wrong pipe", **(TOGETHER | ON_ITS_PIPE))
@planted("RAW GM", x(8, N), work(8, N), out(8, N), blocks=8, missing="early", **TOGETHER)
def row_of_the_neighbour(k, a, between, b, *, bug, missing):
    """Every core reads what the next one wrote."""
    missing = missing if bug else ""
    if missing == "early":
        k.cross_core_set(0, 0, "MTE3")
    copied(k, a[k.block], between[k.block])
    if missing in ("", "wrong pipe"):
        k.cross_core_set(0, 0, "MTE3")
    if missing != "both":
        k.cross_core_wait(0, 0, "MTE3" if missing == "wrong pipe" else "MTE2")
    copied(k, between[(k.block + 1) % 8], b[k.block], "back")


@planted("WAR GM", x(8, N), work(8, N), out(8, N), blocks=8, **TOGETHER)
def row_replaced_while_the_neighbour_reads(k, a, between, b, *, bug):
    copied(k, a[k.block], between[k.block])
    k.cross_core_set(0, 0, "MTE3")
    k.cross_core_wait(0, 0, "MTE2")
    copied(k, between[(k.block + 1) % 8], b[k.block], "back")
    if not bug:
        k.cross_core_set(1, 0, "MTE2")
        k.cross_core_wait(1, 0, "MTE3")
    zero = k.local_tensor(N, "float32", "zero")
    k.duplicate(zero, 0)
    order(k, "V", "MTE3", "zero")
    k.ub_to_gm(between[k.block], zero)


A = 16 * 16 * 2


def product_to(k, a, target, flag=None, wait=None):
    """A product of a tile with itself, to GM."""
    k.data_copy("GM", "L1", 0, a.address, A)
    order(k, "MTE2", "MTE1")
    k.load_data_2d("L0A", 0, 0, 2, 1)
    k.load_data_2d("L0B", 0, 0, 2, 1)
    order(k, "MTE1", "M")
    k.mmad(0, 0, 0, 16, 16, 16, "float16", False)
    order(k, "M", "FIX")
    k.fixpipe_nd(target.address, 0, 16, 16, 16, "float32", 64)


TILE = (x(16, 16, dtype="float16"), work(16, 16), out(16, 16))


@planted("RAW GM", *TILE, missing="both", **MIX)
@planted("RAW GM", *TILE, missing="early set", **MIX)
@planted("RAW GM", *TILE, missing="late wait", **MIX)
def product_handed_to_the_vector_cores(k, a, between, c, *, bug, missing):
    """The cube core writes a tile, its vector cores read a half each."""
    missing = missing if bug else ""
    if k.is_cube:
        if missing == "early set":
            k.cross_core_set(0, 2, "FIX")
        product_to(k, a, between)
        if missing in ("", "late wait"):
            k.cross_core_set(0, 2, "FIX")
        return
    mine = slice(8 * k.sub_block, 8 * k.sub_block + 8)
    held = k.local_tensor((8, 16), "float32", "held")
    if missing in ("", "early set"):
        k.cross_core_wait(0, 2, "MTE2")
    k.gm_to_ub(held, between[mine])
    if missing == "late wait":
        k.cross_core_wait(0, 2, "MTE2")
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(c[mine], held)


@planted("WAW GM, several cores GM, unwritten output GM", *TILE, **MIX)
def both_vector_cores_take_the_first_half(k, a, between, c, *, bug):
    if k.is_cube:
        product_to(k, a, between)
        k.cross_core_set(0, 2, "FIX")
        return
    half = 0 if bug else k.sub_block
    k.cross_core_wait(0, 2, "MTE2")
    copied(k, between[8 * half : 8 * half + 8], c[8 * half : 8 * half + 8])


@planted("WAR GM", *THREE, barrier=True, **(MIX | ON_ITS_PIPE))
@planted("WAR GM", *THREE, barrier=False, **(MIX | STOPS_ISSUE))
def tile_replaced_before_it_was_read(k, a, between, c, *, bug, barrier):
    """One place for three tiles: the flag back is missing. Where its wait stops issue it is a barrier too."""
    for i in range(3):
        if k.is_cube:
            if i:
                if barrier or bug:
                    k.pipe_barrier("ALL")
                if not bug:
                    k.cross_core_wait(1, 2, "FIX")
            product_to(k, a[i], between)
            k.cross_core_set(0, 2, "FIX")
        else:
            mine = slice(8 * k.sub_block, 8 * k.sub_block + 8)
            held = k.local_tensor((8, 16), "float32", f"held {i}")
            k.cross_core_wait(0, 2, "MTE2")
            k.gm_to_ub(held, between[mine])
            if i < 2 and not bug:
                k.cross_core_set(1, 2, "MTE2")
            order(k, "MTE2", "MTE3", f"there {i}")
            k.ub_to_gm(c[i][mine], held)


@planted("RAW GM", x(2, N), work(2, N), out(2, N), **MIX)
def half_of_the_other_vector_core(k, a, between, b, *, bug):
    """The vector cores of a block exchange rows; mode 1 joins them."""
    if k.is_cube:
        return
    copied(k, a[k.sub_block], between[k.sub_block])
    if not bug:
        k.cross_core_set(0, 1, "MTE3")
        k.cross_core_wait(0, 1, "MTE2")
    copied(k, between[1 - k.sub_block], b[k.sub_block], "back")


@planted("barrier not reached", x(8, N), work(8, N), out(8, N), blocks=8, who="last", also="RAW GM", **TOGETHER)
@planted("barrier not reached", x(8, N), work(8, N), out(8, N), blocks=8, who="odd", also="RAW GM", **TOGETHER)
def barrier_that_some_cores_leave_out(k, a, between, b, *, bug, who):
    """Who reads nothing of the others does not wait for them, and does not tell that it has written."""
    copied(k, a[k.block], between[k.block])
    if not bug or (k.block < 7 if who == "last" else k.block % 2 == 0):
        k.cross_core_set(0, 0, "MTE3")
        k.cross_core_wait(0, 0, "MTE2")
    copied(k, between[(k.block + 1) % 8], b[k.block], "back")


@planted("barrier not reached", x(2, N), work(2, N), out(2, N), also="RAW GM", **MIX)
def barrier_of_one_vector_core(k, a, between, b, *, bug):
    if k.is_cube:
        return
    copied(k, a[k.sub_block], between[k.sub_block])
    if not bug or k.sub_block == 0:
        k.cross_core_set(0, 1, "MTE3")
        k.cross_core_wait(0, 1, "MTE2")
    copied(k, between[1 - k.sub_block], b[k.sub_block], "back")


@planted("unpaired cross_core_set_flag", *TILE, what="set", **MIX)
@planted("unpaired cross_core_wait_flag", *TILE, what="wait", **MIX)
@planted("unpaired cross_core_set_flag, unpaired cross_core_wait_flag", *TILE, what="number", also="RAW GM", **MIX)
def cross_core_flag_without_partner(k, a, between, c, *, bug, what):
    what = what if bug else ""
    if k.is_cube:
        product_to(k, a, between)
        k.cross_core_set(3 if what == "number" else 0, 2, "FIX")
        if what == "set":
            k.cross_core_set(1, 2, "FIX")
        return
    mine = slice(8 * k.sub_block, 8 * k.sub_block + 8)
    k.cross_core_wait(0, 2, "MTE2")
    copied(k, between[mine], c[mine])
    if what == "wait":
        k.cross_core_wait(1, 2, "MTE2")


@planted("deadlock", *TILE, **MIX)
def both_wait_before_they_set(k, a, between, c, *, bug):
    """The cube core waits for a flag that the vector cores set behind a wait for the cube core."""
    if k.is_cube:
        if bug:
            k.cross_core_wait(1, 2, "FIX")
        product_to(k, a, between)
        k.cross_core_set(0, 2, "FIX")
        return
    mine = slice(8 * k.sub_block, 8 * k.sub_block + 8)
    k.cross_core_wait(0, 2, "MTE2")
    copied(k, between[mine], c[mine])
    if bug:
        k.cross_core_set(1, 2, "MTE2")


@planted("flag overflow", x(16, 16, dtype="float16"), work(20, 16, 16), out(20, 16, 16), **MIX)
def flag_between_cores_that_runs_over(k, a, between, c, *, bug):
    """Twenty tiles, and nothing holds the cube core back."""
    for i in range(20):
        if k.is_cube:
            k.pipe_barrier("ALL")
            if i >= 4 and not bug:
                k.cross_core_wait(1, 2, "FIX")
            product_to(k, a, between[i])
            k.cross_core_set(0, 2, "FIX")
        else:
            mine = slice(8 * k.sub_block, 8 * k.sub_block + 8)
            k.pipe_barrier("ALL")
            k.cross_core_wait(0, 2, "MTE2")
            copied(k, between[i][mine], c[i][mine], "held")
            if i < 16 and not bug:
                k.cross_core_set(1, 2, "MTE2")


@planted("redundant flag", *TILE, **MIX)
def flag_between_cores_that_nobody_needs(k, a, between, c, *, bug):
    if k.is_cube:
        product_to(k, a, between)
        k.cross_core_set(0, 2, "FIX")
        if bug:
            k.cross_core_set(1, 2, "FIX")
        return
    mine = slice(8 * k.sub_block, 8 * k.sub_block + 8)
    k.cross_core_wait(0, 2, "MTE2")
    if bug:
        k.cross_core_wait(1, 2, "MTE2")
    copied(k, between[mine], c[mine])


@planted("redundant flag", x(2, N), out(2, N), **MIX)
def flag_that_the_answer_of_another_core_implies(k, a, b, *, bug):
    """The cube core reads what a vector core wrote, and answers: then its buffer is free, too."""
    if k.is_cube:
        k.cross_core_wait(0, 2, "MTE2")
        k.data_copy("GM", "L1", 0, b.address, 2 * N * 4)
        k.cross_core_set(1, 2, "MTE2")
        return
    held = k.local_tensor(N, "float32", "held")
    for turn in range(2):
        if turn:
            k.cross_core_wait(1, 2, "MTE2")
            if bug:
                order(k, "MTE3", "MTE2", "held free")
        k.gm_to_ub(held, a[(k.sub_block + turn) % 2])
        order(k, "MTE2", "MTE3", "held there")
        k.ub_to_gm(b[k.sub_block], held)
        if not turn:
            k.cross_core_set(0, 2, "MTE3")


@planted("WAW GM, several cores GM", x(4, N), x(N), chips=ALL[1:], blocks=4)
def sums_in_two_formats(k, a, total, *, bug):
    """Additions are in order among each other where all of them add the same format; a 910A has only one."""
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a[k.block])
    order(k, "MTE2", "MTE3")
    added = "float16" if bug and k.block == 1 else "float32"
    k.data_copy("UB", "GM", total.address, held.address, 4 * N, atomic_add=added)
