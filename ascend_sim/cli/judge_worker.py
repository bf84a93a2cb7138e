"""The process of one case of `judge`: it compiles, checks and runs a kernel, and prints its verdict as one line of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def judged(file: Path, chip: str, seed: int) -> dict[str, Any]:
    """Return the verdict on a kernel file with its arguments beside it."""
    from ascend_sim.ascend_c.errors import CompileError
    from ascend_sim.checking import check_kernel
    from ascend_sim.cli.cpp import CppOptions
    from ascend_sim.cli.kernel import default_blocks, expected_of, run_file, subject_of
    from ascend_sim.cli.verdict import not_compiled, scalar_computed, verdict_of
    from ascend_sim.errors import SimError
    from ascend_sim.launching import launch
    from ascend_sim.sequence import chip_of

    spec = chip_of(chip)
    try:
        entry = getattr(run_file(file.with_suffix(".py")), "ENTRY", None)
        subject = subject_of(file, None, {}, seed, CppOptions(entry=entry))
    except (CompileError, SimError) as error:
        return not_compiled(str(error))
    kernel, given, fields = subject.kernel, subject.tensors, subject.fields
    blocks = default_blocks(subject.file, subject.module, kernel.core_on(spec), spec)
    checked = check_kernel(kernel, blocks, *given, chip=spec, **fields).to_dict()
    found = verdict_of(checked)
    if not found["passed"]:
        return found
    try:
        run = launch(kernel, blocks, *given, chip=spec, expected=expected_of(subject), **fields)
    except SimError as error:
        return {**found, "passed": False, "stage": "values", "values": {"passed": False, "messages": [str(error)]}}
    sizes = {name: one.nbytes for name, one in run.outputs.items()}
    return verdict_of(checked, run.report.to_dict(), scalar_computed(run.programs, sizes))


def main() -> None:
    """Read the file, the chip and the seed from the command line, and print the verdict."""
    file, chip, seed = sys.argv[1:4]
    print(json.dumps(judged(Path(file), chip, int(seed))))


if __name__ == "__main__":
    main()
