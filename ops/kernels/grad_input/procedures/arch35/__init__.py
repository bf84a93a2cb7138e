"""The vendor's tiling of grad_input on dav-3510: modules `problem`, `blocks`, and `divided` for split kernels.

Follows our description of ops-nn Conv3DBackpropInputV2 (arch35: small shape, full load, inner product, kernel split: stated),
rule by rule; checked against its unit-test tables and separate programs written from the same description.
"""
