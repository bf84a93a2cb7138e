"""Choice of the engine: the one that the user or the environment asks for, else the compiled one where it was built.

Little is loaded for the answer, so that `ascend-sim --version` has it at once.
"""

from __future__ import annotations

import os
import warnings
from functools import cache

from ascend_sim.built import built_file, opened
from ascend_sim.errors import SimError

ENGINES = ("auto", "simpy", "compiled")
"""Values of the option `engine`: "auto" is the compiled engine where it was built."""
VARIABLE = "ASCEND_SIM_ENGINE"
"""Environment variable that chooses the engine where the option is None or "auto"."""
_NOT_BUILT = "ascend-sim was installed without a C compiler"


def chosen_engine(engine: str | None = None) -> str:
    """Return the engine to run, "simpy" or "compiled".

    For None and "auto" the variable `ASCEND_SIM_ENGINE` decides; without it the compiled engine runs where it was built, else
    SimPy, with a warning once a process. Raises SimError for another name, also in the variable, and for "compiled" where it
    was not built.
    """
    asked, said_by = "auto" if engine is None else engine, "engine"
    if asked == "auto" and os.environ.get(VARIABLE):
        asked, said_by = os.environ[VARIABLE], VARIABLE
    if asked not in ENGINES:
        raise SimError(f"{said_by} {asked!r}: allowed are {', '.join(ENGINES)}")
    built = built_file() is not None
    if asked == "compiled" and not built:
        raise SimError(
            f"{said_by} 'compiled': it was not built when ascend-sim was installed (that takes a C compiler); use simpy"
        )
    if asked == "auto" and not built:
        _say_that_it_is_slow()
    return "compiled" if built and asked != "simpy" else "simpy"


def working_engine() -> str:
    """Return the name of the engine that runs, as `chosen_engine` does. Raises SimError also for a broken or older library."""
    engine, path = chosen_engine(), built_file()
    if engine == "compiled" and path is not None:
        opened(path)
    return engine


def leave_the_word_to_another() -> None:
    """Silence this process's warning that the engine was not built: it works for another process, which prints it."""
    warnings.filterwarnings("ignore", f"{_NOT_BUILT}:", RuntimeWarning)


@cache
def _say_that_it_is_slow() -> None:
    warnings.warn(
        f"{_NOT_BUILT}: the SimPy engine runs, which gives the same results and is slower "
        f"({VARIABLE}=simpy says that this is meant)",
        RuntimeWarning,
        stacklevel=2,
    )
