"""Advice on a kernel's waterfall in words: its largest parts, what the user can change about each, and the command.

for statement in statements(chip, kernel, problem, commands, trials):
    statement.text, statement.command       # command "" where no command of this program changes it as this run was made
    statement.change, statement.gain        # {"batch": 2}, and the cycles that twice the batch saves against two of these calls

A change that a statement names was tried (`TrialSource`: the changed kernel in the changed call), and its gain is what that
gave. Where that would take long, one block was tried, and the statement says so. Where no change was found the gain is the cost
of the part, stated as "at most" (tools/promises.py tries the statements of ten layers and compares).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.options.commands import Commands
from ascend_sim.report.columns import listed
from ascend_sim.report.waterfall import WORDS

_SHOWN = 3
_WORTH_SAYING = 0.05
"""Parts below this share of the kernel are not spoken of."""
_WORTH_DOING = 0.08
"""Changes of a setting that save less are not named: one block predicts the whole kernel to some 1 %."""
_WORTH_TRYING = 0.03
"""Changes of a setting that save less of one block, or batches that cost more, are not tried on all blocks."""
_ONCE = ("start", "launch", "idle cores")
"""Parts that one and the same change helps: more work in one launch."""
_STEPS: Mapping[str, Sequence[tuple[str, int, int]]] = {
    "tile edges": (("baseM", 1, 2), ("baseN", 1, 2), ("baseK", 1, 2)),
    "uneven cores": (("baseM", 1, 2), ("baseN", 1, 2)),
    "heads": (("baseK", 2, 1), ("baseM", 2, 1), ("baseN", 2, 1)),
    "wait MTE2": (("baseM", 2, 1), ("baseN", 2, 1), ("al1Pbuffer", 2, 1), ("bl1Pbuffer", 2, 1)),
    "wait MTE1": (("baseM", 2, 1), ("baseN", 2, 1)),
    "wait FIX": (("cl0Pbuffer", 2, 1), ("baseM", 1, 2)),
    "drain": (("cl0Pbuffer", 2, 1), ("baseM", 1, 2)),
}
"""Fields of a tiling and the factor (up, down) that may make a part smaller; each is tried where the kernel has it."""
_BUFFERS_AT_MOST = 2
ESTIMATED = "estimated from one block"
"""Words for a gain that is not of the whole kernel."""
_CAUSES = {
    "launch": "launching",
    "start": "the start of the cores and the first loads, before the first Mmad",
    "drain": "results leave after the last Mmad",
    "wait MTE1": "the cube waits for L0A and L0B, which MTE1 fills from L1",
    "wait FIX": "the cube waits for the Fixpipe, which takes results out of L0C",
    "wait flags": "flags between the pipes are on their way",
    "issue": "instructions are not issued yet when the cube is free",
}
_PRECISIONS = {1: "down to half precision or HF32 where it can", 2: "in float16", 3: "in HF32"}
"""cubeMathType that multiplies float32 faster."""


class Added(NamedTuple):
    """Cycles that a kernel takes more with a change, below zero for a gain; `whole`: simulated in the changed call, else
    estimated from one block.
    """

    cycles: int
    whole: bool


class TrialSource(Protocol):
    """Interface of an object that tries changes of the call by simulation (`calls.trials`)."""

    @property
    def batch(self) -> int:
        """Return the batch of the call; 0 where it has none."""

    def added(self, kernel: str, change: Mapping[str, Any], *, whole: bool) -> Added | None:
        """Return the cycles that `kernel` takes more with a change than without it, below zero for a gain; None if unknown.

        All its blocks are tried with `whole` if that is soon done, else one block; the result says which.
        """


@frozen
class Statement:
    """One statement on one or more parts of a waterfall: its `text`, and `cycles`, their cost.

    `change` is the change whose `gain` the text promises, {} for none: {"batch": f} a batch f times as large, {"channels": c}
    channels (of a group) filled up to multiples of c, else keywords of the call ({"tiling": ...}). `gain` is the saving in
    cycles of the whole kernel for the same work (one call of a larger batch against f of these), below zero where a larger
    batch takes more, None where nothing is promised. `at_most`: no change was found, and `gain` is the cost of the parts.
    `estimated`: it is computed from one block.
    """

    parts: tuple[str, ...]
    cycles: int
    text: str
    command: str
    change: Mapping[str, Any]
    gain: int | None
    at_most: bool = False
    estimated: bool = False


def statements(
    chip: ChipSpec,
    kernel: Mapping[str, Any],
    problem: Mapping[str, Any],
    commands: Commands | None = None,
    trials: TrialSource | None = None,
) -> list[Statement]:
    """Return up to three statements on the largest parts of `kernel` (an entry of `Report.kernels`) besides the useful
    products, largest first.

    Start, launch and idle cores count as one part; parts below 5 % of the kernel are left out. One statement on faster formats
    may follow; [] for a kernel without a waterfall. `problem` is the report's. `commands` go on from the call (None: statements
    have no command); `trials` simulates changes (None: none is tried).
    """
    return _Speaker(chip, kernel, problem, commands, trials).statements() if kernel.get("waterfall") else []


class _Best(NamedTuple):
    """A change of the call and the cycles that it saves; `estimated`: from one block."""

    change: Mapping[str, Any]
    gain: int
    estimated: bool


@frozen
class _Speaker:
    """Maker of the statements on one kernel."""

    chip: ChipSpec
    kernel: Mapping[str, Any]
    problem: Mapping[str, Any]
    commands: Commands | None
    trials: TrialSource | None

    def statements(self) -> list[Statement]:
        parts = {name: cycles for name, cycles in self._parts.items() if name != "ideal" and cycles > 0}
        groups: list[tuple[str, ...]] = [(name,) for name in parts if name not in _ONCE]
        groups.append(tuple(name for name in _ONCE if name in parts))
        costs = {group: sum(parts[name] for name in group) for group in groups}
        worth = [group for group in groups if costs[group] >= _WORTH_SAYING * self._elapsed]
        found = []
        for group in sorted(worth, key=lambda group: -costs[group])[:_SHOWN]:
            found.append(self._once(group) if group[0] in _ONCE else self._of_part(group[0]))
        faster = self._faster_products()
        return [*found, faster] if faster is not None else found

    def _statement(
        self,
        parts: tuple[str, ...],
        words: str,
        command: str = "",
        change: Mapping[str, Any] | None = None,
        gain: int | None = None,
        *,
        estimated: bool = False,
    ) -> Statement:
        """Return the statement whose text is the share and us of `parts`, then `words`; it is `at_most` if it has a `gain` but
        no `change`.
        """
        cycles = sum(self._parts[name] for name in parts)
        text = f"{self._share(cycles)} ({self.chip.us(cycles):.1f} us): {words}"
        at_most = gain is not None and not change
        return Statement(parts, cycles, text, command, change or {}, gain, at_most, estimated)

    @property
    def _parts(self) -> Mapping[str, int]:
        parts: Mapping[str, int] = self.kernel["waterfall"]
        return parts

    @property
    def _elapsed(self) -> int:
        return sum(self._parts.values())

    @property
    def _name(self) -> str:
        return str(self.kernel["name"])

    def _share(self, cycles: int, calls: int = 1) -> str:
        return f"{100 * cycles / (calls * self._elapsed):.0f} %"

    def _added(self, change: Mapping[str, Any], *, whole: bool = True) -> Added | None:
        """Return the cycles that the kernel takes more with a change of the call, below zero for a gain; None without trials or
        if unknown.
        """
        return None if self.trials is None else self.trials.added(self._name, change, whole=whole)

    def _best(self, changes: Sequence[Mapping[str, Any]]) -> _Best | None:
        """Return the change that saves most, with its gain in the whole kernel; None if it saves less than 8 % of the kernel.

        One block of each chooses, which costs a tenth of trying each as a whole; None too if no block saves 3 %.
        """
        costs = [(cost.cycles, change) for change in changes if (cost := self._added(change, whole=False))]
        least, chosen = min(costs, key=lambda pair: pair[0], default=(0, {}))
        if least > -_WORTH_TRYING * self._elapsed or (added := self._added(chosen)) is None:
            return None
        return None if added.cycles > -_WORTH_DOING * self._elapsed else _Best(chosen, -added.cycles, not added.whole)

    def _advised(self, parts: tuple[str, ...], words: str, best: _Best) -> Statement:
        command = self.commands.run(best.change) if self.commands is not None else ""
        return self._statement(parts, words, command, best.change, best.gain, estimated=best.estimated)

    def _less(self, best: _Best) -> str:
        return _noted(f"takes {self._share(best.gain)} less", best.estimated)

    def _once(self, parts: tuple[str, ...]) -> Statement:
        """Return the statement on the `parts` that cost the same in every launch (such as start and launch) and for idle cores.

        It advises a block for every core if that saves enough; else it says what a larger batch saves, or costs; without trials
        that know it, neither.
        """
        blocks, cores = self.kernel["block_dim"], self.chip.cores.aic
        causes = [f"{_CAUSES[name]} ({self._share(self._parts[name])})" for name in parts if name in _CAUSES]
        if "idle cores" in parts:
            causes.append(f"only {blocks} of {cores} cores have a block ({self._share(self._parts['idle cores'])})")
            more = self._best([{"block_dim": {self._name: cores}}])
            if more is not None:
                words = _noted(f"{cores} blocks take {self._share(more.gain)} less", more.estimated)
                return self._advised(parts, f"{listed(causes)}. {words}", more)
        factor = max(2, cores // blocks) if "idle cores" in parts else 2
        added = self._added({"batch": factor}, whole=False)
        if added is None or added.cycles <= (factor - 1 + _WORTH_TRYING) * self._elapsed:
            added = self._added({"batch": factor})
        if added is None or self.trials is None:
            return self._statement(
                parts, f"{listed(causes)}. It comes once a launch: fewer and larger launches have less of it"
            )
        gain = (factor - 1) * self._elapsed - added.cycles
        times = "twice" if factor == 2 else f"{factor} times"
        change = f"{self._share(abs(gain), factor)} {'less' if gain > 0 else 'more'}"
        takes = _noted(f"takes {change} than {'two' if factor == 2 else factor} of these", not added.whole)
        words = f"{listed(causes)}. It comes once a launch: {times} the batch in one launch {takes}"
        batches = [self.trials.batch, factor * self.trials.batch]
        command = self.commands.sweep("batch", batches) if self.commands is not None else ""
        return self._statement(parts, words, command, {"batch": factor}, gain, estimated=not added.whole)

    def _of_part(self, part: str) -> Statement:
        """Return the statement on a part of the waterfall."""
        special = {"zeros": self._zeros, "padded channels": self._channels}
        return special[part]() if part in special else self._tiled(part)

    def _cause(self, part: str) -> str:
        kernel, work = self.kernel, self.kernel["cube_work_cycles"]
        if part == "tile edges":
            return "tiles are larger than what is left at their edges"
        if part == "uneven cores":
            return f"the work is not shared evenly: the busiest core has {max(work) * len(work) / sum(work):.2f} times the mean"
        if part == "heads":
            count = kernel["counts"]["instructions"].get("mmad", 0)
            return f"{count:,} Mmads are short ({sum(work) / max(count, 1):.0f} cycles in the mean), and each has a head"
        if part == "wait MTE2":
            moved = kernel["counts"]["bytes"].get("GM->L1", 0)
            return f"the cube waits for loads from GM ({moved / 2**20:.1f} MiB)"
        return _CAUSES.get(part, WORDS[part])

    def _tiled(self, part: str) -> Statement:
        """Return the statement that advises to change one field of the kernel's tiling by one step.

        If no step saves enough, it states the part's cost as the most that can be gained, and the command of a search if the
        tiling can be set.
        """
        cause, cycles, tiling = self._cause(part), self._parts[part], self.kernel["tiling"]
        own = [(field, up, down) for field, up, down in _STEPS.get(part, ()) if field in tiling]
        steps = {field: _step(field, tiling[field], up, down) for field, up, down in own}
        tried = {field: value for field, value in steps.items() if value != tiling[field]}
        best = self._best([{"tiling": {self._name: {field: value}}} for field, value in tried.items()])
        if best is not None:
            ((field, value),) = best.change["tiling"][self._name].items()
            return self._advised((part,), f"{cause}. {field}={value} (now {tiling[field]}) {self._less(best)}", best)
        words = f"{cause}. Without it the kernel takes at most {self._share(cycles)} less"
        if self._name not in settable_kernels():
            return self._statement((part,), words, gain=cycles)
        if "baseM" not in tiling:
            words += "; the library picks this tiling itself, a search tries a substitute kernel that aclnn will not launch"
        elif tried and self.trials is not None:
            words += f"; no single step of {listed(list(tried))} does it, a search tries them together"
        command = self.commands.tile(self._name) if self.commands is not None else ""
        return self._statement((part,), words, command, gain=cycles)

    def _zeros(self) -> Statement:
        waterfall, stride = self._parts, self.problem.get("stride", [])
        products = waterfall["ideal"] + waterfall.get("left out", 0)
        factor = (products + waterfall["zeros"]) / products
        if all(step == 1 for step in stride):
            words = f"products beyond the border: {factor:.1f} times the useful ones. They belong to the layer's padding"
            return self._statement(("zeros",), words)
        cause = f"stride {_by(stride)} puts zeros between pixels, and the cube multiplies them: "
        cause += f"{factor:.1f} times the useful products"
        best = self._best([{"tiling": {self._name: {"kernelSplitMode": mode}}} for mode in (1, 2)])
        if best is None:
            words = (
                f"No tiling of this kernel avoids it ({self.chip.identity.arch}); chips that split the kernel by the stride do"
            )
            return self._statement(("zeros",), f"{cause}. {words}")
        mode = best.change["tiling"][self._name]["kernelSplitMode"]
        words = f"A split of the kernel by the stride (kernelSplitMode {mode}) {self._less(best)}"
        return self._advised(("zeros",), f"{cause}. {words}", best)

    def _channels(self) -> Statement:
        block = self.chip.cube.n0
        needed = self._parts["ideal"] + self._parts.get("left out", 0) + self._parts.get("zeros", 0)
        gain = round(self._elapsed * self._parts["padded channels"] / needed)
        cause = f"channels are filled up to whole blocks of {block}, groups are merged until they fill one"
        words = (
            f"Channels (and channels of a group) in multiples of {block} take no longer: {1 + gain / self._elapsed:.1f} times "
            "the products in the same time"
        )
        return self._statement(("padded channels",), f"{cause}. {words}", change={"channels": block}, gain=gain)

    def _faster_products(self) -> Statement | None:
        """Return the statement on formats that the cube multiplies faster than float32.

        None if it computes in another dtype, if the useful products are below 5 % of the kernel, or if no format saves enough.
        """
        cycles = self._parts.get("ideal", 0)
        if self.problem.get("compute_dtype") != "float32" or cycles < _WORTH_SAYING * self._elapsed:
            return None
        best = self._best([{"cube_math_type": number} for number in _PRECISIONS])
        if best is None:
            return None
        number = best.change["cube_math_type"]
        words = (
            f"the cube multiplies float32. cubeMathType {number} ({_PRECISIONS[number]}) {self._less(best)}, with fewer bits"
        )
        return self._advised(("ideal",), words, best)


def _step(field: str, value: int, up: int, down: int) -> int:
    """Return the value of a tiling field to try next: `value` times `up` / `down`, rounded down to whole fractals (16), 16 at
    least.

    A field that ends in Pbuffer counts buffers: `value` times `up`, 2 at most. The result equals `value` where no step is
    possible.
    """
    if field.endswith("Pbuffer"):
        return min(value * up, _BUFFERS_AT_MOST)
    return max(FRACTAL, value * up // down // FRACTAL * FRACTAL)


def _noted(words: str, estimated: bool) -> str:
    """Return words on a gain, with the note that it is estimated if it is."""
    return f"{words} ({ESTIMATED})" if estimated else words


def layer_words(problem: Mapping[str, Any]) -> str:
    """Return a convolution in words: "256 -> 512 channels, kernel 3x3, stride 2x2, maps 28x28, batch 32"; "" for others."""
    tensors = problem.get("tensors", {})
    if not {"input", "weight"} <= tensors.keys() or "stride" not in problem:
        return ""
    maps, weight = tensors["input"]["shape"], tensors["weight"]["shape"]
    if len(maps) != len(weight) or len(maps) < 3:
        return ""
    grouped = problem.get("groups", 1)
    first, second = weight[0], weight[1] * grouped
    channels = f"{first} -> {second}" if problem.get("transposed") else f"{second} -> {first}"
    sizes = f"kernel {_by(weight[2:])}, stride {_by(problem['stride'])}, maps {_by(maps[2:])}"
    groups = f", {grouped} groups" if grouped != 1 else ""
    return f"{channels} channels, {sizes}{groups}, batch {maps[0]}"


def _by(extents: Any) -> str:
    return "x".join(str(extent) for extent in extents) if isinstance(extents, list | tuple) else str(extents)


def settable_kernels() -> Mapping[str, object]:
    """Return {kernel: its tiling class} of the kernels whose tiling can be set; imported when a report first needs it."""
    from ascend_sim.ops.kernels.tilings import TILINGS

    return TILINGS
