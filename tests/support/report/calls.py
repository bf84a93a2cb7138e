"""One call of several kernels for the tests of pictures and words."""

from __future__ import annotations

from typing import Any

import ascend_sim
from ascend_sim import TensorSpec


def call(chip: Any = "ascend910b3", channels: int = 32, size: int = 36, **options: Any) -> Any:
    """In timing mode, and on few cores: each then has instructions enough for windows to be cut out of its timeline."""
    features, weight = (2, channels, size, size), (channels, channels, 3, 3)
    return ascend_sim.convolution_backward(
        *(TensorSpec(shape, "float16") for shape in (features, features, weight)),
        None,
        (1, 1),
        (1, 1),
        (1, 1),
        False,
        (0, 0),
        1,
        (True, True, False),
        chip=chip,
        mode="timing",
        **{"block_dim": 2, **options},
    )
