"""Softmax of every row: exp(x - max) / sum, several rows at a time, in float32."""

import numpy as np

import ascend_sim as asim


@asim.kernel_function(core=("AI_CORE", "AIV"))
def softmax(k, x, y, *, rows=8):
    columns = x.shape[1]
    source = k.ub_queue("x", (rows, columns), x.dtype, "MTE2", "V")
    result = k.ub_queue("y", (rows, columns), y.dtype, "V", "MTE3")
    wide = k.local_tensor((rows, columns), x.dtype, "wide")
    each = k.local_tensor(rows, x.dtype, "each")  # one number for each row
    for row in k.range(k.block * rows, len(x), k.blocks * rows):
        k.next_tile()
        count = len(x[row : row + rows])
        with source.write() as tile:
            k.gm_to_ub(tile[:count], x[row : row + rows])
        with source.read() as tile, result.write() as target, k.ordered("V"):  # each reads what the one before it wrote
            values, out, spread, number = (tensor[:count] for tensor in (tile, target, wide, each))
            k.reduce_max(number, values)
            k.broadcast_column(spread, number)
            k.sub(out, values, spread)
            k.exp(out, out)
            k.reduce_sum(number, out)
            k.broadcast_column(spread, number)
            k.div(out, out, spread)
        with result.read() as tile:
            k.ub_to_gm(y[row : row + rows], tile[:count])


def arguments(rng):
    x = rng.standard_normal((500, 256)).astype(np.float32)
    return x, asim.empty(x.shape, "float32")


def expected(x):
    x = x.astype(np.float64)
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    return asim.Expected(weights / weights.sum(axis=1, keepdims=True), products=x.shape[1])
