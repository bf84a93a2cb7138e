"""Programs of grad_weight as in Conv3DBackpropFilterV2 of arch35 (Ascend 950): `cube`, `vector`, and the `flags`
between them.
"""
