"""The library's host tiling of Conv3DBackpropFilterV2 on the 950, part by part (ops-nn, arch35, StreamK template: stated).

`problem`: what it counts; `blocks`: the base block, its steps, what it does where L1 is too small, how tasks are dealt out and
the last round is shared.
"""
