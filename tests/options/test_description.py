"""Consequences of an option's description: signature, help, defaults, refusals, and completion by editors."""

import inspect
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, TypedDict

import pytest

import ascend_sim
from ascend_sim.errors import SimError
from ascend_sim.options.description import Option, check_choices, filled, names_of, of_case, options_in, with_options

pytestmark = pytest.mark.fast


class SizeOptions(TypedDict, total=False):
    """Two options."""

    size: Annotated["int", Option(3, "an integer", "How large.", case=True)]
    shape: Annotated["str", Option("round", "a text", "Which shape.", choices=("round", "square"))]


@of_case
class CaseSizeOptions(SizeOptions, total=False):
    """Size options in a function that takes a case."""


@with_options(SizeOptions)
def plain(first: int, *, own: str = "x", **options: Any) -> tuple[Any, ...]:
    """Return the given arguments."""
    return first, own, options


@with_options(SizeOptions, rest="fields", size=5)
def open_to_more(*given: int, **options: Any) -> dict[str, Any]:
    """Return the given options."""
    return options


def test_the_signature_shows_every_option_and_the_help_its_words() -> None:
    assert str(inspect.signature(plain)) == (
        "(first: int, *, own: str = 'x', size: 'int' = 3, shape: 'str' = 'round') -> tuple[typing.Any, ...]"
    )
    assert plain.__doc__ == "Return the given arguments.\n\nOptions:\n    size: How large.\n    shape: Which shape."
    assert plain.__name__ == "plain"
    assert str(inspect.signature(open_to_more)).endswith(
        "size: 'int' = 5, shape: 'str' = 'round', **fields: 'Any') -> dict[str, typing.Any]"
    )


def test_what_is_left_out_has_its_default() -> None:
    assert plain(1) == (1, "x", {"size": 3, "shape": "round"})
    assert plain(1, own="y", shape="square") == (1, "y", {"size": 3, "shape": "square"})
    assert open_to_more(tile=4) == {"size": 5, "shape": "round", "tile": 4}
    assert filled(SizeOptions, {"size": 7, "other": 1}) == {"size": 7, "shape": "round"}


def test_another_name_is_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match=r"^plain\(\) got an unexpected keyword argument 'sise'; did you mean 'size'\?$"):
        plain(1, sise=3)
    with pytest.raises(TypeError, match=r"^plain\(\) got an unexpected keyword argument 'qqq'$"):
        plain(1, qqq=3)


FACES = [
    face
    for module in ("ascend_sim", "ascend_sim.torch")
    for name in (import_module(module).__all__ if module == "ascend_sim" or find_spec("torch") else ())
    if inspect.isfunction(face := getattr(import_module(module), name)) and inspect.signature(face).parameters
]
"""Public functions with arguments."""


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_public_function_suggests_the_near_keyword(face: Any) -> None:
    parameters = inspect.signature(face).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return  # its further keywords belong to somebody else
    for one in parameters:
        if one.kind not in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY) and len(one.name) > 2:
            with pytest.raises(TypeError, match=f"unexpected keyword argument '{one.name}_'; did you mean '{one.name}'"):
                face(**{f"{one.name}_": 1})


def test_in_a_function_that_takes_a_case_the_default_is_the_case_s() -> None:
    size, shape = options_in(CaseSizeOptions)
    assert (size.type, size.option.default) == ("int | None", None)
    assert (shape.type, shape.option.default) == ("str", "round")
    assert names_of(CaseSizeOptions) == {"size", "shape"}


def test_a_text_is_one_of_its_choices() -> None:
    check_choices(SizeOptions, {"shape": "square", "size": 1})
    with pytest.raises(SimError, match=r"^shape 'flat': allowed are round and square$"):
        check_choices(SizeOptions, {"shape": "flat"})


@pytest.mark.parametrize("name", ["convolution_backward", "conv_tbc_backward", "convolution", "launch", "run_case"])
def test_editors_that_only_read_source_complete_every_option(name: str) -> None:
    """Jedi, which knows no `Unpack`; from the source alone, and from the function itself as notebooks do."""
    jedi = pytest.importorskip("jedi")
    wanted = {
        one.name for one in inspect.signature(getattr(ascend_sim, name)).parameters.values() if one.kind is one.KEYWORD_ONLY
    }
    assert len(wanted) > 10
    line = f"ascend_sim.{name}("
    read = jedi.Script(f"import ascend_sim\n{line}").complete(2, len(line))
    imported = jedi.Interpreter(line, [{"ascend_sim": ascend_sim}]).complete(1, len(line))
    for found in (read, imported):
        assert wanted <= {one.name.removesuffix("=") for one in found}


def test_descriptions_import_nothing_heavy() -> None:
    """A command's help and a shell's completion read them."""
    code = (
        "import sys, ascend_sim.options.run_options, ascend_sim.studies.tiles.options\n"
        "print(*{'numpy', 'pydantic', 'yaml', 'ascend_sim.chip'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
