"""Attention softmax(Q K^T / sqrt(d)) V over tiles of keys: cube and vector cores hand tiles over in GM, told by flags."""

import numpy as np

import ascend_sim as asim

SCORES, WEIGHTS, SUMS = 0, 1, 2  # the flags, by what is written when they are raised
BLOCKS, TILE = 4, 64  # TILE: rows of Q, rows of K, and d


@asim.kernel_function(core="MIX")
def flash_attention(k, q, keys, v, out, scores, weights, sums):
    q, keys, v, out = (tensor.reshape(len(tensor), -1, TILE, TILE) for tensor in (q, keys, v, out))
    work = [(head, i) for head in range(len(q)) for i in range(q.shape[1])][k.block :: k.blocks]
    (cube if k.is_cube else vector)(k, q, keys, v, out, work, scores[k.block], weights[k.block], sums[k.block])


def cube(k, q, keys, v, out, work, scores, weights, sums):
    l1 = k.queue("L1", ("L1", "L1"), (TILE * TILE * 2, TILE * TILE * 2), "MTE2", "MTE1")
    l0 = k.queue("L0", ("L0A", "L0B"), (TILE * TILE * 2, TILE * TILE * 2), "MTE1", "M")
    tiles = k.queue("C", "L0C", TILE * TILE * 4, "M", "FIX")

    def product(left, right, target, flag, transpose):
        with l1.write() as (a1, b1):
            k.gm_to_l1(a1, left), k.gm_to_l1(b1, right)
        with l1.read() as (a1, b1), l0.write() as (a0, b0):
            k.l1_to_l0a(a0, a1, *left.shape, left.dtype, held=len(left))
            k.l1_to_l0b(b0, b1, *right.shape, right.dtype, held=len(right), transpose=transpose)
        with l0.read() as (a0, b0), tiles.write() as tile:
            k.mmad(tile, a0, b0, *left.shape, target.shape[1], left.dtype, accumulate=False)
        k.l0c_to_gm(target, tiles), k.cross_core_set(flag, 2, "FIX")

    for head, i in k.each(work):
        for j in k.range(keys.shape[1] + 1):
            if j < keys.shape[1]:
                product(q[head, i], keys[head, j], scores[j % 2], SCORES, transpose=True)
            if j > 0:
                k.cross_core_wait(WEIGHTS, 2, "MTE2")
                product(weights[(j - 1) % 2], v[head, j - 1], sums[(j - 1) % 2], SUMS, transpose=False)


def vector(k, q, keys, v, out, work, scores, weights, sums):
    mine = slice(k.sub_block * TILE // 2, (k.sub_block + 1) * TILE // 2)  # of two vector cores
    score, part = (k.ub_queue(name, (TILE // 2, TILE), "float32", "MTE2", "V", 1) for name in ("scores", "sums"))
    stored = k.ub_queue("stored", (TILE // 2, TILE), "float16", "V", "MTE3", 1)
    wide, total = (k.local_tensor((TILE // 2, TILE), "float32", name) for name in ("wide", "total"))
    most, norm, each, *worth = (k.local_tensor(TILE // 2, "float32", f"rows {number}") for number in range(5))
    for head, i in k.each(work):
        with k.ordered("V"):
            k.duplicate(most, -1e30), k.duplicate(norm, 0), k.duplicate(total, 0)
            for j in k.range(keys.shape[1] + 1):
                if j < keys.shape[1]:
                    k.cross_core_wait(SCORES, 2, "MTE2"), k.gm_to_ub(score, scores[j % 2, mine])
                    with score.read() as s, stored.write() as weight:
                        k.muls(s, s, TILE**-0.5), k.reduce_max(each, s)
                        k.copy(now := worth[j % 2], most), k.max(most, most, each)
                        k.sub(now, now, most), k.exp(now, now)  # what the sums of before are worth now
                        k.broadcast_column(wide, most), k.sub(s, s, wide), k.exp(s, s), k.cast(weight, s)
                        k.reduce_sum(each, s), k.mul(norm, norm, now), k.add(norm, norm, each)
                    k.ub_to_gm(weights[j % 2, mine], stored), k.cross_core_set(WEIGHTS, 2, "MTE3")
                if j > 0:
                    k.cross_core_wait(SUMS, 2, "MTE2"), k.gm_to_ub(part, sums[(j - 1) % 2, mine])
                    with part.read() as p:
                        k.broadcast_column(wide, worth[(j - 1) % 2]), k.mul(total, total, wide), k.add(total, total, p)
            with stored.write() as result:
                k.broadcast_column(wide, norm), k.div(total, total, wide), k.cast(result, total)
        k.ub_to_gm(out[head, i][mine], stored)


def arguments(rng):
    q, keys, v = (rng.standard_normal((4, 192, TILE)).astype(np.float16) for _ in range(3))
    slots = [asim.empty((BLOCKS, 2, TILE, TILE), of, workspace=True) for of in ("float32", "float16", "float32")]
    return q, keys, v, asim.empty(q.shape, "float16"), *slots


def expected(q, keys, v):
    p = np.exp(q.astype(np.float64) @ keys.astype(np.float64).transpose(0, 2, 1) / np.sqrt(TILE))
    p, v = p / p.sum(axis=-1, keepdims=True), v.astype(np.float64)
    return asim.Expected(p @ v, magnitude=np.sqrt(p**2 @ v**2), precision="float16")  # the weights are float16
