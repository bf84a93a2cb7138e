"""Case files: one call of an operator in YAML, with a chip and a way to make its tensors.

A case file names the arguments of the operator; what is left out has the operator's default, and a shape that follows
from the others may be left out. CASE is the name of a case that ships with the package or the path of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import ml_dtypes
import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError, model_validator
from pydantic_core import ErrorDetails

from ascend_sim.errors import ConfigError
from ascend_sim.numerics import encode
from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.case_data import Distribution, draw
from ascend_sim.ops.tensor_files import load_tensors

__all__ = [
    "Case",
    "ConvTbcBackwardCase",
    "ConvolutionBackwardCase",
    "DataEntry",
    "TensorEntry",
    "case_names",
    "load_case",
    "make_tensors",
    "read_yaml",
]

Shape = tuple[int, ...]
Dtype = Literal["float32", "float16", "bfloat16", "hifloat8", "float8_e4m3fn"]
CubeKernel = Literal["grad_input", "grad_weight"]
CountedFromZero = Annotated[int, Field(strict=True, ge=0)]
CountedFromOne = Annotated[int, Field(strict=True, ge=1)]

_REQUIREMENTS = {
    "int_type": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}
"""What pydantic's type errors ask for, in the words of YAML."""


def _for_every_cube_kernel(value: Any) -> Any:
    return dict.fromkeys(get_args(CubeKernel), value) if type(value) is int else value


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, where plain YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TensorEntry(_Entry):
    """What a case file says of one tensor: shape in elements, dtype; each may be left out where it follows."""

    shape: tuple[CountedFromZero, ...] | None = None
    dtype: Dtype | None = None


class DataEntry(_Entry):
    """Where the values come from: a distribution with seed and scale, or a `.npz` file."""

    distribution: Distribution = "normal"
    seed: CountedFromZero = 0
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    file: Path | None = None

    @model_validator(mode="after")
    def _one_source(self) -> DataEntry:
        if self.file is not None and len(self.model_fields_set) > 1:
            raise ValueError("'file' excludes distribution, seed and scale")
        return self


class Case(_Entry):
    """What the cases of both operators have in common; `load_case` makes one, validated.

    `tensors`: name -> (shape, dtype name) of every tensor argument, with what the file left out filled in.
    `attributes`: the other arguments of the operator by name, defaults filled in.
    """

    operator: str
    chip: str = "ascend910b3"
    cube_math_type: Annotated[int, Field(strict=True)] = 0
    deterministic: StrictBool | None = None
    conformance: Literal["documented", "library"] = "documented"
    l2: Literal["cold", "warm"] = "cold"
    tiling: dict[CubeKernel, dict[str, Annotated[int, Field(strict=True)]]] = {}
    block_dim: Annotated[dict[CubeKernel, CountedFromOne], BeforeValidator(_for_every_cube_kernel)] = {}
    data: DataEntry = DataEntry()

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        raise NotImplementedError

    @property
    def attributes(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def codes(self) -> dict[str, str]:
        """The format of every tensor that `make_tensors` gives as uint8 codes."""
        return {name: dtype for name, (_, dtype) in self.tensors.items() if dtype in EIGHT_BIT}

    def with_file(self, path: str | Path) -> Case:
        """The same case with its tensors from a `.npz` file."""
        return self.model_copy(update={"data": DataEntry(file=Path(path))})

    @model_validator(mode="after")
    def _shapes_fit(self) -> Case:
        _ = self.tensors
        return self


class ConvolutionBackwardCase(Case):
    """A call of convolution_backward; attributes that are left out are those of a plain convolution of its rank."""

    operator: Literal["convolution_backward"]
    grad_output: TensorEntry = TensorEntry()
    input: TensorEntry
    weight: TensorEntry
    bias_sizes: tuple[CountedFromZero, ...] | None = None
    stride: tuple[CountedFromOne, ...] | None = None
    padding: tuple[CountedFromZero, ...] | None = None
    dilation: tuple[CountedFromOne, ...] | None = None
    transposed: StrictBool = False
    output_padding: tuple[CountedFromZero, ...] | None = None
    groups: CountedFromOne = 1
    output_mask: Annotated[tuple[StrictBool, ...], Field(min_length=3, max_length=3)] = (True, True, True)

    @property
    def attributes(self) -> dict[str, Any]:
        dims = len(_needed("input.shape", self.input.shape)) - 2
        ones, zeros = (1,) * dims, (0,) * dims
        return {
            "bias_sizes": self.bias_sizes,
            "stride": ones if self.stride is None else self.stride,
            "padding": zeros if self.padding is None else self.padding,
            "dilation": ones if self.dilation is None else self.dilation,
            "transposed": self.transposed,
            "output_padding": zeros if self.output_padding is None else self.output_padding,
            "groups": self.groups,
            "output_mask": self.output_mask,
        }

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        dtype = _needed("input.dtype", self.input.dtype)
        input_shape = _needed("input.shape", self.input.shape)
        weight_shape = _needed("weight.shape", self.weight.shape)
        shape = self._grad_output_shape(input_shape, weight_shape)
        return {
            "grad_output": (shape, self.grad_output.dtype or dtype),
            "input": (input_shape, dtype),
            "weight": (weight_shape, self.weight.dtype or dtype),
        }

    def _grad_output_shape(self, input: Shape, weight: Shape) -> Shape:
        """The shape that follows from input, weight and attributes; ValueError where the case contradicts it."""
        dims = len(input) - 2
        if not 1 <= dims <= 3:
            raise ValueError(f"input.shape: {list(input)} has {len(input)} axes; allowed: [N, C] and 1 to 3 axes")
        if len(weight) != len(input):
            raise ValueError(
                f"weight.shape: {list(weight)} has {len(weight)} axes, input {list(input)} has {len(input)}"
            )
        attributes = self.attributes
        for name in ("stride", "padding", "dilation", "output_padding"):
            allowed = (2, 4) if (name, dims) == ("padding", 2) else (dims,)
            if len(attributes[name]) not in allowed:
                counts = " or ".join(map(str, allowed))
                raise ValueError(
                    f"{name}: {list(attributes[name])} given; allowed: {counts} values for a {dims}-D problem"
                )
        self._check_channels(input, weight)
        out_channels = weight[1] * self.groups if self.transposed else weight[0]
        padding = attributes["padding"]
        pads = [padding[:2], padding[2:]] if len(padding) > dims else [(pad, pad) for pad in padding]
        if not self.transposed and any(attributes["output_padding"]):
            raise ValueError(
                f"output_padding: {list(attributes['output_padding'])} given; allowed: 0 unless transposed"
            )
        shape = [input[0], out_channels]
        formulas = ["the batch of input", "the output channels of weight"]
        for axis in range(dims):
            size, formula = _output_size(
                "L" if dims == 1 else "DHW"[axis - dims],
                input[axis + 2],
                weight[axis + 2],
                attributes["stride"][axis],
                pads[axis],
                attributes["dilation"][axis],
                attributes["output_padding"][axis] if self.transposed else None,
            )
            shape.append(size)
            formulas.append(formula)
        return _agreed("grad_output", self.grad_output.shape, shape, formulas)

    def _check_channels(self, input: Shape, weight: Shape) -> None:
        needed = weight[0] if self.transposed else weight[1] * self.groups
        if input[1] != needed:
            formula = "weight.shape[0]" if self.transposed else "weight.shape[1] x groups"
            raise ValueError(f"input.shape: {input[1]} channels given; {formula} is {needed} (groups {self.groups})")
        if weight[0] % self.groups:
            raise ValueError(f"groups: {self.groups} given; it must divide weight.shape[0], which is {weight[0]}")


class ConvTbcBackwardCase(Case):
    """A call of conv_tbc_backward.

    Shapes: self [T_out, B, C_out], input [T_in, B, C_in], weight [K, C_in, C_out], bias [C_out].
    """

    operator: Literal["conv_tbc_backward"]
    self_: TensorEntry = Field(TensorEntry(), alias="self")
    input: TensorEntry
    weight: TensorEntry
    bias: TensorEntry = TensorEntry()
    pad: CountedFromZero = 0
    grad_weight_dtype: Dtype | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        return {"pad": self.pad, "grad_weight_dtype": self.grad_weight_dtype}

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        dtype = _needed("input.dtype", self.input.dtype)
        input_shape = _needed("input.shape", self.input.shape)
        weight_shape = _needed("weight.shape", self.weight.shape)
        for name, shape, axes in (("input", input_shape, "T_in, B, C_in"), ("weight", weight_shape, "K, C_in, C_out")):
            if len(shape) != 3:
                raise ValueError(f"{name}.shape: {list(shape)} given; allowed: three axes [{axes}]")
        kernel, c_in, c_out = weight_shape
        if input_shape[2] != c_in:
            raise ValueError(f"input.shape: {input_shape[2]} channels given; weight.shape[1] is {c_in}")
        size, formula = _output_size("T", input_shape[0], kernel, 1, (self.pad, self.pad), 1, None)
        shape = [size, input_shape[1], c_out]
        formulas = [formula, "the batch of input", "the output channels of weight"]
        return {
            "self": (_agreed("self", self.self_.shape, shape, formulas), self.self_.dtype or dtype),
            "input": (input_shape, dtype),
            "weight": (weight_shape, self.weight.dtype or dtype),
            "bias": (_agreed("bias", self.bias.shape, [c_out], formulas[2:]), self.bias.dtype or dtype),
        }


def case_names() -> list[str]:
    """Names of the cases that ship with the package, sorted."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _shipped().iterdir() if entry.name.endswith(".yaml"))


def load_case(name_or_path: str | Path) -> Case:
    """The case of that name, or else the case file at that path.

    Raises ConfigError (one line: file, field, what was given, what is allowed): no such case or file, broken YAML, an
    unknown key, a value that is not allowed, shapes that do not fit.
    """
    name = str(name_or_path)
    if not name.strip():
        raise ConfigError(f"CASE {name!r}: nothing given{_choices(name, case_names(), 'shipped cases')}")
    path = _shipped() / f"{name}.yaml" if name in case_names() else Path(name)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "no such file"
        raise ConfigError(f"{name}: {what}, and no case of that name{_choices(name, case_names(), 'shipped cases')}")
    entries = read_yaml(path, "a case file is a mapping of field names to values")
    kinds: dict[str, type[Case]] = {
        "convolution_backward": ConvolutionBackwardCase,
        "conv_tbc_backward": ConvTbcBackwardCase,
    }
    operator = entries.get("operator")
    kind = kinds.get(str(operator))
    if kind is None:
        given = "missing" if operator is None else f"{operator!r} is unknown"
        raise ConfigError(f"{path}: operator: {given}{_choices(str(operator), kinds)}")
    try:
        case = kind.model_validate(entries)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(kind, error.errors()[0])}") from error
    return case.with_file(path.parent / case.data.file) if case.data.file else case


def make_tensors(case: Case) -> dict[str, NDArray[Any]]:
    """The tensors of a case by name, in its shapes and dtypes (bfloat16 as ml_dtypes arrays, 8-bit formats as uint8 codes).

    Every tensor draws from a PCG64 stream of its own, seeded with the case's seed and the tensor's name, so that the
    shape of one changes no other. Raises TensorFileError when the case's file does not hold what the case needs.
    """
    if case.data.file is not None:
        return {name: array for name, (array, _) in load_tensors(case.data.file, case.tensors).items()}
    tensors = {}
    for name, (shape, dtype) in case.tensors.items():
        stream = np.random.SeedSequence([case.data.seed, *name.encode()])
        values = draw(case.data.distribution, name, shape, np.random.Generator(np.random.PCG64(stream)))
        values *= np.float32(case.data.scale)
        if dtype in EIGHT_BIT:
            tensors[name] = encode(values, dtype)
            continue
        with np.errstate(over="ignore"):  # a scale may well take float16 to infinity
            tensors[name] = values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype, copy=False)
    return tensors


def _output_size(
    axis: str, size: int, kernel: int, stride: int, pads: Shape, dilation: int, output_padding: int | None
) -> tuple[int, str]:
    """Size of the output along one axis and the formula that gives it; not transposed if `output_padding` is None."""
    low, high = pads
    reach = dilation * (kernel - 1) + 1
    reach_text = f"{dilation} x ({kernel} - 1) + 1"
    if output_padding is None:
        result = (size + low + high - reach) // stride + 1
        formula = f"floor(({size} + {low} + {high} - ({reach_text})) / {stride}) + 1"
    else:
        result = (size - 1) * stride - low - high + reach + output_padding
        formula = f"({size} - 1) x {stride} - {low} - {high} + {reach_text} + {output_padding}"
    if kernel < 1 or result < 1:
        raise ValueError(
            f"weight.shape: a kernel of {kernel} does not fit in {axis}: {formula} = {result}, must be >= 1"
        )
    return result, f"{axis} = {formula}"


def _agreed(name: str, given: Shape | None, shape: list[int], formulas: list[str]) -> Shape:
    """The shape that follows; ValueError when another one is given, with the formula of the first axis that differs."""
    if given is None or list(given) == shape:
        return tuple(shape)
    differs = [index for index, pair in enumerate(zip(given, shape, strict=False)) if pair[0] != pair[1]]
    why = f" ({formulas[differs[0]]} = {shape[differs[0]]})" if differs else ""
    raise ValueError(f"{name}.shape: {list(given)} given; the other arguments give {shape}{why}")


def _needed(field: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"{field}: missing")
    return value


def _shipped() -> Path:
    return Path(str(files("ascend_sim.configs"))) / "cases"


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file, no key twice; ConfigError in one line, with `what` the file should be."""
    try:
        entries = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{path}: {line}broken YAML: {error.problem or error.context}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML text: {' '.join(str(error).split())}") from error
    if not isinstance(entries, dict):
        raise ConfigError(f"{path}: {what}, this one is {type(entries).__name__}")
    return entries


def _explain(kind: type[Case], error: ErrorDetails) -> str:
    """One line for a pydantic error: field, what was given, what is allowed."""
    location = [part for part in error["loc"] if part != "[key]"]
    field = ".".join(map(str, location))
    given = error["input"]
    match error["type"]:
        case "extra_forbidden":
            owner: type[BaseModel] = kind
            if len(location) > 1:
                owner = DataEntry if location[0] == "data" else TensorEntry
            keys = [info.alias or key for key, info in owner.model_fields.items()]
            return f"{field}: unknown key{_choices(str(location[-1]), keys)}"
        case "missing":
            return f"{field}: missing"
        case "literal_error":
            choices = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
            return f"{field}: {given!r} given; allowed: {choices}"
        case "value_error":
            text = str(error["ctx"]["error"])
            return f"{field}: {text}" if field else text
        case "greater_than_equal" | "greater_than":
            bound = f">= {error['ctx']['ge']}" if "ge" in error["ctx"] else f"> {error['ctx']['gt']}"
            return f"{field}: {given!r} given; must be {bound}"
        case "too_short" | "too_long":
            limit = error["ctx"].get("min_length", error["ctx"].get("max_length"))
            return f"{field}: {list(given)} given; must have {limit} values"
        case other:
            return f"{field}: {given!r} given; {_REQUIREMENTS.get(other, error['msg'].lower())}"


def _choices(given: str, allowed: Mapping[str, Any] | list[str], title: str = "allowed") -> str:
    near = get_close_matches(given, list(allowed), n=1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f"; {title}: {', '.join(allowed)}"
