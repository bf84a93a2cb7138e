"""grad_weight as Conv3DBackpropFilterV2 of arch35 (Ascend 950) is built: `cube`, `vector`, and the `flags` between them."""
