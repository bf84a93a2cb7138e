"""The library's host tiling of Conv3DBackpropFilterV2 on the 950, part by part (ops-nn, arch35, StreamK template: stated).

`problem`: what it counts; `block`: the base block, its steps, and what it does where L1 is too small; `cores`: how tasks are
dealt out and the last round is shared.
"""
