"""One training under several precisions of the chip, and PyTorch's own beside them.

    def training():                     # makes model, data and optimizer anew; yields the loss of each step
        ...
        yield loss

    print(compare_training(training, steps=20))

Every run begins with the same seed. In "fp32", "hf32" and "fp16" the training's float32 convolutions and their gradients are
computed on the simulated chip under the cubeMathType of that name, in "bf16" under autocast to bfloat16, in "hifloat8" from
tensors that are rounded to HiFloat8 (a 950 alone).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

import torch
from rich.console import Console
from rich.text import Text

from ascend_sim.chip import chip_of
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.options.description import filled, with_options
from ascend_sim.options.run_options import TrainingOptions
from ascend_sim.report.grid import Grid
from ascend_sim.report.png import png_figure, write_png
from ascend_sim.report.shown import ShownResult
from ascend_sim.runtime import Progress
from ascend_sim.settings import check_options
from ascend_sim.torch.eight_bit import EightBitSimulation
from ascend_sim.torch.options import SimulateOptions
from ascend_sim.torch.simulation import Simulation, simulate

PRECISIONS: dict[str, tuple[int, torch.dtype | None]] = {
    "fp32": (0, None),
    "hf32": (3, None),
    "fp16": (2, None),
    "bf16": (0, torch.bfloat16),
    "hifloat8": (0, None),
}
"""Precision -> (cubeMathType, dtype that autocast gives convolutions or None)."""
USUAL = ("fp32", "hf32", "fp16", "bf16")
"""Precisions that every chip has."""
EIGHT_BIT = "hifloat8"
TORCH = "torch"

Training = Callable[[], Iterable[Any]]


@frozen
class TrainingComparison(ShownResult):
    """Losses of each run by step; run "torch" is PyTorch alone, "torch bf16" PyTorch under autocast to bfloat16.

    `remarks` are lines on limits of the comparison.
    """

    chip: str
    losses: dict[str, list[float]]
    remarks: tuple[str, ...] = ()

    def deviations(self, name: str) -> list[float]:
        """Return |loss - torch's| / |torch's| for each step of run `name`; |loss| where torch's is 0, NaN where either
        is NaN or torch's is infinite.
        """
        pairs = zip(self.losses[name], self.losses[TORCH], strict=False)
        return [abs(loss - own) / abs(own) if own else abs(loss) for loss, own in pairs]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: "chip", "remarks", and by run "losses" and "deviations" (none for "torch"); non-finite
        numbers are None.
        """
        return {
            "chip": self.chip,
            "remarks": list(self.remarks),
            "losses": {name: [_finite(loss) for loss in losses] for name, losses in self.losses.items()},
            "deviations": {name: [_finite(one) for one in self.deviations(name)] for name in self.losses if name != TORCH},
        }

    def render(self, console: Console) -> None:
        """Print a table with first and last loss of each run and its deviation from PyTorch's (first, last, largest), then the
        remarks.
        """
        steps = len(self.losses[TORCH])
        heads = (">first loss", ">last loss", ">from torch, first", ">last", ">largest")
        table = Grid(f"{steps} steps on {self.chip}", ("run", *heads))
        for name, losses in self.losses.items():
            gaps = self.deviations(name)
            largest = math.nan if any(map(math.isnan, gaps)) else max(gaps)
            cells = ["-"] * 3 if name == TORCH else [f"{gap:.1e}" for gap in (gaps[0], gaps[-1], largest)]
            table.row(name, f"{losses[0]:.7g}", f"{losses[-1]:.7g}", *cells)
        console.print(table)
        for remark in self.remarks:
            console.print(Text(remark))

    def _draw(self, console: Console) -> None:
        self.render(console)

    def csv_text(self) -> str:
        """Return the losses as CSV: a line of names, then one for each step, numbered from 0, with a column for each run."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["step", *self.losses])
        for number, losses in enumerate(zip(*self.losses.values(), strict=True)):
            writer.writerow([number, *losses])
        return out.getvalue()

    def plot(self, path: str | Path) -> None:
        """Write a PNG: the loss curves, and below the deviation of each run from PyTorch's.

        Raises SimError if `path` does not end in .png, its folder is missing or it cannot be written, and without matplotlib.
        """
        figure = png_figure(path, 9, 7)
        above, below = figure.subplots(2, 1, sharex=True)
        for name, losses in self.losses.items():
            if name == TORCH:
                above.plot(losses, label=name, color="black", linewidth=3, alpha=0.35)
                continue
            style = "--" if name.startswith(TORCH) else "-"
            (line,) = above.plot(losses, style, label=name)
            below.plot(self.deviations(name), style, color=line.get_color(), label=name)
        above.set(ylabel="loss", title=f"Training on {self.chip}: the chip's gradients beside PyTorch's")
        below.set(ylabel="|loss - torch| / |torch|", xlabel="step", yscale="log")
        for axis in (above, below):
            axis.grid(alpha=0.3)
            axis.legend(fontsize="small")
        write_png(figure, path)


@with_options(TrainingOptions)
def compare_training(
    training: Training,
    *,
    precisions: Sequence[str] = USUAL,
    steps: int = 20,
    seed: int = 0,
    forward: bool = True,
    progress: Progress | None = None,
    **options: Unpack[TrainingOptions],
) -> TrainingComparison:
    """Run `training()` once with PyTorch alone and once for each precision; return at most `steps` losses of each run.

    PyTorch's random generator is seeded with `seed` before each run, and not restored. `forward=False` leaves the forward pass
    to PyTorch. In all runs PyTorch has one thread: in a small step its threads wait for each other most of the time. "bf16"
    adds a run "torch bf16" of PyTorch alone under autocast. Raises SimError for unknown names, bad numbers, "hifloat8" on a
    chip without it, a training that yields no loss or runs of different lengths, and AclnnError where the chip refuses a call.
    """
    for name in precisions:
        if name not in PRECISIONS:
            raise SimError(f"precision {name!r}: allowed are {', '.join(PRECISIONS)}")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise SimError(f"steps is {steps!r}; allowed is a whole number from 1")
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**64:
        raise SimError(f"seed is {seed!r}; allowed is a whole number from -2^63 to 2^64 - 1 (torch.manual_seed)")
    how = TrainingOptions(**options)
    check_options(TrainingOptions, how)
    spec = chip_of(how["chip"])
    if EIGHT_BIT in precisions and EIGHT_BIT not in spec.cube.rates:
        raise SimError(f"precision {EIGHT_BIT!r}: {spec.name} has no such product; a 950 has it (--chip ascend950pr_9589)")
    plans: list[tuple[str, int | None, torch.dtype | None]] = [(TORCH, None, None)]
    for name in dict.fromkeys(precisions):
        cube_math_type, dtype = PRECISIONS[name]
        plans += [(f"{TORCH} {name}", None, dtype)] if dtype is not None else []
        plans.append((name, cube_math_type, dtype))
    losses: dict[str, list[float]] = {}
    watched = []
    for done, (name, math_type, dtype) in enumerate(plans):
        with ExitStack() as stack:
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
            if math_type is not None:
                mode = _simulation(name, math_type, {**how, "chip": spec, "forward": forward})
                watched.append(stack.enter_context(mode))
            if dtype is not None:
                # Without its cache, which would keep the weights of the first step as long as the context lasts.
                stack.enter_context(torch.autocast("cpu", dtype, cache_enabled=False))
            torch.manual_seed(seed)
            losses[name] = [_number(loss, step) for step, loss in enumerate(islice(_yielded(training()), steps))]
        if not losses[name]:
            raise SimError("training() yields no loss; it must yield one for each step")
        if len(losses[name]) != len(losses[TORCH]):
            raise SimError(
                f"training() yields {len(losses[TORCH])} losses with torch, {len(losses[name])} with {name}; "
                f"it must not depend on what ran before"
            )
        if progress is not None:
            progress("training", done + 1, len(plans))
    return TrainingComparison(spec.name, losses, tuple(_remarks(losses, steps, any(sim.rows for sim in watched))))


def _simulation(name: str, math_type: int, how: Mapping[str, Any]) -> Simulation:
    """Return the context in which a run's convolutions and gradients get the chip's values, in mode "functional"; a refused
    call raises. For "hifloat8" the rules are those of the released library.
    """
    fixed = {"mode": "functional", "values": "chip", "strict": True, "matmul": False, "cube_math_type": math_type}
    if name != EIGHT_BIT:
        return simulate(**how, **fixed)  # type: ignore[arg-type]
    return EightBitSimulation(EIGHT_BIT, filled(SimulateOptions, {**how, **fixed, "conformance": "library"}))


def _remarks(losses: dict[str, list[float]], steps: int, seen: bool) -> Iterator[str]:
    """Yield a line for each limit of the comparison: a training that ended before the requested `steps`, losses that are not
    finite, and no convolution or gradient of one on the chip (`seen` is False).
    """
    if len(losses[TORCH]) < steps:
        yield f"training() ended after {len(losses[TORCH])} of {steps} steps"
    for name, values in losses.items():
        wrong = [step for step, loss in enumerate(values) if not math.isfinite(loss)]
        if wrong:
            yield f"{name}: {len(wrong)} of {len(values)} losses are not finite, the first in step {wrong[0]}"
    if not seen:
        yield "no convolution or gradient of one ran: nothing was computed on the chip"


def _yielded(made: Any) -> Iterable[Any]:
    if not isinstance(made, Iterable):
        raise SimError(f"training() returns {type(made).__name__}; it must yield the loss of each step")
    return made


def _number(loss: Any, step: int) -> float:
    if isinstance(loss, torch.Tensor) and (loss.numel() != 1 or loss.is_complex()):
        raise SimError(f"step {step}: the loss is a tensor of {loss.dtype} and shape {list(loss.shape)}; it must be one number")
    try:
        return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)
    except (TypeError, ValueError):
        raise SimError(f"step {step}: the loss is {loss!r}; it must be one number") from None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
