"""Networks as they were published, written out: torchvision's wheels want a build of PyTorch of their own."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn


def conv_bn(c_in: int, c_out: int, k: int, stride: int = 1, groups: int = 1, act: Any = nn.ReLU, dims: int = 2) -> Any:
    conv, norm = (nn.Conv2d, nn.BatchNorm2d) if dims == 2 else (nn.Conv3d, nn.BatchNorm3d)
    layers = [conv(c_in, c_out, k, stride, k // 2, groups=groups, bias=False), norm(c_out)]
    return nn.Sequential(*layers, *([act()] if act is not None else []))


class Residual(nn.Module):
    def __init__(self, body: Any, shortcut: Any = None) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


def resnet50() -> Any:
    """He et al., arXiv 1512.03385, with the stride of a stage on its 3x3 convolution: 53 convolutions, 1 Linear."""
    layers, c_in = [conv_bn(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            body = nn.Sequential(
                conv_bn(c_in, width, 1), conv_bn(width, width, 3, step), conv_bn(width, 4 * width, 1, act=None)
            )
            layers.append(Residual(body, conv_bn(c_in, 4 * width, 1, step, act=None) if block == 0 else None))
            c_in = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Squeeze(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = -(-channels // 4 // 8) * 8
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: Any) -> Any:
        scale = self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True))))
        return x * nn.functional.hardsigmoid(scale)


class Inverted(nn.Module):
    def __init__(self, c_in: int, k: int, wide: int, c_out: int, squeeze: bool, act: Any, stride: int) -> None:
        super().__init__()
        layers = [] if wide == c_in else [conv_bn(c_in, wide, 1, act=act)]
        layers.append(conv_bn(wide, wide, k, stride, groups=wide, act=act))
        layers += [Squeeze(wide)] if squeeze else []
        self.body = nn.Sequential(*layers, conv_bn(wide, c_out, 1, act=None))
        self.same = stride == 1 and c_in == c_out

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.same else self.body(x)


def mobilenet_v3() -> Any:
    """MobileNetV3-Large (Howard et al., arXiv 1905.02244, table 1): 62 convolutions, 2 Linear."""
    relu, hard = nn.ReLU, nn.Hardswish
    rows = (
        (3, 16, 16, False, relu, 1), (3, 64, 24, False, relu, 2), (3, 72, 24, False, relu, 1), (5, 72, 40, True, relu, 2),
        (5, 120, 40, True, relu, 1), (5, 120, 40, True, relu, 1), (3, 240, 80, False, hard, 2), (3, 200, 80, False, hard, 1),
        (3, 184, 80, False, hard, 1), (3, 184, 80, False, hard, 1), (3, 480, 112, True, hard, 1),
        (3, 672, 112, True, hard, 1), (5, 672, 160, True, hard, 2), (5, 960, 160, True, hard, 1), (5, 960, 160, True, hard, 1),
    )  # fmt: skip
    layers, c_in = [conv_bn(3, 16, 3, 2, act=hard)], 16
    for k, wide, c_out, squeeze, act, stride in rows:
        layers.append(Inverted(c_in, k, wide, c_out, squeeze, act, stride))
        c_in = c_out
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), hard(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, conv_bn(160, 960, 1, act=hard), *head)


class VisionTransformer(nn.Module):
    """ViT-B/16 (Dosovitskiy et al., arXiv 2010.11929): 1 convolution; every Linear is a matrix product."""

    def __init__(self, depth: int = 12, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


class UNet(nn.Module):
    """U-Net (Ronneberger et al., arXiv 1505.04597) with padding 1: 19 convolutions, 4 of them transposed ones beside."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(5)]
        self.down = nn.ModuleList(self.double(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in reversed(sizes[:-1]))
        self.merge = nn.ModuleList(self.double(2 * size, size) for size in reversed(sizes[:-1]))
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def double(c_in: int, c_out: int) -> Any:
        return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1), nn.ReLU(), nn.Conv2d(c_out, c_out, 3, padding=1), nn.ReLU())

    def forward(self, x: Any) -> Any:
        kept = []
        for level, down in enumerate(self.down):
            x = down(nn.functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(kept[:-1]), strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


def wav2vec2_encoder() -> Any:
    """The feature encoder of wav2vec 2.0 (Baevski et al., arXiv 2006.11477): 7 convolutions over time, 1-D."""
    layers: list[Any] = []
    for c_in, k, stride in ((1, 10, 5), *[(512, 3, 2)] * 4, *[(512, 2, 2)] * 2):
        layers += [nn.Conv1d(c_in, 512, k, stride, bias=False), nn.GELU()]
    return nn.Sequential(*layers)


def r3d_18() -> Any:
    """R3D-18 (Tran et al., arXiv 1711.11248): 20 convolutions, 3-D."""
    stem = nn.Sequential(nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(64), nn.ReLU())
    layers, c_in = [stem], 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            step = 2 if width > 64 and block == 0 else 1
            body = nn.Sequential(conv_bn(c_in, width, 3, step, dims=3), conv_bn(width, width, 3, act=None, dims=3))
            layers.append(Residual(body, conv_bn(c_in, width, 1, step, act=None, dims=3) if step == 2 else None))
            c_in = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(512, 400))


class ConvTbc(nn.Module):
    """fairseq's convolution over time, [T, B, C]."""

    def __init__(self, c_in: int, c_out: int, k: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(k, c_in, c_out) / 8), nn.Parameter(torch.zeros(c_out))
        self.pad = k // 2

    def forward(self, x: Any) -> Any:
        return torch.conv_tbc(x, self.weight, self.bias, self.pad)


def tbc_model(width: int = 512) -> Any:
    """Three convolutions over time, as in fairseq's convolutional encoder (Gehring et al., arXiv 1705.03122)."""
    return nn.Sequential(ConvTbc(width, width, 3), nn.ReLU(), ConvTbc(width, width, 3), nn.ReLU(), ConvTbc(width, width, 1))


MODELS: dict[str, tuple[Any, tuple[int, ...], int, int]] = {
    "resnet50": (resnet50, (64, 3, 224, 224), 53, 25_557_032),
    "mobilenet_v3": (mobilenet_v3, (64, 3, 224, 224), 62, 5_483_032),
    "vit_b_16": (VisionTransformer, (64, 3, 224, 224), 1, 86_567_656),
    "unet": (UNet, (64, 3, 256, 256), 23, 31_031_810),
    "wav2vec2": (wav2vec2_encoder, (64, 1, 16000), 7, 4_199_424),
    "r3d_18": (r3d_18, (64, 3, 16, 112, 112), 20, 33_371_472),
    "conv_tbc": (tbc_model, (50, 64, 512), 3, 7 * 512 * 512 + 3 * 512),
}
"""Name -> how it is made, the input's shape, its convolutions, and its parameters (torchvision's numbers where it has it)."""


def small_cnn(classes: int = 4) -> Any:
    """Two convolutions and a transposed one, then a Linear."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes),
    )  # fmt: skip
