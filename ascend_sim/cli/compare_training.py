"""`ascend-sim compare-training SCRIPT.py`: one training of PyTorch under several precisions of a chip."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.completing import PRECISIONS
from ascend_sim.cli.kernel import called, load_file, own_stdout
from ascend_sim.cli.options import Printed, command
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import console, print_json, print_written
from ascend_sim.errors import SimError
from ascend_sim.options.run_options import TrainingOptions


@command(
    alone={"--plot": "losses.png"},
    epilog="Example:  ascend-sim compare-training train.py --steps 20 --precisions fp32,hf32,bf16 --plot losses.png",
)
def compare_training(
    script: Annotated[
        Path, typer.Argument(help="A Python file with a function training(): it trains, and yields the loss of each step.")
    ],
    asked: TrainingOptions,
    printed: Printed,
    steps: Annotated[int, typer.Option(min=1, help="Losses that are taken of each run.")] = 20,
    precisions: Annotated[
        str,
        typer.Option(
            help="fp32, hf32, fp16 (cubeMathType 0, 3, 2), bf16 (autocast), hifloat8 (950), with commas.",
            autocompletion=PRECISIONS,
        ),
    ] = "fp32,hf32,fp16,bf16",
    forward: Annotated[
        bool, typer.Option("--forward/--no-forward", help="Whether the chip computes the forward pass too.")
    ] = True,
    seed: Annotated[int, typer.Option(help="PyTorch's seed before each run.")] = 0,
) -> None:
    """Train with the gradients that a chip computes in each precision, beside PyTorch's own, and compare the losses."""
    with errors(printed.json_output):
        printed.check()
        try:
            from ascend_sim.torch import training as trainings
        except ImportError as error:
            raise SimError(str(error)) from None
        with own_stdout(printed.json_output or printed.csv_output), Progress("runs") as progress:
            module = load_file(script, "a training", "training(); it trains, and yields the loss of each step")
            compared = trainings.compare_training(
                partial(_training, script, module.training),
                precisions=precisions.split(","),
                steps=steps,
                seed=seed,
                forward=forward,
                progress=progress,
                **asked,
            )
        if printed.plot is not None:
            compared.plot(printed.plot)
        if printed.json_output:
            print_json(compared.to_dict())
        elif printed.csv_output:
            print(compared.csv_text(), end="")
            for remark in compared.remarks:
                print(f"ascend-sim: {remark}", file=sys.stderr)
        else:
            compared.render(console())
            print_written([printed.plot])


def _training(script: Path, training: Callable[[], Any]) -> Any:
    """Call the script's function; return an iterator over its losses, or its result if that is not iterable.

    Errors of the script become SimError with its file and line.
    """
    made = called(script, training)
    return _losses(script, iter(made)) if isinstance(made, Iterable) else made


def _losses(script: Path, made: Iterator[Any]) -> Iterator[Any]:
    end = object()
    while (loss := called(script, next, made, end)) is not end:
        yield loss
