"""Names of the layouts of a cube kernel's tensors in GM; the classes that load and drain them are in `ops.layouts`."""

from __future__ import annotations

from ascend_sim.frozen import frozen


@frozen
class Layout:
    """Names of the layouts in GM of a cube kernel's feature maps (`maps`) and weights; `ops.layouts` loads and stores them.

    `plain`: channels are not in blocks of C0, so a kernel may begin with any channel.
    """

    maps: str
    weights: str
    plain: bool


BLOCKED = Layout("NC1HWC0", "FRACTAL_Z", plain=False)
PLANAR = Layout("NCDHW", "NCDHW", plain=True)
CHANNELS_LAST = Layout("NDHWC", "DHWCN", plain=True)
