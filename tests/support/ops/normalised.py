"""Gradients of a normalised problem, by PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


F = torch.nn.functional


def convolve(p, x, weight):
    """The problem's convolution in float64; negative padding crops."""
    pads = (p.pad_left, p.pad_right, p.pad_up, p.pad_down, p.pad_front, p.pad_back)
    grown = F.pad(x, [max(pad, 0) for pad in pads])  # torch crops before it pads, and refuses to crop all of a map
    padded = F.pad(grown, [min(pad, 0) for pad in pads])
    stride, dilation = (p.stride_d, p.stride_h, p.stride_w), (p.dilation_d, p.dilation_h, p.dilation_w)
    return F.conv3d(padded, weight, stride=stride, dilation=dilation, groups=p.groups)
