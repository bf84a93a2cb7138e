"""Matrix product C = A B of float16 matrices: tiles of C over the cube cores, every buffer twice.

While the cube multiplies one step of K, MTE1 loads the next one to L0 and MTE2 the one after that to L1.
"""

import numpy as np

import ascend_sim as asim


@asim.kernel_function(core="AIC")
def matmul(k, a, b, c, *, base_m=128, base_n=128, base_k=64):
    if min(base_m, base_n, base_k) < 16 or (base_m | base_n | base_k) % 16:
        raise ValueError(f"base_m, base_n, base_k = {base_m}, {base_n}, {base_k}; allowed: multiples of 16, a fractal's side")
    m, n, depth = a.shape[0], b.shape[1], a.shape[1]
    left, right = base_m * base_k * a.itemsize, base_k * base_n * b.itemsize
    l1 = k.queue("L1", ("L1", "L1"), (left, right), "MTE2", "MTE1")
    l0 = k.queue("L0", ("L0A", "L0B"), (left, right), "MTE1", "M")
    tiles = k.queue("C", "L0C", base_m * base_n * 4, "M", "FIX")
    places = [(i, j) for i in range(0, m, base_m) for j in range(0, n, base_n)]
    for i, j in k.each(places[k.block :: k.blocks]):  # this block's share
        k.next_tile()
        out = c[i : i + base_m, j : j + base_n]
        rows, columns = out.shape
        with tiles.write() as accumulator:
            for p in k.range(0, depth, base_k):
                a_piece, b_piece = a[i : i + rows, p : p + base_k], b[p : p + base_k, j : j + columns]
                steps = a_piece.shape[1]
                with l1.write() as (a1, b1):  # MTE2: GM -> L1
                    k.gm_to_l1(a1, a_piece)
                    k.gm_to_l1(b1, b_piece)
                with l1.read() as (a1, b1), l0.write() as (a0, b0):  # MTE1: L1 -> L0A, L0B
                    k.l1_to_l0a(a0, a1, rows, steps, a.dtype, held=rows)
                    k.l1_to_l0b(b0, b1, steps, columns, b.dtype, held=steps)
                with l0.read() as (a0, b0):  # M: the cube, in whose word m = 1 is another instruction (GEMV)
                    k.mmad(accumulator, a0, b0, max(rows, 2), steps, columns, a.dtype, accumulate=p > 0)
                    if rows * columns < 10 * 16 * 16:  # on a small tile of L0C the next product has to wait
                        k.pipe_barrier("M")
        k.l0c_to_gm(out, tiles)  # FIX: L0C -> GM


def arguments(rng):
    a = rng.standard_normal((512, 320)).astype(np.float16)
    b = rng.standard_normal((320, 400)).astype(np.float16)
    return a, b, asim.empty((512, 400), "float32")


def expected(a, b):
    return asim.Expected.product(a, b)
