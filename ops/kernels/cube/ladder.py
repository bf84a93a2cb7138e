"""Ladder of a tiling: rungs are tried in order, and the first that has a tiling answers.

A rung that has none returns its reason as a value. A kernel's rungs are listed in its own `ladder.py`, and nothing is
decided elsewhere. Procedures raise TilingError from deep inside: `attempt` turns that into a value, here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.strips import even_strip
from ascend_sim.ops.problem.tiling_input import TilingInput

T = TypeVar("T")
Q = TypeVar("Q")
T_co = TypeVar("T_co", covariant=True)
Q_contra = TypeVar("Q_contra", contravariant=True)

STATED, INFERRED, GUESSED, OURS = MARKS = ("stated", "inferred", "guessed", "ours")
"""Certainty that the library decides as a rung does; OURS: it does not, or it is unknown."""
WIDEST = 1024
"""Most columns of a strip: the longest side of a base block."""


@frozen
class Refusal:
    """The reason why a rung has no tiling.

    `closed`: the library is known to decide the problem in a way that is not published, so that any answer is a
    stand-in. `warns`: the caller of the operator gets the reason as a warning.
    """

    reason: str
    closed: bool = False
    warns: bool = False


@frozen
class Rung(Generic[Q_contra, T_co]):
    """One way to a tiling: if it `applies` to a question, `tiling(question)` returns a tiling or a refusal.

    `mark` is one of MARKS, or returns one for a question. Where no rung has a tiling, the caller gets the last refusal
    of a rung that `explains`. A rung beside the usual way does not explain: its refusal is used only without such a rung.
    """

    name: str
    mark: str | Callable[[Q_contra], str]
    applies: Callable[[Q_contra], bool]
    tiling: Callable[[Q_contra], T_co | Refusal]
    explains: bool = True

    def mark_of(self, question: Q_contra) -> str:
        """Return the rung's mark for a question, one of MARKS."""
        return self.mark if isinstance(self.mark, str) else self.mark(question)


@frozen
class RungStep:
    """One rung of a climb, and its `refusal`; None for the rung that answered."""

    rung: Rung[Any, Any]
    refusal: Refusal | None = None


@frozen
class LadderAnswer(Generic[T]):
    """A tiling and the climb to it: `steps` are the rungs that refused the `question`, in order, and the one that answered."""

    tiling: T
    question: Any
    steps: tuple[RungStep, ...]

    @property
    def stands_in(self) -> bool:
        """Return True if the library is known to decide otherwise (a refusal is `closed`), so that the tiling is a stand-in."""
        return any(step.refusal is not None and step.refusal.closed for step in self.steps)

    @property
    def warnings(self) -> list[str]:
        """Return the messages of refusals before the answer that the caller of the operator must see."""
        return [step.refusal.reason for step in self.steps if step.refusal is not None and step.refusal.warns]

    def rows(self) -> list[dict[str, str | None]]:
        """Return the climb for a report, rung by rung: "rung", "mark" and why it "refused", None for the one that answered."""
        return [
            {
                "rung": step.rung.name,
                "mark": step.rung.mark_of(self.question),
                "refused": step.refusal.reason if step.refusal else None,
            }
            for step in self.steps
        ]


def climb(rungs: Iterable[Rung[Q, T]], question: Q) -> LadderAnswer[T] | Refusal:
    """Return the answer of the first rung that applies and has a tiling; a TilingError of a rung counts as its refusal.

    If none has, return the last refusal of a rung that `explains`, or of any rung if none of them does. AssertionError if no
    rung applies.
    """
    steps: list[RungStep] = []
    refusal, explained = None, False
    for rung in rungs:
        if not rung.applies(question):
            continue
        found = attempt(rung.tiling, question)
        if not isinstance(found, Refusal):
            return LadderAnswer(found, question, (*steps, RungStep(rung)))
        steps.append(RungStep(rung, found))
        if rung.explains or not explained:
            refusal, explained = found, rung.explains
    assert refusal is not None, "a ladder has a rung for every question"
    return refusal


def attempt(find: Callable[..., T | Refusal], *arguments: Any) -> T | Refusal:
    """Return the result of `find`; a refusal with the message if it raises TilingError."""
    try:
        return find(*arguments)
    except TilingError as error:
        return Refusal(str(error))


def answered(answer: T | Refusal) -> T:
    """Return `answer`, unless it is a refusal; then raise TilingError with its reason."""
    if isinstance(answer, Refusal):
        raise TilingError(answer.reason)
    return answer


@frozen
class TilingQuestion:
    """Question to a ladder: the problem, the chip (None: a 910B) and the call's demands.

    `fields` are the user's, by the vendor's names: None if the user gives none, {} if the user sets no field but asks
    for the kernel that has such fields. `dtype` is the cube's ("" for any), `op_type` the library's operator ("" for
    the open kernel itself), `blocks` the number of blocks that the call asks for.
    """

    inp: TilingInput
    fields: Mapping[str, Any] | None = field(default=None, hash=False)
    chip: ChipSpec | None = None
    dtype: str = ""
    op_type: str = ""
    blocks: int | None = None
    fields_of: ClassVar[type[ConvTiling]] = ConvTiling
    """Class of the tiling whose fields a user may give."""

    @cached_property
    def given(self) -> dict[str, int]:
        """Return the user's fields under our names; {} if there is none. TilingError for names or values no tiling has."""
        return self.fields_of.given(self.fields or {})

    @property
    def closed(self) -> bool:
        """Return True if the operator's kernel is in a closed library: False unless a kernel's question overrides it."""
        return False

    @property
    def free(self) -> bool:
        """Return True if the user gives no field: `fields` is None or {}."""
        return not self.fields

    @property
    def dealt(self) -> TilingInput:
        """Return the problem; on coupled chips with `blocks` given, its number of cores is `blocks`.

        Published rows of the 910 have 32 blocks on 30 cores, so their tiler did not take the number from the chip.
        """
        return replace(self.inp, cores=self.blocks) if self.blocks and self.inp.family.coupled else self.inp


CLOSED: Rung[Any, Any] = Rung(
    "library's own",
    STATED,
    lambda q: q.closed,
    lambda q: Refusal(f"{q.op_type} is of a closed library, whose tilings are not published", closed=True),
    explains=False,
)
"""The rung of operators whose library is closed."""


# ---- strips that fit -------------------------------------------------------------------------------------------------


class Tiled(Protocol):
    """Interface of a tiling whose tiles have `base_m` pixels."""

    @property
    def base_m(self) -> int:
        """Return the pixels of a tile."""


S = TypeVar("S", bound=Tiled)


def widest_that_fits(
    width: int, may_fit: Callable[[int], bool], cut: Callable[[int], S | Refusal], spare: int, widest: int = WIDEST
) -> S | Refusal:
    """Return the tiling of the widest strips for which `cut(width of a strip)` returns one; a refusal where none does: the last
    one, or that rows are too narrow.

    Widths tried are about `widest` columns (at most half of `width`), half of that, a quarter ..., made even by `even_strip`
    with `spare`; those for which `may_fit` is False are left out, except the narrowest. Where the tile found is narrower than
    its strip, `cut` is asked again for strips as wide as the tile.
    """

    def fitted(strip: int) -> S | Refusal:
        tiling = cut(strip)
        if isinstance(tiling, Refusal):
            return tiling
        own = even_strip(width, tiling.base_m, spare)
        return cut(own) if own < strip else tiling

    refusal = Refusal(f"{width} columns are not cut: a strip has at least {FRACTAL}")
    most = min(widest // FRACTAL * FRACTAL, ceil_to(width, FRACTAL) // 2)
    while most >= FRACTAL:
        strip = even_strip(width, most, spare)
        narrowest = most < 2 * FRACTAL
        if strip < width and (may_fit(strip) or narrowest):
            tried = attempt(fitted, strip)
            if not isinstance(tried, Refusal):
                return tried
            refusal = tried
        most = most // 2 // FRACTAL * FRACTAL
    return refusal
