"""Layer norm of every row: (x - mean) / sqrt(variance + epsilon) * gamma + beta, in float32."""

import numpy as np

import ascend_sim as asim


@asim.kernel_function(core=("AI_CORE", "AIV"))
def layer_norm(k, x, gamma, beta, y, *, rows=8, epsilon=1e-5):
    columns = x.shape[1]
    source = k.ub_queue("x", (rows, columns), x.dtype, "MTE2", "V")
    result = k.ub_queue("y", (rows, columns), y.dtype, "V", "MTE3")
    scale, shift = (k.local_tensor(columns, x.dtype, name) for name in ("gamma", "beta"))
    wide = k.local_tensor((rows, columns), x.dtype, "wide")
    each = k.local_tensor(rows, x.dtype, "each")  # one number for each row
    k.gm_to_ub(scale, gamma)  # no flag of their own: MTE2 works in order, with the first rows they are there
    k.gm_to_ub(shift, beta)
    for row in k.range(k.block * rows, len(x), k.blocks * rows):
        k.next_tile()
        count = len(x[row : row + rows])
        with source.write() as tile:
            k.gm_to_ub(tile[:count], x[row : row + rows])
        with source.read() as tile, result.write() as target, k.ordered("V"):  # each reads what the one before it wrote
            values, out, spread, number = (tensor[:count] for tensor in (tile, target, wide, each))
            k.reduce_sum(number, values)
            k.muls(number, number, 1 / columns)
            k.broadcast_column(spread, number)
            k.sub(out, values, spread)  # what is left without the mean
            k.mul(spread, out, out)
            k.reduce_sum(number, spread)
            k.muls(number, number, 1 / columns)
            k.adds(number, number, epsilon)
            k.sqrt(number, number)
            k.broadcast_column(spread, number)
            k.div(out, out, spread)
            k.mul(out, out, scale)
            k.add(out, out, shift)
        with result.read() as tile:
            k.ub_to_gm(y[row : row + rows], tile[:count])


def arguments(rng):
    x = (3 + 2 * rng.standard_normal((500, 384))).astype(np.float32)
    gamma, beta = (rng.standard_normal(384).astype(np.float32) for _ in range(2))
    return x, gamma, beta, asim.empty(x.shape, "float32")


def expected(x, gamma, beta):
    x, gamma, beta = (array.astype(np.float64) for array in (x, gamma, beta))
    centred = x - x.mean(axis=1, keepdims=True)
    root = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    values = centred / root * gamma + beta
    # What cancels: the mean out of x, and the shift.
    lost = (np.abs(x).max(axis=1, keepdims=True) / root + np.abs(centred) / root) * np.abs(gamma) + np.abs(beta)
    return asim.Expected(values, magnitude=lost)
