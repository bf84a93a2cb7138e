"""Decision of ops-nn's arch35 host code for a weight gradient of the 950, as one plain program over numbers.

An oracle: written from the library's behaviour and not from our procedure, with which it shares nothing. One mutable block is
driven through the stages; unsigned 64-bit differences wrap as they do there.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

SIZES = (
    "n", "c_in", "c_out", "d_in", "h_in", "w_in", "d_out", "h_out", "w_out", "k_d", "k_h", "k_w", "stride_h", "stride_w",
    "dilation_h", "dilation_w", "pad_up", "pad_down", "pad_left", "pad_right", "groups", "itemsize", "cores",
)  # fmt: skip
WRAP = 1 << 64


def up(value: int, unit: int) -> int:
    return (value + unit - 1) // unit * unit


def parts(value: int, size: int) -> int:
    return (value + size - 1) // size


class Model:
    """`p` has the SIZES, `chip` the bytes of L1, L0A, L0B, L0C and UB; `met` counts the branches that were taken."""

    def __init__(self, p: dict[str, int], chip: dict[str, int], met: Counter[str] | None = None) -> None:
        self.p, self.chip, self.met = p, chip, Counter() if met is None else met
        self.taps = p["k_h"] * p["k_w"]
        self.window = self.taps * 16
        self.images = p["n"] * p["d_out"]
        self.area = p["h_out"] * p["w_out"]
        self.steps_a = self.steps_b = self.twice_a = self.twice_b = self.twice_c = 1
        self.height = self.breadth = self.depth = 0
        self.strip, self.seen, self.rest, self.rest_seen, self.one_tap = 512, 1, 0, 0, False
        self.magnified, self.group = 1, p["groups"]
        self.merge()
        self.m = up(self.magnified * p["c_out"] // p["groups"], 16)
        self.n = up(self.magnified * p["c_in"] // p["groups"], 16) * self.taps
        self.k = self.area
        self.lanes = p["k_d"] * self.group

    # -- groups --------------------------------------------------------------------------------------------------------

    def merge(self) -> None:
        p = self.p
        if p["groups"] == 1:
            return
        ci, co = p["c_in"] // p["groups"], p["c_out"] // p["groups"]
        factor = min(math.lcm(math.lcm(ci, 16) // ci, math.lcm(co, 16) // co), p["groups"])
        if factor < 2:
            self.met["groups need no merging"] += 1
            return
        channels, filters = up(factor * ci, 16), up(factor * co, 16)
        self.height, self.breadth = filters, channels * self.taps
        self.k = up(self.area, 32 // p["itemsize"])
        if filters * channels * self.taps * 4 > self.chip["L0C"]:
            self.met["merged: L0C"] += 1
            return
        self.depth = self.longest(self.height, self.breadth)
        in_order = channels * self.taps
        if p["k_d"] != 1 or ci * self.taps % 8:
            in_order = channels * up(self.taps, 8)
        held = (self.breadth + in_order) * self.height * 4 + 256
        self.strip, self.seen = p["w_out"], p["w_in"]
        if not self.depth:
            self.met["merged: L0"] += 1
        elif held > self.chip["UB"]:
            self.met["merged: UB"] += 1
        elif max(self.height, self.breadth) > 256:
            self.met["merged: block"] += 1
        elif self.bytes() > self.chip["L1"]:
            self.met["merged: L1"] += 1
        else:
            self.met["merged"] += 1
            self.magnified, self.group = factor, parts(p["groups"], factor)

    # -- what a block takes --------------------------------------------------------------------------------------------

    def lines(self, pixels: int, width: int) -> int:
        if pixels % width == 0 or width % pixels == 0:
            return parts(pixels, width)
        return pixels // width + 2 if pixels > width else 2

    def held_a(self) -> int:
        pixels = self.steps_a * self.depth
        if self.strip == self.p["w_out"]:
            return pixels * self.height
        return max(up(self.lines(pixels, w) * w, 16) for w in (self.strip, self.rest) if w) * self.height

    def channels(self, breadth: int) -> int:
        """In sixteens."""
        wide = parts(breadth, 16)
        count = parts(wide, self.taps)
        if wide < self.taps and self.taps % wide:
            return count + 1
        return count + 1 if 2 * wide % self.taps else count

    def reach(self, rows: int) -> int:
        return (rows - 1) * self.p["stride_h"] + (self.p["k_h"] - 1) * self.p["dilation_h"] + 1

    def held_b(self) -> int:
        pixels, most = self.steps_b * self.depth, 0
        for width, seen in ((self.strip, self.seen), (self.rest, self.rest_seen)):
            if width:
                rows = self.lines(pixels, width)
                most = max(most, (rows if self.one_tap else self.reach(rows)) * seen)
        return most * 16 * min(max(self.breadth // self.window, 1), self.channels(self.breadth))

    def bytes(self) -> int:
        return self.p["itemsize"] * (self.held_a() * self.twice_a + self.held_b() * self.twice_b)

    def over(self) -> bool:
        return self.bytes() > self.chip["L1"]

    def longest(self, height: int, breadth: int) -> int:
        of_a = self.chip["L0A"] // (height * self.p["itemsize"] * 2) // 16
        of_b = self.chip["L0B"] // (breadth * self.p["itemsize"] * 2) // 16
        found = 16 * min(of_a, of_b)
        if up(self.k, 16) < found:
            return up(self.k, 16)
        if self.strip < found and self.strip % 16 == 0:
            self.met["K in whole rows"] += 1
            found -= found % self.strip
        return found

    # -- the stages ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.height, self.breadth = (up(side if side <= 256 else side // parts(side, 256), 16) for side in (self.m, self.n))
        aligned = self.window if self.taps == 9 else 16
        if self.breadth > aligned:
            self.breadth -= self.breadth % aligned
        self.breadth = min(self.breadth, max(self.breadth // self.window, 1) * self.window)
        if self.height * self.breadth * 8 <= self.chip["L0C"]:
            self.twice_c = 2
        self.depth = self.longest(self.height, self.breadth)

    def set_steps(self, blocks: int) -> None:
        if blocks < 2:
            self.twice_a = self.twice_b = 1
        most = parts(self.k, self.depth)
        self.steps_a = self.steps_b = max(min(blocks // self.twice_a, most), 1)

    def fill(self) -> None:
        """Fill L1 with as many blocks as there is room for."""
        self.twice_a = self.twice_b = 2
        blocks, single = 16, False
        while blocks >= 1:
            self.set_steps(blocks)
            if not self.over():
                break
            blocks -= 2 if blocks > 2 else 1
            if blocks <= 2 and not single:
                single, blocks = True, 16
                self.twice_a = self.twice_b = 1
        if self.over():
            self.shrink()
            self.set_steps(1)
        self.met[f"{self.twice_a} buffers"] += 1
        self.task = max(self.breadth // self.window, 1) * self.window
        if self.one_tap:
            self.task = self.window

    def shrink(self) -> None:
        size, self.met["shrunk"] = self.p["itemsize"], self.met["shrunk"] + 1
        excess = max(self.bytes() - self.chip["L1"], 0)
        a_of_16 = self.height * 16 * size
        b_of_16 = parts(self.channels(self.breadth) * 16 * self.seen * self.p["stride_h"] * 16 * size, self.strip)
        fewer = parts(excess, a_of_16 + b_of_16) * 16
        if self.depth - fewer >= 16:
            self.depth -= fewer
            while self.depth > 16 and self.over():
                self.depth -= 16
                aligned = self.strip % self.depth == 0 or self.strip % 16
                if self.depth <= self.strip and aligned:
                    break
            if not self.over():
                self.met["shrunk: K"] += 1
                return
        else:
            self.depth = 16
        self.lower()
        self.raise_again()

    def lower(self) -> None:
        while self.height > max(self.breadth, 16) and self.over():
            self.height -= 16
        while self.breadth > max(self.height, 16) and self.over():
            self.breadth -= 16
        if not self.over():
            self.met["shrunk: one side"] += 1
            return
        size, rows = self.p["itemsize"], self.lines(self.depth * self.steps_b, self.strip)
        deep = rows + (self.p["k_h"] - 1) * self.p["dilation_h"] if self.one_tap else self.reach(rows)
        of_16 = self.depth * 16 * size + parts(deep * self.seen * 16 * size, self.taps)
        fewer = parts(max(self.bytes() - self.chip["L1"], 0), of_16)
        if self.height < (fewer + 1) * 16:
            self.height = self.breadth = 16
            return
        self.met["shrunk: both sides"] += 1
        self.height -= fewer * 16
        self.breadth = self.height
        known = self.channels(self.breadth)
        while self.height > 16 and self.over():
            if self.channels(self.height) < known:
                self.breadth, known = self.height, self.channels(self.height)
            else:
                self.height -= 16

    def raise_again(self) -> None:
        size = self.p["itemsize"]
        room = (self.chip["L1"] - self.bytes()) % WRAP
        limit = max(self.chip["L0C"] // size // 2 // self.breadth // 16, 1) * 16
        grown = (self.height + room // (self.depth * 16 * size) * 16) % WRAP
        self.height = min(grown, self.m, limit)
        kept = self.depth
        while not self.over():
            kept = self.depth
            self.depth += 16
        limits = [
            max(self.chip[buffer] // size // 2 // side // 16, 1) * 16
            for buffer, side in (("L0A", self.height), ("L0B", self.breadth))
        ]
        self.depth = min(kept, *limits, up(self.k, 16))
        if self.strip < self.depth and self.strip % 16 == 0:
            self.depth -= self.depth % self.strip

    def cut(self, width: int, one_tap: bool) -> None:
        """Strips of so many columns."""
        p = self.p
        self.one_tap, self.strip, self.rest = one_tap, width, p["w_out"] % width if width < p["w_out"] else 0
        if width > p["w_out"]:
            self.rest = p["w_out"]

        def columns(w: int) -> int:
            return w if one_tap else (w - 1) * p["stride_w"] + (p["k_w"] - 1) * p["dilation_w"] + 1

        self.seen, self.rest_seen = columns(width), columns(self.rest)

    def tried(self) -> bool:
        self.begin()
        if not self.depth:
            return False
        self.fill()
        return not self.over()

    def split(self) -> bool:
        """Return True if a block is found: with whole rows, strips, single taps."""
        p = self.p
        self.strip, self.seen, self.rest, self.rest_seen = p["w_out"], p["w_in"], 0, 0
        longest = 256 if max(p["pad_left"], p["pad_right"]) > 255 else 512
        if p["w_out"] > longest:
            self.met["long rows"] += 1
            self.cut(128, False)
        pads = max(p["pad_left"], p["pad_right"], p["pad_up"], p["pad_down"])
        kernel, dilation = max(p["k_h"], p["k_w"]), max(p["dilation_h"], p["dilation_w"])
        beyond = max(kernel, dilation, pads) > 255 or max(p["stride_h"], p["stride_w"]) > 63
        c0 = 32 // p["itemsize"]
        if beyond or self.taps * c0 > 65536:
            self.met["beyond load3d"] += 1
            self.one_tap = True
            self.seen, self.rest_seen = self.strip, self.rest
            if self.tried():
                return True
        else:
            if self.tried():
                return True
            width = 128
            while width >= c0:
                self.cut(width, False)
                if self.tried():
                    self.met[f"strips of {width}"] += 1
                    return True
                width //= 2
        self.met["single taps"] += 1
        self.cut(c0, True)
        return self.tried()

    def count(self) -> int:
        return parts(self.m, self.height) * parts(self.n, self.task) * self.lanes

    def other(self, height: int, depth: int, breadth: int) -> bool:
        self.height, self.breadth, self.depth = height, breadth, depth
        self.twice_c = 2 if height * breadth * 8 <= self.chip["L0C"] else 1
        self.fill()
        return not self.over()

    def few(self) -> bool:
        """Other blocks where cores are left over; False where a block has no K."""
        p, cores = self.p, self.p["cores"]
        tasks = self.count()
        if self.magnified > 1 or tasks >= cores:
            return True
        if cores % tasks == 0 and (self.images >= cores // tasks or p["h_out"] >= cores // tasks):
            self.met["few tasks: shared as they are"] += 1
            return True
        across = parts(self.n, self.task)
        for number in range(min(self.m // 16, cores) // p["k_d"] // self.group // across, 0, -1):
            height = up(parts(self.m, number), 16)
            tasks = parts(self.m, height) * across * self.lanes
            if tasks > cores or cores % tasks:
                continue
            depth, share = self.longest(height, self.breadth), cores // tasks
            if self.images < share and depth < share * p["w_out"]:
                self.met["few tasks: too few rows"] += 1
                continue
            if height * self.breadth * 4 > self.chip["L0C"]:
                self.met["few tasks: L0C"] += 1
                break
            if not depth:
                return False
            self.met["few tasks: M"] += 1
            if self.other(height, depth, self.breadth):
                break
        tasks, down, across = self.count(), parts(self.m, self.height), parts(self.n, self.task)
        if cores // 2 < tasks < cores and self.breadth >= self.height:
            for number in range(min(self.n // self.window, cores // p["k_d"] // self.group // down), across, -1):
                breadth = up(parts(self.n, number), self.window)
                if parts(self.n, breadth) * down * self.lanes > cores:
                    continue
                depth = self.longest(self.height, breadth)
                if breadth * self.height * 4 > self.chip["L0C"]:
                    continue
                if not depth:
                    return False
                self.met["few tasks: N"] += 1
                if self.other(self.height, depth, breadth):
                    break
        return True

    def share(self) -> tuple[int, int]:
        """(streamKType, coreStreamK)."""
        left, p = self.count() % self.p["cores"], self.p
        if left == 0 or left > p["cores"] // 2:
            return 0, 0
        wanted = p["cores"] // left
        each, rows = parts(self.images, wanted), parts(p["h_out"], wanted)
        by_images, by_rows = parts(self.images, each), parts(p["h_out"], rows)
        tail, row_tail = self.images % each, p["h_out"] % rows
        better = by_images >= by_rows and not (tail and tail * rows < row_tail * each)
        if better:
            self.met["shared by images"] += by_images > 1
            return (1, by_images) if by_images > 1 else (0, 0)
        if by_rows == 1:
            return 0, 0
        before = self.depth, self.steps_a, self.steps_b
        pixels = rows * p["w_out"]
        self.depth = up(min(self.depth, pixels), 16)
        self.steps_a = self.steps_b = min(self.steps_a, parts(pixels, self.depth))
        while self.over():
            self.met["shared by rows: L1"] += 1
            if self.steps_a == 1:
                self.met["shared by rows: given up"] += 1
                self.depth, self.steps_a, self.steps_b = before
                return 0, 0
            self.steps_a = self.steps_b = self.steps_a - 1
        self.met["shared by rows"] += 1
        return 2, by_rows

    def fields(self) -> dict[str, Any] | None:
        """By the vendor's names; None where the library has no tiling."""
        if not self.split() or not self.few():
            self.met["none"] += 1
            return None
        kind, cores = self.share()
        return {
            "baseM": self.height, "baseK": self.depth, "baseN": self.breadth, "stepKa": self.steps_a, "stepKb": self.steps_b,
            "al0Pbuffer": 2, "bl0Pbuffer": 2, "cl0Pbuffer": self.twice_c, "al1Pbuffer": self.twice_a,
            "bl1Pbuffer": self.twice_b, "iterateOrder": int(self.m > self.n), "singleCoreM": self.height,
            "singleCoreN": self.task, "streamKType": kind, "coreStreamK": cores, "usedCoreNum": self.p["cores"],
            "bl1Bound": self.held_b(), "realGroup": self.group,
        }  # fmt: skip


def random_problem(rng: random.Random) -> dict[str, int]:
    """Sizes of a convolution of one of several kinds, so that every branch comes up."""
    kind = rng.choice(("plain", "plain", "groups", "small", "long", "kernel", "wide", "strided"))
    p = dict.fromkeys(SIZES, 1)
    p |= dict.fromkeys(("pad_up", "pad_down", "pad_left", "pad_right"), 0)
    p |= {"itemsize": rng.choice((2, 2, 4)), "cores": rng.choice((28, 32, 36)), "n": rng.choice((1, 1, 2, 4, 16, 64))}
    p |= {"c_in": rng.choice((3, 16, 24, 64, 100, 256, 720, 1440, 2048))}
    p |= {"c_out": rng.choice((8, 16, 48, 64, 128, 256, 700, 1024, 4096))}
    p |= {"h_out": rng.randint(1, 70), "w_out": rng.randint(1, 130), "k_h": rng.choice((1, 1, 2, 3, 3, 5, 7))}
    p |= {"k_w": rng.choice((p["k_h"], p["k_h"], 1, 3)), "d_out": rng.choice((1, 1, 1, 3, 16)), "k_d": rng.choice((1, 1, 1, 3))}
    if kind == "groups":
        p["groups"] = rng.choice((2, 3, 4, 8, 16, 32, 64, 96))
        p["c_in"], p["c_out"] = (p["groups"] * rng.choice((1, 1, 2, 3, 4, 8, 12, 16, 20, 32)) for _ in range(2))
    elif kind == "small":
        p |= {"h_out": rng.randint(1, 14), "w_out": rng.randint(1, 14), "n": rng.choice((1, 2, 5)), "d_out": 1}
    elif kind == "long":
        p |= {"h_out": rng.choice((1, 1, 2, 9)), "w_out": rng.choice((256, 300, 512, 513, 3000, 16000))}
        p["pad_left"] = rng.choice((0, 0, 1, 300))
    elif kind == "kernel":
        p |= {
            "k_h": rng.choice((1, 13, 40, 129, 256)),
            "k_w": rng.choice((1, 16, 40, 200)),
            "dilation_w": rng.choice((1, 2, 40)),
        }
        p["h_out"], p["w_out"] = rng.randint(1, 40), rng.randint(1, 500)
    elif kind == "wide":
        p |= {"w_out": rng.randint(100, 512), "h_out": rng.randint(1, 300), "k_h": rng.choice((3, 7, 11))}
    elif kind == "strided":
        p |= {"stride_h": rng.choice((2, 4, 16, 64)), "stride_w": rng.choice((2, 4, 16, 40)), "w_out": rng.randint(1, 400)}
    if kind in ("plain", "wide"):
        p |= {name: rng.choice((0, 1)) for name in ("pad_up", "pad_left")}
        p |= {"dilation_h": rng.choice((1, 1, 2)), "stride_h": rng.choice((1, 1, 2)), "stride_w": rng.choice((1, 1, 2))}
    for axis, before, after in (("h", "pad_up", "pad_down"), ("w", "pad_left", "pad_right")):
        reach = (p[f"{axis}_out"] - 1) * p[f"stride_{axis}"] + (p[f"k_{axis}"] - 1) * p[f"dilation_{axis}"] + 1
        p[f"{axis}_in"] = max(reach - p[before] - p[after], 1)
    p["d_in"] = p["d_out"] + p["k_d"] - 1
    return p
