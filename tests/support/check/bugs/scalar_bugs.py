"""Mistakes of the scalar unit: elements that other pipes have or need, and lines of its data cache that stay there."""

from tests.support.check.bugs.planted import ALL, order, out, planted, work, x

N, LINE = 64, 16
"""Numbers of a row, and of a line of the data cache."""
CLEANS = ALL[1:]
"""Chips with DataCacheCleanAndInvalid."""


def row_of(k, source):
    """A row of UB with `source` in it, for MTE3."""
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, source)
    order(k, "MTE2", "MTE3")
    return held


@planted("RAW UB", x(N), out(N))
def scalar_load_before_the_row_is_there(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "MTE3" if bug else "S")
    k.scalar_load(held[3:4])
    k.ub_to_gm(b, held)


@planted("RAW UB", x(N), out(N))
def store_before_the_element_is_there(k, a, b, *, bug):
    held = k.local_tensor(N, "float32", "held")
    k.gm_to_ub(held, a)
    order(k, "MTE2", "S")
    k.scalar_store(held[3:4], 1)
    if not bug:
        order(k, "S", "MTE3")
    k.ub_to_gm(b, held)


@planted("WAW GM, several cores GM", out(4 * LINE), blocks=4, also="unwritten output GM")
def elements_of_one_line(k, a, *, bug):
    """The cores write different bytes, but each writes the whole line back."""
    place = k.block if bug else LINE * k.block
    for number in range(1 if bug else LINE):
        k.scalar_store(a[place + number : place + number + 1], k.block)


@planted("RAW GM", work(N), out(N), chips=CLEANS)
@planted("RAW GM", work(N), out(N), chips=CLEANS, behind=True)
def line_that_stays_in_the_cache(k, a, b, *, bug, behind=False):
    """A flag alone does not bring a store to GM, nor does a line that is written back behind the flag."""
    for number in range(N):
        k.scalar_store(a[number : number + 1], number)
    for line in range(0, N, LINE):
        if not (bug and line == LINE):
            k.clean_data_cache(a[line : line + 1])
    order(k, "S", "MTE2")
    if behind:
        k.clean_data_cache()
    k.ub_to_gm(b, row_of(k, a))


@planted("WAW GM", x(N), out(N + 1), chips=CLEANS)
@planted("WAW GM", x(N), out(N + 1), chips=CLEANS, whole=True)
def row_beside_a_store(k, a, b, *, bug, whole=False):
    """Its line goes back at the end, with what stood beside the store before the row was written."""
    k.scalar_store(b[:1], 1)
    if not bug:
        k.clean_data_cache(None if whole else b[:1])
    order(k, "S", "MTE3")
    k.ub_to_gm(b[1:], row_of(k, a))


@planted("WAW GM", x(N), x(N), chips=CLEANS)
@planted("WAW GM", x(N), x(N), chips=CLEANS, whole=True)
def row_behind_a_load(k, a, b, *, bug, whole=False):
    """The load fetches a line that the store writes back, with what stood there before the row was written."""
    k.scalar_load(b[1:2])
    k.ub_to_gm(b, row_of(k, a))
    order(k, "MTE3", "S")
    if not bug:
        k.clean_data_cache(None if whole else b[:1])
    k.scalar_store(b[:1], 1)
    k.clean_data_cache(b[:1])


@planted("RAW GM", x(N), x(N), chips=CLEANS)
@planted("RAW GM", x(N), x(N), chips=CLEANS, stored=True)
def load_of_a_line_that_stays_in_the_cache(k, a, b, *, bug, stored=False):
    """The second load reads what stood there before the row was written, though a flag orders both."""
    k.scalar_load(b[1:2])
    k.ub_to_gm(b, row_of(k, a))
    order(k, "MTE3", "S")
    k.clean_data_cache(b[LINE : LINE + 1] if bug else b[LINE - 1 : LINE])
    if stored:
        k.scalar_store(b[2 * LINE : 2 * LINE + 1], 1)
    k.scalar_load(b[:1])
