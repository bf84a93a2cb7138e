"""The outcome of a search for tilings: what was simulated, what is known of the rest, and how a tiling reaches a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.frozen import frozen
from ascend_sim.report.ladder import asks_table
from ascend_sim.report.shown import ShownResult
from ascend_sim.studies.tiles.kernel import CubeKernel, Fields

Result = Mapping[str, Any]
"""Result of `CubeKernel.simulate` for a tiling, and its "bound"; the call's own kernel has none where no user can set it."""

Reason = Literal["done", "limit", "time", "interrupted"]
WHY = {
    "limit": "stopped at the limit of simulations", "time": "stopped at the time limit", "interrupted": "interrupted",
}  # fmt: skip
"""Words for the reason why a search ended before it was done."""


@frozen
class SearchOutcome(ShownResult):
    """Result of `search`: the simulated tilings of one kernel, and what is known of the rest of its grid.

    `call` is the result of the kernel as the call launches it, `own` that of the simulator's own choice of fields; they differ
    if the call launches a kernel without fields or has a tiling of its own. `results` are the tilings that were simulated to
    their end, fewest cycles first; `own` is among them unless fixed fields exclude it. `slower` counts the tilings whose
    simulation was stopped, because each is slower than the `top` results that were asked for. `fit` counts the tilings of the
    grid, and `own`; `open` those that might still beat the best and the call (by more than `within`), of which `least` is the
    lowest bound. `reused` results were in the store. Without `listed` the search ended before it had listed all tilings, and
    the counts are of those that it had.
    """

    kernel: CubeKernel
    fixed: Fields
    results: tuple[Result, ...]
    call: Result
    own: Result
    fit: int
    reused: int
    open: int
    least: int | None
    within: float
    reason: Reason
    seconds: float
    listed: bool = True
    slower: int = 0

    @property
    def simulated(self) -> int:
        """Return the number of tilings whose simulation ended or was stopped, stored ones included."""
        return len(self.results) + self.slower

    _drawn = "ascend_sim.studies.tiles.pages:render"

    def __repr__(self) -> str:
        gain = f"best {self.best['cycles']:,} cycles, in the call {self.call['cycles']:,}"
        what = f"{self.kernel.name} on {self.kernel.chip.name}"
        return f"<Outcome of {what}: {len(self.results)} tilings simulated, {gain}>"

    def to_dict(self, top: int = 10) -> dict[str, Any]:
        """Return the search as plain data: its settings, why it "ended", a "sentence" on the result, the results "call" and
        "own", the "best", at most `top`, and "reaches_a_device_by", the word of `reach`.

        Counts are "fit", "simulated", "reused", "slower_than_shown" (`slower`) and "might_be_better" (`open`, of which
        "lowest_bound_left" is the lowest bound); "all_listed" is `listed`.
        """
        return {
            "chip": self.kernel.chip.name,
            "kernel": self.kernel.name,
            "l2": self.kernel.l2,
            "launches": self.kernel.launches,
            "fixed": dict(self.fixed),
            "fit": self.fit,
            "all_listed": self.listed,
            "simulated": self.simulated,
            "slower_than_shown": self.slower,
            "reused": self.reused,
            "might_be_better": self.open,
            "lowest_bound_left": self.least,
            "within": self.within,
            "ended": self.reason,
            "sentence": self.sentence,
            "reaches_a_device_by": self.reach[0],
            "call": dict(self.call),
            "own": dict(self.own),
            "best": [dict(result) for result in self.results[:top]],
        }

    @property
    def reach(self) -> tuple[str, str]:
        """Return (word, sentence) on how a tiling other than the call's can reach a device.

        "tuned table" where the vendor's library looks the problem up in a table, "own kernel" where it does not, "not at all"
        for a chip that does not ship.
        """
        chip = self.kernel.chip
        if chip.name not in chip_names() or load_chip(chip.name) != chip:
            return "not at all", f"{chip.name} is not a chip that ships with this simulator: no device has these numbers"
        if asks_table(self.call["ladder"]):
            return "tuned table", (
                "aclnn's library looks this problem up in its tuned tilings (ops-nn, *_runtime_kb.json); a row there sets the "
                "fields that it has, an own kernel sets all"
            )
        return (
            "own kernel",
            "aclnn's library chooses the tiling and has no table to set it; only a kernel of your own has another",
        )

    @property
    def best(self) -> Result:
        """Return the result with the fewest cycles; of equals the one with the lowest bound."""
        return self.results[0]

    @property
    def faster(self) -> bool:
        """Return True if the best tiling takes fewer cycles than the kernel of the call."""
        return bool(self.best["cycles"] < self.call["cycles"])

    @property
    def sentence(self) -> str:
        """Return a sentence: how many tilings fit and were simulated, and by how much the rest may still be better."""
        counts = f"{self.fit:,} fit, {self.simulated:,} simulated"
        if self.slower:
            counts += f" ({self.slower:,} stopped, slower than these)"
        if not self.listed:
            return f"{WHY[self.reason]} while tilings were listed: {counts} so far, nothing is known of the rest"
        if self.open == 0:
            if not self.within:
                return f"{counts}, the rest cannot be better"
            return f"{counts}, the rest cannot be better by more than {100 * self.within:g} %"
        assert self.least is not None
        gap = 100 * (1 - self.least / min(self.best["cycles"], self.call["cycles"]))
        return f"{counts}, {WHY[self.reason]}: {self.open:,} might be better, by at most {gap:.1f} %"


class SearchOutcomes(list[SearchOutcome]):
    """Outcomes of the searches of one call, kernel by kernel; a notebook shows their tables."""

    def to_dict(self, top: int = 10) -> dict[str, Any]:
        """Return {"searches": the outcomes as plain data}, each with its `top` best tilings at most."""
        return {"searches": [one.to_dict(top) for one in self]}

    def __str__(self) -> str:
        return "\n".join(str(one) for one in self)

    def _repr_html_(self) -> str:
        """Return the tables of all searches as HTML, for notebooks."""
        return "".join(one._repr_html_() for one in self)
