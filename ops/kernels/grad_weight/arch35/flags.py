"""Cross-core flags of the 950's grad_weight, beside those of StreamK (0 and 1)."""

ALL_VECTORS, CLEARED, SLOTS_CLEARED, LEVEL, READ = 2, 3, 4, 5, 6
"""Vector cores have cleared their share; so cubes may add to dW, and to slots; a level of the tree stands in GM; the slots were
read, so that they may be cleared again."""
