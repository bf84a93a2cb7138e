"""Matrix product C += A B whose sum over K several cores share: each adds its part to C in GM.

For small C and long K: there are more parts than tiles, so that all cores have work. C must be zero at the start.
"""

import numpy as np

import ascend_sim as asim


@asim.kernel_function(core="AIC")
def matmul_split_k(k, a, b, c, *, base_m=64, base_n=64, base_k=64, parts=4):
    if min(base_m, base_n, base_k) < 16 or (base_m | base_n | base_k) % 16:
        raise ValueError(f"base_m, base_n, base_k = {base_m}, {base_n}, {base_k}; allowed: multiples of 16, a fractal's side")
    m, n, depth = a.shape[0], b.shape[1], a.shape[1]
    left, right = base_m * base_k * a.itemsize, base_k * base_n * b.itemsize
    l1 = k.queue("L1", ("L1", "L1"), (left, right), "MTE2", "MTE1")
    l0 = k.queue("L0", ("L0A", "L0B"), (left, right), "MTE1", "M")
    tiles = k.queue("C", "L0C", base_m * base_n * 4, "M", "FIX")
    span = -(-depth // (parts * base_k)) * base_k  # of K, for one part
    work = [(i, j, p) for i in range(0, m, base_m) for j in range(0, n, base_n) for p in range(0, depth, span)]
    for i, j, first in k.each(work[k.block :: k.blocks]):
        k.next_tile()
        out = c[i : i + base_m, j : j + base_n]
        rows, columns = out.shape
        with tiles.write() as accumulator:
            for p in k.range(first, min(first + span, depth), base_k):
                a_piece, b_piece = a[i : i + rows, p : p + base_k], b[p : p + base_k, j : j + columns]
                steps = a_piece.shape[1]
                with l1.write() as (a1, b1):  # MTE2: GM -> L1
                    k.gm_to_l1(a1, a_piece)
                    k.gm_to_l1(b1, b_piece)
                with l1.read() as (a1, b1), l0.write() as (a0, b0):  # MTE1: L1 -> L0A, L0B
                    k.l1_to_l0a(a0, a1, rows, steps, a.dtype, held=rows)
                    k.l1_to_l0b(b0, b1, steps, columns, b.dtype, held=steps)
                with l0.read() as (a0, b0):  # M: the cube, in whose word m = 1 is another instruction (GEMV)
                    k.mmad(accumulator, a0, b0, max(rows, 2), steps, columns, a.dtype, accumulate=p > first)
                    if rows * columns < 10 * 16 * 16:  # on a small tile of L0C the next product has to wait
                        k.pipe_barrier("M")
        k.l0c_to_gm(out, tiles, atomic_add=True)  # FIX: L0C -> GM


def arguments(rng):
    a = rng.standard_normal((128, 2048)).astype(np.float16)
    b = rng.standard_normal((2048, 128)).astype(np.float16)
    return a, b, np.zeros((128, 128), np.float32)


def expected(a, b):
    return asim.Expected.product(a, b)
