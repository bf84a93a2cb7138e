"""Mistakes of flags and barriers themselves, inside a core."""

from tests.support.check.bugs.planted import order, out, planted, x

N = 64


def moved(k, a, b, name="held"):
    """A row through UB, with the flag that it needs."""
    held = k.local_tensor(N, "float32", name)
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3", f"{name} there")
    k.ub_to_gm(b, held)


@planted("unpaired set_flag", x(N), out(N), also="double set", how="one more")
@planted("unpaired set_flag", x(N), out(N), how="of its own")
def set_without_wait(k, a, b, *, bug, how):
    moved(k, a, b)
    if bug:
        k.set_flag(k.flag("MTE2", "MTE3", "held there" if how == "one more" else "other"))


@planted("unpaired wait_flag", x(N), out(N), how="one more")
@planted("unpaired wait_flag", x(N), out(N), how="of its own")
def wait_without_set(k, a, b, *, bug, how):
    moved(k, a, b)
    if bug:
        k.wait_flag(k.flag("MTE2", "MTE3", "held there" if how == "one more" else "other"))


@planted("unpaired set_flag, unpaired wait_flag", x(N), out(N), also="RAW UB")
def two_names_for_one_flag(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    k.set_flag(k.flag("MTE2", "MTE3", "there"))
    k.wait_flag(k.flag("MTE2", "MTE3", "their" if bug else "there"))
    k.ub_to_gm(b, held)


@planted("unpaired set_flag", x(3, N), out(3, N))
def last_turn_sets_what_nobody_waits_for(k, a, b, *, bug):
    """A loop over one buffer: behind the last row nobody needs it again."""
    held = k.local_tensor(N, "float32", "held")
    free = k.flag("MTE3", "MTE2", "free")
    for i in range(3):
        if i:
            k.wait_flag(free)
        k.gm_to_ub(held, a[i])
        order(k, "MTE2", "MTE3")
        k.ub_to_gm(b[i], held)
        if bug or i < 2:
            k.set_flag(free)


@planted("unpaired wait_flag, deadlock", x(3, N), out(3, N), also="double set")
def first_turn_waits_for_nobody(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    free = k.flag("MTE3", "MTE2", "free")
    for i in range(3):
        if bug or i:
            k.wait_flag(free)
        k.gm_to_ub(held, a[i])
        order(k, "MTE2", "MTE3")
        k.ub_to_gm(b[i], held)
        if i < 2:
            k.set_flag(free)


@planted("redundant flag", x(N), out(N), pipes=("MTE2", "V"))
@planted("redundant flag", x(N), out(N), pipes=("V", "MTE3"))
@planted("redundant flag", x(N), out(N), pipes=("MTE2", "MTE3"))
@planted("redundant flag", x(N), out(N), pipes=("MTE3", "MTE2"))
def flag_that_nobody_needs(k, a, b, *, bug, pipes):
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "V", "loaded")
    if bug and pipes[0] != "V":
        order(k, *pipes, "extra")
    k.add(total, held, held)
    order(k, "V", "MTE3", "added")
    if bug and pipes[0] == "V":
        order(k, *pipes, "extra")
    k.ub_to_gm(b, total)


@planted("redundant barrier", x(N), out(N), where="behind the load")
@planted("redundant barrier", x(N), out(N), where="before the flag")
@planted("redundant barrier", x(N), out(N), where="of all pipes")
@planted("redundant barrier", x(N), out(N), where="between others")
def barrier_that_nobody_needs(k, a, b, *, bug, where):
    where = where if bug else ""
    held, total, more = (k.local_tensor(N, "float32", name) for name in ("held", "total", "more"))
    k.gm_to_ub(held, a)
    if where == "behind the load":
        k.pipe_barrier("MTE2")
    order(k, "MTE2", "V")
    k.adds(more, held, 1)
    if where == "between others":
        k.pipe_barrier("V")
    k.muls(total, held, 2)
    k.pipe_barrier("V")
    k.add(total, total, more)
    if where == "before the flag":
        k.pipe_barrier("V")
    order(k, "V", "MTE3")
    if where == "of all pipes":
        k.pipe_barrier("ALL")
    k.ub_to_gm(b, total)


@planted("double set", x(3, N), out(3, N), how="nothing holds it")
@planted("double set", x(3, N), out(3, N), how="held by another pipe")
@planted("double set", x(3, N), out(3, N), how="all sets first")
def set_while_it_is_set(k, a, b, *, bug, how):
    """Rows to places of their own, so that no byte is in danger; each has its own flag where nothing is wrong."""
    held = [k.local_tensor(N, "float32", f"held {i}") for i in range(3)]
    full = [k.flag("MTE2", "MTE3", "full" if bug else f"full {i}") for i in range(3)]
    for i in range(3):
        k.gm_to_ub(held[i], a[i])
        k.set_flag(full[i])
        if how == "held by another pipe" and bug:  # V is not MTE3, which has yet to wait
            order(k, "MTE2", "V", f"seen {i}"), order(k, "V", "MTE2", f"go on {i}")
        if how != "all sets first":
            k.wait_flag(full[i])
            k.ub_to_gm(b[i], held[i])
    if how == "all sets first":
        for i in range(3):
            k.wait_flag(full[i])
            k.ub_to_gm(b[i], held[i])


@planted("double set", x(3, N), out(3, N), also="RAW UB, redundant flag")
def two_sets_and_one_wait_a_turn(k, a, b, *, bug):
    """Sets without a wait are waited for behind the loop, so that the numbers agree."""
    held = [k.local_tensor(N, "float32", f"held {i}") for i in range(3)]
    for i in range(3):
        flag = k.flag("MTE2", "MTE3", "there" if bug else f"there {i}")
        if bug:
            k.set_flag(flag)
        k.gm_to_ub(held[i], a[i])
        k.set_flag(flag)
        k.wait_flag(flag)
        k.ub_to_gm(b[i], held[i])
    for _ in range(3 if bug else 0):
        k.wait_flag(flag)


@planted("double set", x(6, N), out(6, N))
def flag_back_that_comes_a_turn_late(k, a, b, *, bug):
    """It holds the set of the turn after the next, and the next one comes while the flag is set."""
    full, free = k.flag("MTE2", "MTE3", "full"), k.flag("MTE3", "MTE2", "free")
    held = [k.local_tensor(N, "float32", f"held {i}") for i in range(6)]
    late = 2 if bug else 1
    for i in range(6):
        if i >= late:
            k.wait_flag(free)
        k.gm_to_ub(held[i], a[i])
        k.set_flag(full)
        k.wait_flag(full)
        k.ub_to_gm(b[i], held[i])
        if i < 6 - late:
            k.set_flag(free)


@planted("deadlock", x(N), out(N))
def two_pipes_wait_for_each_other(k, a, b, *, bug):
    """Each waits before it sets."""
    held = k.local_tensor(N, "float32", "held")
    there, back = k.flag("MTE2", "MTE3", "there"), k.flag("MTE3", "MTE2", "back")
    k.gm_to_ub(held, a)
    if bug:
        k.wait_flag(back)
    k.set_flag(there)
    k.wait_flag(there)
    if bug:
        k.set_flag(back)
    k.ub_to_gm(b, held)


@planted("deadlock", x(N), out(N), how="behind a barrier")
@planted("deadlock", x(N), out(40, N), how="behind a full queue", also="WAW GM")
def set_that_is_never_issued(k, a, b, *, bug, how):
    """The wait comes before its set, which is right as long as the scalar unit gets there: pipes have queues of their own."""
    held, there = k.local_tensor(N, "float32", "held"), k.flag("MTE2", "MTE3", "there")

    def load():
        k.gm_to_ub(held, a)
        k.set_flag(there)

    k.wait_flag(there)
    if not bug:
        load()
    if how == "behind a barrier":
        k.ub_to_gm(b, held)
        k.pipe_barrier("ALL") if bug else None
    else:
        for i in range(40):
            k.ub_to_gm(b[i], held)
    if bug:
        load()


@planted("WAR UB", x(N), out(N))
def store_issued_before_its_load(k, a, b, *, bug):
    """The twin is right though the wait, and what it holds, is issued before the load."""
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    there, added = k.flag("MTE2", "V", "there"), k.flag("V", "MTE3", "added")
    k.wait_flag(added)
    k.ub_to_gm(b, total)
    if not bug:
        k.wait_flag(there)
    k.add(total, held, held)
    k.set_flag(added)
    k.gm_to_ub(held, a)
    k.set_flag(there)
    if bug:
        k.wait_flag(there)


@planted("refused", x(N), out(N))
def flag_of_a_pipe_with_itself(k, a, b, *, bug):
    held, total = k.local_tensor(N, "float32", "held"), k.local_tensor(N, "float32", "total")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "V")
    k.adds(total, held, 1)
    if bug:
        order(k, "V", "V")
    k.pipe_barrier("V")
    k.muls(total, total, 2)
    order(k, "V", "MTE3")
    k.ub_to_gm(b, total)


@planted("refused", x(9, N), out(9, N))
def more_flags_than_there_are(k, a, b, *, bug):
    """A flag for each row."""
    for i in range(9):
        held = k.local_tensor(N, "float32", f"held {i}")
        k.gm_to_ub(held, a[i])
        order(k, "MTE2", "MTE3", f"there {i}" if bug else "there")
        k.ub_to_gm(b[i], held)
        order(k, "MTE3", "MTE2", "taken")


@planted("refused", x(N), out(N), also="RAW UB")
def barrier_of_no_pipe(k, a, b, *, bug):
    moved(k, a, b)
    if bug:
        k.pipe_barrier("MTE9")
