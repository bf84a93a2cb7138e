"""The vendor's tiling of grad_input on dav-3510, without kernel split: `problem`, `block`, `steps`, `templates`.

Follows our description of ops-nn Conv3DBackpropInputV2 (arch35: small shape, full load, inner product: stated), rule by rule;
checked against its unit-test tables and a separate program written from the same description.
"""
