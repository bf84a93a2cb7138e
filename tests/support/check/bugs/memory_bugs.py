"""Addresses and contents: outside, unaligned, never used, never written."""

from tests.support.check.bugs.planted import ALL, COUPLED, SPLIT, order, out, planted, work, x

N = 64


def bytes_in(k, address, size, name="held"):
    """`size` bytes from an address of GM to UB."""
    held = k.allocate("UB", 4 * N, name)
    k.data_copy("GM", "UB", held, address, size)
    return held


@planted("illegal read GM", x(N), out(N), chips=SPLIT, off=8)
@planted("illegal read GM", x(N), out(N), chips=COUPLED, off=40)
@planted("illegal read GM", x(N), out(N), off=4 * N)
@planted("illegal read GM", x(N), out(N), off=-32)
@planted("illegal read GM", x(N), out(N), off=1 << 30)
def read_outside(k, a, b, *, bug, off):
    """Off by a few bytes (where copies count blocks, behind the slack), by all, before the beginning, far away."""
    held = bytes_in(k, a.address + (off if bug else 0), 4 * N)
    order(k, "MTE2", "MTE3")
    k.data_copy("UB", "GM", b.address, held, 4 * N)


@planted("illegal write GM", x(N), out(N), chips=SPLIT, off=4)
@planted("illegal write GM", x(N), out(N), chips=COUPLED, off=36)
@planted("illegal write GM", x(N), out(N), off=-32)
def write_outside(k, a, b, *, bug, off):
    """One element further, or one behind the slack; the first one stays unwritten."""
    held = bytes_in(k, a.address, 4 * N)
    order(k, "MTE2", "MTE3")
    k.data_copy("UB", "GM", b.address + (off if bug else 0), held, 4 * N)


@planted("illegal read GM, illegal write GM", x(104), out(104), blocks=2)
def last_tile_is_not_cut_off(k, a, b, *, bug):
    """Tiles of 64 over 104 elements: the last has 40."""
    start = k.block * N
    count = N if bug else min(N, 104 - start)
    held = bytes_in(k, a.address + 4 * start, 4 * count)
    order(k, "MTE2", "MTE3")
    k.data_copy("UB", "GM", b.address + 4 * start, held, 4 * count)


@planted("unwritten output GM, unused memory GM", x(104), out(104))
def tail_left_out(k, a, b, *, bug):
    """Only whole tiles."""
    tiles = 104 // N if bug else -(-104 // N)
    for i in range(tiles):
        place = slice(i * N, (i + 1) * N)
        held = k.local_tensor(len(a[place]), "float32", f"held {i}")
        k.gm_to_ub(held, a[place])
        order(k, "MTE2", "MTE3", f"there {i}")
        k.ub_to_gm(b[place], held)


@planted("unwritten output GM, unused memory GM", x(6, N), out(6, N), blocks=4)
def rows_divided_down(k, a, b, *, bug):
    """Six rows over four cores: one each, and two are nobody's."""
    for row in range(k.block, 4 if bug else 6, 4):
        held = k.local_tensor(N, "float32", f"held {row}")
        k.gm_to_ub(held, a[row])
        order(k, "MTE2", "MTE3", f"there {row}")
        k.ub_to_gm(b[row], held)


@planted("unused memory GM", x(6, N), out(N))
def sum_that_forgets_the_last_row(k, a, b, *, bug):
    """A row that a sum forgets shows as memory that nobody reads."""
    held, total = k.local_tensor((6, N), "float32", "held"), k.local_tensor(N, "float32", "total")
    rows = 5 if bug else 6
    k.gm_to_ub(held[:rows], a[:rows])
    order(k, "MTE2", "V")
    k.duplicate(total, 0)
    k.pipe_barrier("V")
    with k.ordered("V"):
        for row in range(rows):
            k.add(total, total, held[row])
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("illegal read UB", x(N), out(N), what="read")
@planted("illegal write UB", x(N), out(N), what="write")
def beyond_ub(k, a, b, *, bug, what):
    end = k.chip.buffers["UB"] - (2 * N if bug else 4 * N)
    k.data_copy("GM", "UB", end if what == "write" else end - (2 * N if bug else 0), a.address, 4 * N)
    order(k, "MTE2", "MTE3")
    k.data_copy("UB", "GM", b.address, end if what == "read" else k.chip.buffers["UB"] - 4 * N, 4 * N)


@planted("misaligned access UB", x(N), out(N), off=4)
@planted("misaligned access UB", x(N), out(N), off=16)
def unaligned_place_in_ub(k, a, b, *, bug, off):
    held = k.allocate("UB", 8 * N, "held")
    k.data_copy("GM", "UB", held, a.address, 4 * N)
    order(k, "MTE2", "MTE3")
    k.data_copy("UB", "GM", b.address, held + (off if bug else 0), 4 * N)


@planted("misaligned access GM", x(N), out(N))
def number_added_inside_another(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)
    k.pipe_barrier("MTE3")
    k.data_copy("UB", "GM", b.address + (2 if bug else 4), held.address, 32, atomic_add="float32")


@planted("unused memory GM", x(N), x(N), out(N))
def tensor_that_nobody_reads(k, a, more, b, *, bug):
    held, other = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "other")
    k.gm_to_ub(held, a)
    k.gm_to_ub(other, a if bug else more)
    order(k, "MTE2", "V")
    k.add(held, held, other)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, held)


@planted("unused memory UB", x(N), out(N))
def buffer_that_nobody_uses(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    if bug:
        k.local_tensor(16 * N, "float32", "spare")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)


@planted("unused memory GM", x(N), work(N), out(N))
def workspace_that_nobody_uses(k, a, between, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    if not bug:
        k.ub_to_gm(between, held)
    k.ub_to_gm(b, held)


@planted("refused", x(N), out(N), also="illegal read UB, illegal write UB")
def more_than_ub_holds(k, a, b, *, bug):
    at = k.allocate("UB", k.chip.buffers["UB"] if bug else 32, "first")
    held = k.allocate("UB", 4 * N, "held")
    k.data_copy("GM", "UB", at, a.address, 32)
    k.data_copy("GM", "UB", held, a.address, 4 * N)
    order(k, "MTE2", "MTE3")
    k.data_copy("UB", "GM", b.address, held, 4 * N)
    k.pipe_barrier("MTE3")
    k.data_copy("UB", "GM", b.address, at, 32)


@planted("refused", x(N), out(N), chips=ALL)
def path_that_there_is_not(k, a, b, *, bug):
    if bug:
        k.data_copy("GM", "L0C", 0, a.address, 64)
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)


@planted("refused", x(N), out(N))
def index_outside(k, a, b, *, bug):
    """The kernel breaks off; what it did up to there is looked at."""
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)
    if bug:
        k.ub_to_gm(b[N], held)


@planted("uninitialized read UB", x(N), out(N))
def sum_into_what_nobody_cleared(k, a, b, *, bug):
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(held, a)
    if not bug:
        k.duplicate(total, 0)
        k.pipe_barrier("V")
    order(k, "MTE2", "V")
    k.add(total, total, held)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("uninitialized read UB", x(48), out(N))
def tail_of_a_row(k, a, b, *, bug):
    """48 elements are loaded, 64 are worked on."""
    held = k.local_tensor(N, "float32", "held")
    if not bug:
        k.duplicate(held, 0)
        order(k, "V", "MTE2")
    k.gm_to_ub(held[:48], a)
    order(k, "MTE2", "V")
    k.adds(held, held, 1)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, held)


@planted("uninitialized read UB", x(10), out(16), chips=SPLIT)
def last_block_of_a_row(k, a, b, *, bug):
    """A load of ten elements fills its last block, sums of ten elements do not; others load whole blocks."""
    held, total = k.local_tensor(16, "float32", "held"), k.local_tensor(16, "float32", "total")
    k.gm_to_ub(held[:10], a)
    order(k, "MTE2", "V")
    if bug:
        k.adds(total[:10], held[:10], 1)
    else:
        k.adds(total, held, 1)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("uninitialized read UB", x(4, 16), out(4, 24))
def gaps_between_rows(k, a, b, *, bug):
    """Rows that are padded to 24 elements, of which nobody wrote the last 8."""
    held = k.local_tensor((4, 24), "float32", "held")
    if not bug:
        k.duplicate(held, 0)
        order(k, "V", "MTE2")
    k.gm_to_ub(held[:, :16], a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)


@planted("uninitialized read UB", x(N), out(N))
def read_before_it_is_written(k, a, b, *, bug):
    """In order, but the wrong way round."""
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "V")
    if bug:
        k.adds(held, total, 1)
        k.pipe_barrier("V")
        k.adds(total, held, 1)
    else:
        k.adds(total, held, 1)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("uninitialized read GM", work(N), out(N), also="unused memory GM", how="never")
@planted("uninitialized read GM", work(N), out(N), how="half")
def workspace_that_nobody_wrote(k, between, b, *, bug, how):
    zero, held = k.local_tensor(N, "float32", "zero"), k.local_tensor(N, "float32", "held")
    k.duplicate(zero, 0)
    order(k, "V", "MTE3")
    if not (bug and how == "never"):
        count = N // 2 if bug else N
        k.ub_to_gm(between[:count], zero[:count])
        order(k, "MTE3", "MTE2")
    else:
        k.ub_to_gm(b, zero)
        order(k, "MTE3", "MTE2")
    k.gm_to_ub(held, between)
    order(k, "MTE2", "MTE3", "back")
    k.ub_to_gm(b, held)


@planted("uninitialized read GM", x(8, N), work(8, N), out(8, N), blocks=8, core="AIV", chips=SPLIT, all_cores=True)
def workspace_of_a_core_that_wrote_nothing(k, a, between, b, *, bug):
    """The last core has no row to write, and its neighbour reads it."""
    held, back = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "back")
    k.gm_to_ub(held, a[k.block])
    order(k, "MTE2", "MTE3")
    if not (bug and k.block == 7):
        k.ub_to_gm(between[k.block], held)
    else:
        k.ub_to_gm(b[k.block], held)
    k.cross_core_set(0, 0, "MTE3")
    k.cross_core_wait(0, 0, "MTE2")
    k.gm_to_ub(back, between[(k.block + 1) % 8])
    order(k, "MTE2", "MTE3", "back")
    k.ub_to_gm(b[k.block], back)


@planted("uninitialized read GM", out(N), x(N))
def added_to_an_output_that_holds_nothing(k, total, a, *, bug):
    held, zero = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "zero")
    k.gm_to_ub(held, a)
    k.duplicate(zero, 0)
    if not bug:
        order(k, "V", "MTE3")
        k.ub_to_gm(total, zero)
        k.pipe_barrier("MTE3")
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(total, held, atomic_add=True)
    if bug:
        k.pipe_barrier("MTE3")
        order(k, "V", "MTE3")
        k.ub_to_gm(total, zero)


@planted("overrun UB", x(2 * N), out(N))
def two_rows_into_the_place_of_one(k, a, b, *, bug):
    """Behind it is nobody's memory, so that nothing else is wrong."""
    held = k.local_tensor(N, "float32", "held")
    k.data_copy("GM", "UB", held.address, a.address, 4 * N * (2 if bug else 1))
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)
    if not bug:
        k.pipe_barrier("ALL")
        k.gm_to_ub(held, a[N:])


@planted("overrun UB", x(2 * N), x(N), out(2, N))
def neighbour_overwritten_in_order(k, a, c, b, *, bug):
    held, other = (k.local_tensor(N, "float32", name) for name in ("held", "other"))
    k.gm_to_ub(other, c)
    if bug:
        k.pipe_barrier("MTE2")
    k.data_copy("GM", "UB", held.address, a.address, 8 * N if bug else 4 * N)
    if not bug:
        k.gm_to_ub(k.local_tensor(N, "float32", "rest"), a[N:])
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b[0], held)
    k.ub_to_gm(b[1], other)


@planted("overrun UB", x(4, 2 * N), out(4, N))
def place_of_a_queue_filled_twice_over(k, a, b, *, bug):
    """The last place: what is behind it is nobody's."""
    queue = k.ub_queue("q", N if bug else 2 * N, "float32", "MTE2", "MTE3", buffers=1)
    for i in range(4):
        with queue.write() as place:
            k.data_copy("GM", "UB", place.address, a[i].address, 8 * N)
        with queue.read() as place:
            k.data_copy("UB", "GM", b[i].address, place.address, 4 * N)


@planted("overrun L1", x(16, 64, dtype="float16"), out(16, 64, dtype="float16"), chips=COUPLED, core="AI_CORE")
def matrix_larger_than_its_place_in_l1(k, a, b, *, bug):
    held = k.allocate("L1", 1024 if bug else 2048, "held")
    k.data_copy("GM", "L1", held, a.address, 2048)
    place = k.local_tensor((16, 64), "float16", "place")
    k.gm_to_ub(place, a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, place)


@planted("rows over each other GM", x(4, 16), out(32), chips=SPLIT[1:])
def stride_that_counts_the_gaps(k, a, b, *, bug):
    """Three rows of 64 bytes, 32 bytes apart, fill 32 elements: nothing is outside, and half of the rows is lost.

    The 950 counts from start to start; the words of the others hold the gaps, which are never below 0.
    """
    held = k.local_tensor((4, 16), "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    if bug:
        k.data_copy("UB", "GM", b.address, held.address, 64, 3, 64, 32)
    else:
        k.data_copy("UB", "GM", b.address, held.address, 32, 4, 64, 32)
