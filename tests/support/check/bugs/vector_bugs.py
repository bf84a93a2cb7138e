"""Mistakes in the order of a vector core's pipes: races in UB and in GM."""

from tests.support.check.bugs.planted import order, out, planted, work, x

N = 64


@planted("RAW UB", x(N), out(N), left_out="MTE2->V")
@planted("RAW UB", x(N), out(N), left_out="V->MTE3")
def sum_of_itself(k, a, b, *, bug, left_out):
    """Load, add, store; a flag is missing."""
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(held, a)
    if not (bug and left_out == "MTE2->V"):
        order(k, "MTE2", "V")
    k.add(total, held, held)
    if not (bug and left_out == "V->MTE3"):
        order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("RAW UB", x(N), out(N))
def copied_before_it_came(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    if not bug:
        order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)


@planted("WAR UB", x(4, N), out(4, N), also="double set", left_out="V->MTE2")
@planted("WAR UB", x(4, N), out(4, N), also="double set", left_out="MTE3->V")
def one_buffer_for_all_rows(k, a, b, *, bug, left_out):
    """The next row comes while the one before is read."""
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    for i in range(4):
        if i and not (bug and left_out == "V->MTE2"):
            k.wait_flag(k.flag("V", "MTE2", "read"))
        k.gm_to_ub(held, a[i])
        order(k, "MTE2", "V")
        if i and not (bug and left_out == "MTE3->V"):
            k.wait_flag(k.flag("MTE3", "V", "stored"))
        k.add(total, held, held)
        if i < 3 and not (bug and left_out == "V->MTE2"):
            k.set_flag(k.flag("V", "MTE2", "read"))
        order(k, "V", "MTE3")
        k.ub_to_gm(b[i], total)
        if i < 3 and not (bug and left_out == "MTE3->V"):
            k.set_flag(k.flag("MTE3", "V", "stored"))


@planted("WAR UB", x(4, N), out(4, N), also="double set")
def next_row_over_one_that_leaves(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    for i in range(4):
        k.gm_to_ub(held, a[i])
        order(k, "MTE2", "MTE3")
        k.ub_to_gm(b[i], held)
        if i < 3 and not bug:
            order(k, "MTE3", "MTE2")


@planted("WAW UB", x(N // 2), out(N))
def zeros_over_what_was_loaded(k, a, b, *, bug):
    """Zeros behind a short row: the load must come after them."""
    held = k.local_tensor(N, "float32", "held")
    k.duplicate(held, 0)
    if not bug:
        order(k, "V", "MTE2")
    k.gm_to_ub(held[: N // 2], a)
    order(k, "MTE2", "MTE3")
    if bug:
        order(k, "V", "MTE3")
    k.ub_to_gm(b, held)


@planted("WAW UB", x(N), out(N))
def constant_over_a_load(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    if not bug:
        order(k, "MTE2", "V")
    k.duplicate(held[:16], 1)
    order(k, "V", "MTE3")
    if bug:
        order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)


@planted("RAW UB", x(N), out(N))
def no_barrier_between_instructions(k, a, b, *, bug):
    """The second reads what the first has not written yet."""
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "V")
    k.adds(total, held, 1)
    if not bug:
        k.pipe_barrier("V")
    k.muls(total, total, 2)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("RAW UB", x(N), out(N), chips=("ascend910a", "ascend910b3", "ascend950pr_9589"))
def barrier_of_another_pipe(k, a, b, *, bug):
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "V")
    k.adds(total, held, 1)
    k.pipe_barrier("MTE3" if bug else "V")
    k.muls(total, total, 2)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("WAW UB", x(N), out(N))
def written_twice_without_barrier(k, a, b, *, bug):
    total, held = k.local_tensor(N, "float32", "total"), k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "V")
    k.duplicate(total, 0)
    if not bug:
        k.pipe_barrier("V")
    k.adds(total[:32], held[:32], 1)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("WAW UB", x(N), x(32), out(N))
def two_loads_to_one_place(k, a, corner, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    if not bug:
        k.pipe_barrier("MTE2")
    k.gm_to_ub(held[:32], corner)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(b, held)


@planted("WAR UB", x(6, N), out(6, N), wrong="read")
@planted("WAR UB", x(6, N), out(6, N), wrong="write")
def wrong_one_of_two_buffers(k, a, b, *, bug, wrong):
    """Double buffers, and one side takes the other one's place."""
    held = [k.local_tensor(N, "float32", f"held {i}") for i in range(2)]
    full = [k.flag("MTE2", "MTE3", f"full {i}") for i in range(2)]
    free = [k.flag("MTE3", "MTE2", f"free {i}") for i in range(2)]
    if bug:
        k.gm_to_ub(held[1], a[0])  # so that nothing is read before it was written
        order(k, "MTE2", "MTE3", "first")
        order(k, "MTE3", "MTE2", "back")
    for i in range(6):
        if i > 1:
            k.wait_flag(free[i % 2])
        k.gm_to_ub(held[(i + (bug and wrong == "write" and i > 3)) % 2], a[i])
        k.set_flag(full[i % 2])
        k.wait_flag(full[i % 2])
        k.ub_to_gm(b[i], held[(i + (bug and wrong == "read")) % 2])
        if i < 4:
            k.set_flag(free[i % 2])


@planted("RAW UB", x(N), out(N), also="redundant flag", how="early set")
@planted("RAW UB", x(N), out(N), also="redundant flag", how="late wait")
@planted("RAW UB", x(N), out(N), also="redundant flag", how="other way")
@planted("RAW UB", x(N), out(N), also="redundant flag", how="other pipe")
def misplaced_flag(k, a, b, *, bug, how):
    """The flag is there, but not where it orders the load and the sum."""
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    how = how if bug else ""
    source, destination = {"other way": ("V", "MTE2"), "other pipe": ("MTE2", "MTE3")}.get(how, ("MTE2", "V"))
    flag = k.flag(source, destination, "loaded")
    if how == "early set":
        k.set_flag(flag)
    k.gm_to_ub(held, a)
    if how != "early set":
        k.set_flag(flag)
    if how != "late wait":
        k.wait_flag(flag)
    k.add(total, held, held)
    if how == "late wait":
        k.wait_flag(flag)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("RAW UB", x(2, N), out(2, N), also="redundant flag")
def flags_of_two_buffers_swapped(k, a, b, *, bug):
    """The wait for the second load stands before the use of the first, and the other way round."""
    held = [k.local_tensor(N, "float32", f"held {i}") for i in range(2)]
    flags = [k.flag("MTE2", "MTE3", f"full {i}") for i in range(2)]
    for i in range(2):
        k.gm_to_ub(held[i], a[i])
        k.set_flag(flags[i])
    for i in range(2):
        k.wait_flag(flags[i])
        k.ub_to_gm(b[i], held[1 - i if bug else i])


@planted("WAW UB", x(N), x(N), out(N))
def second_tensor_begins_a_block_early(k, a, b, c, *, bug):
    """The last block of the first load is overwritten by the second."""
    both, total = k.local_tensor(2 * N, "float32", "both"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(both[:N], a)
    start = N - 8 if bug else N
    k.gm_to_ub(both[start : start + N], b)
    order(k, "MTE2", "V")
    k.add(total, both[:N], both[start : start + N])
    order(k, "V", "MTE3")
    k.ub_to_gm(c, total)


@planted("refused", x(N), out(N))
def sum_partly_over_its_operand(k, a, b, *, bug):
    """The sum begins a block behind its operand."""
    held = k.local_tensor(2 * N, "float32", "held")
    k.gm_to_ub(held[:N], a)
    order(k, "MTE2", "V")
    start = 8 if bug else N
    k.add(held[start : start + N], held[:N], held[:N])
    order(k, "V", "MTE3")
    k.ub_to_gm(b, held[start : start + N])


@planted("WAW UB", x(4, 16), x(4, 16), out(4, 32))
def columns_that_overlap(k, a, b, c, *, bug):
    """Two halves of rows side by side; the second begins a block early."""
    both = k.local_tensor((4, 40), "float32", "both")
    start = 8 if bug else 16
    k.gm_to_ub(both[:, :16], a)
    k.gm_to_ub(both[:, start : start + 16], b)
    if bug:
        k.gm_to_ub(both[:, 24:32], b[:, :8])
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(c, both[:, :32])


@planted("RAW GM", x(N), work(N), out(N))
def read_back_too_early(k, a, between, b, *, bug):
    """Through GM: the store and the load that follows are on two pipes."""
    held = [k.local_tensor(N, "float32", f"held {i}") for i in range(2)]
    k.gm_to_ub(held[0], a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(between, held[0])
    if not bug:
        order(k, "MTE3", "MTE2")
    k.gm_to_ub(held[1], between)
    order(k, "MTE2", "MTE3", "again")
    k.ub_to_gm(b, held[1])


@planted("WAR GM", x(N), x(N), out(N))
def stored_over_what_is_loaded(k, a, zeros, b, *, bug):
    """A tensor is cleared while its old values are still on their way."""
    old, new = k.local_tensor(N, "float32", "old"), k.local_tensor(N, "float32", "new")
    k.gm_to_ub(new, zeros)
    if bug:
        order(k, "MTE2", "MTE3", "new")
    k.gm_to_ub(old, a)
    if not bug:
        order(k, "MTE2", "MTE3", "old")
    k.ub_to_gm(a, new)
    if bug:
        order(k, "MTE2", "MTE3", "old")
    k.ub_to_gm(b, old)


@planted("WAW GM", x(N), out(N))
def stored_twice(k, a, b, *, bug):
    held, zero = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "zero")
    k.duplicate(zero, 0)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, zero)
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    if not bug:
        k.pipe_barrier("MTE3")
    k.ub_to_gm(b[:32], held[:32])


@planted("WAW GM", x(N), out(N))
def added_before_the_zeros_are_there(k, a, b, *, bug):
    """atomic_add to what the same core has just cleared."""
    held, zero = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "zero")
    k.duplicate(zero, 0)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, zero)
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    if not bug:
        k.pipe_barrier("MTE3")
    k.ub_to_gm(b, held, atomic_add=True)


@planted("RAW GM", x(N), work(N), out(N))
def sum_read_before_it_was_added(k, a, total, b, *, bug):
    held, back = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "back")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3")
    k.ub_to_gm(total, held)
    k.pipe_barrier("MTE3")
    k.ub_to_gm(total, held, atomic_add=True)
    if not bug:
        order(k, "MTE3", "MTE2")
    k.gm_to_ub(back, total)
    order(k, "MTE2", "MTE3", "again")
    k.ub_to_gm(b, back)
