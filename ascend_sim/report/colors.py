"""Colours with the same meaning in every picture, for light and dark backgrounds."""

COLORS = {
    "MTE1": "#e69f00", "MTE2": "#3d8fd1", "MTE3": "#7fb2dd", "M": "#2ca25f", "V": "#b05cc6", "FIX": "#d1604d", "S": "#8c8c8c",
    "latency": "#b8b8b8", "flag": "#e377a2", "unit flag": "#c2548a",
    "barrier": "#9c6b4e", "issue": "#707070", "scalar": "#8c8c8c",
    "cross-core flag": "#c2548a", "core start": "#5b7083", "dispatch": "#8fa3b3", "launch": "#3f5161", "host": "#a0a0a0",
}  # fmt: skip
"""Colours of pipes, and of other steps of the critical path."""
NOTHING = "#9aa5ad"
STALL_COLORS = {
    "flag": "#e377a2", "cross-core": "#c2548a", "pipe busy": "#9c6b4e", "outstanding limit": "#d4b106", "": NOTHING,
}  # fmt: skip
"""Colours of the bars that show stalls of a pipe, by cause; "" is any other."""
PART_COLORS = {
    "output": COLORS["MTE1"], "grad_input": COLORS["MTE2"], "grad_weight": COLORS["M"], "grad_bias": COLORS["V"],
    "bias": COLORS["V"], "layout": NOTHING,
}  # fmt: skip
"""Colours of the parts of a layer's time; layout conversions, which make no output, are grey."""
