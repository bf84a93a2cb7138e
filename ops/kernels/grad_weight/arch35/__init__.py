"""Programs of grad_weight of Conv3DBackpropFilterV2 of arch35 (Ascend 950): `cube`, `vector`, and the `slots` between them."""
