"""Tilings that fill a buffer."""

from __future__ import annotations

from tests.support.ops.tiling_problems import conv2d, on_910b

LAYER = on_910b(conv2d(2, 64, 64, 14, 3, pad=1))
