"""Procedure of the library's host tiling of Conv3DBackpropFilterV2 on the 950 (ops-nn, arch35, StreamK template: stated).

`problem`: quantities of a problem; `blocks`: the base block, its steps, smaller blocks where L1 is too small, and how
tasks are dealt out and the last round is shared.
"""
