"""Write docs/files.md: every field of case and network files, from the models that check them.

python tools/file_reference.py            # writes the page
python tools/file_reference.py --check    # exit code 1 if the page is not what the models say
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ascend_sim.ops.case_entries import Case, DataEntry, InputEntry, TensorEntry
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import NetworkFile
from ascend_sim.ops.operators import OPERATORS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "files.md"
HEAD = """# Case and network files

For whoever writes a case or a network file: every entry of both. `tools/file_reference.py` writes this page from the models
that check the files.

A **case** is one call of an operator with a chip and values: `ascend-sim run`, `precision`, `explain`, `tile`. A **network** is
a list of layers for `ascend-sim run-network`; `export_network` and `to_network` write one from a PyTorch model
([torch.md](torch.md)). Both speak one language: a tensor is a shape with a dtype, or its bare shape; a single number stands for
every axis. A layer is a case too, by its address: `ascend-sim run resnet50:conv1` ([networks.md](networks.md#one-layer)).

```yaml
operator: convolution_backward                # a case
dtype: float16
input: {shape: [32, 64, 56, 56], requires_grad: false}
weight: [64, 64, 3, 3]
bias: false
padding: 1
```

```yaml
name: two_layers                              # a network
batch: 32
defaults: {dtype: float16, padding: 1}
layers:
  - {name: stem, input: {shape: [32, 3, 56, 56], requires_grad: false}, weight: [64, 3, 3, 3], bias: false}
  - {name: body, input: [32, 64, 56, 56], weight: [64, 64, 3, 3], stride: 2}
```

An unknown key, a value that is not allowed and shapes that do not fit each other end in one line that names file and field.
"""


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


def page(operators: Iterable[str] = OPERATORS) -> str:
    """Return the whole page, with the cases of these operators."""
    parts = [HEAD, "## Tensors and values\n", _section("A tensor", TensorEntry)]
    parts.append(_section("A tensor that may ask for a gradient", InputEntry, besides=TensorEntry))
    parts.append(_section("`data`: where values come from", DataEntry))
    parts += ["## Case files\n", _section("Every case", Case), *map(case_section, operators)]
    parts += ["## Network files\n", _section("The file", NetworkFile), _section("A layer", Layer)]
    return "\n".join(parts)


def case_section(operator: str) -> str:
    """Return the page's section on an operator's cases."""
    return _section(f"`operator: {operator}`", OPERATORS[operator].case, besides=Case)


def _section(title: str, model: type[BaseModel], besides: type[BaseModel] | None = None) -> str:
    """The fields of a model, without those that `besides` has in the same words."""
    summary = " ".join((model.__doc__ or "").split("\n\n")[0].split())
    lines = [f"### {title}\n", f"{summary}\n", "| field | what it takes | default | |", "|---|---|---|---|"]
    for name, info in model.model_fields.items():
        row = _row(name, info)
        if besides is None or name not in besides.model_fields or row != _row(name, besides.model_fields[name]):
            lines.append(row)
    return "\n".join(lines) + "\n"


def _row(name: str, info: FieldInfo) -> str:
    if not info.description:
        raise SystemExit(f"{name}: the model does not describe it")
    cells = (f"`{info.alias or name}`", _kind(info.annotation, info.metadata), _default(info), info.description)
    return f"| {' | '.join(cells)} |"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.default
    if value is None or value is PydanticUndefined:
        return "-"
    if isinstance(value, BaseModel):
        return "true" if isinstance(value, InputEntry) else "-" if not value.model_fields_set else repr(value)
    return "-" if value == {} else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _kind(annotation: Any, limits: Any = ()) -> str:
    """Return the kind of a field's values, in the words of YAML."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0], arguments[1:])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return _kind(next(one for one in arguments if one is not type(None)), limits)
    if origin is tuple:
        inner = _kind(arguments[0])
        single = any(type(one).__name__ == "BeforeValidator" for one in limits)
        words = inner.replace("a ", "").replace("number", "numbers")
        return f"list of {words}" + (", or one for every axis" if single else "")
    if origin is list:
        return "list of mappings"
    if origin is dict:
        return "mapping" if arguments[1] is Any else f"mapping to {_kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, InputEntry):
        switched = any(type(one).__name__ == "BeforeValidator" for one in limits)
        return "a tensor, `requires_grad`" + (", true or false" if switched else "")
    if isinstance(annotation, type) and issubclass(annotation, TensorEntry):
        return "a tensor"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return _plain(annotation, limits)


def _plain(kind: Any, limits: Any) -> str:
    bound = next((f" >= {one.ge}" for one in limits if isinstance(one, Ge)), "")
    bound = bound or next((f" > {one.gt}" for one in limits if isinstance(one, Gt)), "")
    nested = [limit for one in limits if isinstance(one, FieldInfo) for limit in one.metadata]
    bound = bound or next((f" >= {one.ge}" for one in nested if isinstance(one, Ge)), "")
    words = {int: f"a whole number{bound}", float: f"a number{bound}", bool: "`true`, `false`", str: "text", Path: "a path"}
    return words[kind]


if __name__ == "__main__":
    sys.exit(main())
