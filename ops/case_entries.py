"""Entries of a case: the arguments of one call of an operator, validated, with a chip and a source of its tensors' values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from ascend_sim.errors import SimError
from ascend_sim.numerics import canonical
from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.case_data import Distribution
from ascend_sim.options.short_names import with_full_names

Shape = tuple[int, ...]
Dtype = Literal["float32", "float16", "bfloat16", "hifloat8", "float8_e4m3fn"]


def _canonical(value: Any) -> Any:
    """Return the canonical name of a number format for any of its names, such as fp16 and half; other values stay, to be
    refused.
    """
    try:
        return canonical(value) if isinstance(value, str) else value
    except SimError:
        return value


FormatName = Annotated[Dtype | None, BeforeValidator(_canonical)]
CountedFromZero = Annotated[int, Field(strict=True, ge=0)]
CountedFromOne = Annotated[int, Field(strict=True, ge=1)]


def _any_as_given(value: Any, validated: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    return value if type(value) is int and (info.context or {}).get("as_given") else validated(value)


AxisSize = Annotated[CountedFromZero, WrapValidator(_any_as_given)]
"""Elements along an axis; negative only in a case that is read as given, for a call to refuse."""
TilingFields = dict[str, Annotated[int, Field(strict=True)]]
_EACH = BeforeValidator(lambda value: (value,) if type(value) is int else value)
PerAxis = Annotated[tuple[CountedFromOne, ...], _EACH]
"""A number for each axis; a single one stands for all of them."""
PerAxisFromZero = Annotated[tuple[CountedFromZero, ...], _EACH]


def by_kernel(what: str, kernels: Any = None) -> BeforeValidator:
    """Return a validator of a mapping by cube kernel, which replaces the short kernel names of its keys by full ones.

    A bare integer becomes a mapping with that value for each of `kernels`, a Literal of their names (None: it stays, to be
    refused, as unknown kernels do). ValueError, which begins with `what`, if a kernel is named twice.
    """

    def named(value: Any) -> Any:
        if kernels is not None and type(value) is int:
            return dict.fromkeys(get_args(kernels), value)
        try:
            return with_full_names(what, value) if isinstance(value, Mapping) else value
        except SimError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(named)


class FileEntry(BaseModel):
    """Base of all entries of case and network files: unknown keys are refused, and entries are frozen once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class TensorEntry(FileEntry):
    """Shape and dtype of a tensor in a case file; a bare list is the shape."""

    shape: tuple[AxisSize, ...] | None = Field(
        default=None, description="Elements along each axis; may be left out where it follows from the other arguments."
    )
    dtype: FormatName = Field(default=None, description="Left out: the file's `dtype`, or else that of `input`.")

    @model_validator(mode="before")
    @classmethod
    def _shape_alone(cls, value: Any) -> Any:
        return {"shape": value} if isinstance(value, list | tuple) else value


class InputEntry(TensorEntry):
    """A tensor that may ask for a gradient, as in PyTorch."""

    requires_grad: StrictBool = Field(default=True, description="False: its gradient is not computed.")


def _bias(value: Any) -> Any:
    if isinstance(value, bool):
        return InputEntry() if value else None
    if value is None or isinstance(value, Mapping | list | tuple | InputEntry):
        return value
    raise ValueError(f"{value!r} given; must be true, false, a shape, or a mapping with shape and dtype")


BiasEntry = Annotated[InputEntry | None, BeforeValidator(_bias)]
"""Entry of a bias: true, false (None: no bias), or a shape or mapping; what is left out follows from the others."""


class DataEntry(FileEntry):
    """Source of a case's values: a distribution with seed and scale, or a `.npz` file."""

    distribution: Distribution = Field(default="normal", description="How values are drawn.")
    seed: CountedFromZero = Field(default=0, description="Every tensor draws from a stream of its own under this seed.")
    scale: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="What every value is multiplied with.")
    file: Path | None = Field(default=None, description="Tensors in place of drawn ones; beside the case file.")

    @model_validator(mode="after")
    def _one_source(self) -> DataEntry:
        if self.file is not None and len(self.model_fields_set) > 1:
            raise ValueError("'file' excludes distribution, seed and scale")
        return self


class Case(FileEntry):
    """Base of the cases of all operators; `load_case` makes one, validated.

    `tensors`: name -> (shape, dtype name) of every tensor argument, with values that the file left out filled in.
    `attributes`: the other arguments of the operator by name, defaults filled in. A subclass gives both, and `results`.
    """

    operator: str = Field(description="What is called.")
    chip: str = Field(default="ascend910b3", description="A chip's name, or the path of a chip file.")
    dtype: FormatName = Field(default=None, description="Of every tensor that names none.")
    cube_math_type: Annotated[int, Field(strict=True)] = Field(
        default=0, description="What the cube computes in: 0 keep, 1 allow down, 2 fp16, 3 hf32."
    )
    deterministic: StrictBool | None = Field(default=None, description="Left out: the default of chip and profile.")
    conformance: Literal["documented", "library"] = Field(default="documented", description="Whose rules accept the call.")
    l2: Literal["cold", "warm"] = Field(default="cold", description="warm: the input tensors are in the L2 before.")
    launches: Literal["cold", "warm"] = Field(
        default="cold", description="warm: the same call ran just before and left the code of its last kernels."
    )
    tiling: dict[str, TilingFields] = Field(default={}, description="The vendor's tiling fields, by cube kernel.")
    block_dim: dict[str, CountedFromOne] = Field(
        default={}, description="Blocks to launch, by cube kernel; a bare number means each."
    )
    data: DataEntry = Field(default=DataEntry(), description="Where the values come from.")
    _as_given: bool = PrivateAttr(default=False)

    @property
    def as_given(self) -> bool:
        """Return True if contradicting shapes stay as given, for a call to refuse."""
        return self._as_given

    def __repr__(self) -> str:
        given = ", ".join(f"{name} {list(shape)} {dtype}" for name, (shape, dtype) in self.tensors.items())
        return f"<Case of {self.operator} on {self.chip}: {given}>"

    def __str__(self) -> str:
        """Return the case as the text of a case file; entries with usual values are left out, but for operator and chip."""
        import yaml  # printing alone needs it

        entries = {"operator": self.operator, "chip": self.chip}
        entries |= self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return yaml.safe_dump(entries, default_flow_style=None, sort_keys=False, width=100).rstrip()

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        raise NotImplementedError

    @property
    def attributes(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def results(self) -> dict[str, tuple[Shape, str]]:
        """Return name -> (shape, dtype name) of every output that the call returns."""
        raise NotImplementedError

    @property
    def codes(self) -> dict[str, str]:
        """Return tensor -> format, for the tensors that `make_tensors` returns as uint8 codes."""
        return {name: dtype for name, (_, dtype) in self.tensors.items() if dtype in EIGHT_BIT}

    def in_dtype(self, dtype: str) -> Case:
        """Return a copy of the case in which every tensor entry has `dtype`, which is not validated; the case's own field
        `dtype` stays.
        """
        entries = {name: entry for name, entry in self if isinstance(entry, TensorEntry)}
        return self.model_copy(update={name: e.model_copy(update={"dtype": dtype}) for name, e in entries.items()})

    def with_file(self, path: str | Path) -> Case:
        """Return a copy of the case that takes its tensors from the `.npz` file at `path`; distribution, seed and scale are
        dropped. The file is not read here.
        """
        return self.model_copy(update={"data": DataEntry(file=Path(path))})

    @model_validator(mode="after")
    def _shapes_fit(self, info: ValidationInfo) -> Case:
        self._as_given = bool((info.context or {}).get("as_given"))
        _ = self.tensors
        return self


def contradiction(case: Any, text: str) -> None:
    """Raise ValueError with `text`; does nothing if the case keeps contradicting entries as given (`Case.as_given`)."""
    if not getattr(case, "as_given", False):
        raise ValueError(text)


def output_size(
    case: Any, axis: str, size: int, kernel: int, stride: int, pads: Shape, dilation: int, output_padding: int | None
) -> tuple[int, str]:
    """Return (size of a convolution's output along one axis, its formula as text "H = floor(...) + 1").

    `size` is the input's, `pads` is (low, high). The convolution is transposed unless `output_padding` is None. Raises
    ValueError where the output's size or `kernel` is below 1. In a case that keeps its entries as given an output's size below
    1 is returned as 1, and a stride below 1 gives (1, "").
    """
    if case.as_given and stride < 1:
        return 1, ""
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
        contradiction(case, f"weight.shape: a kernel of {kernel} does not fit in {axis}: {formula} = {result}, must be >= 1")
    return max(result, 1), f"{axis} = {formula}"


def agreed(case: Any, name: str, given: Shape | None, shape: list[int], formulas: list[str]) -> Shape:
    """Return `shape`, which follows from the other arguments for tensor `name`, after comparing it with the case's own entry
    `given` (None: no entry).

    Raises ValueError if they differ, with the formula of the first axis that does. A case that keeps its entries as given
    returns `given` then.
    """
    if given is None or list(given) == shape:
        return tuple(shape)
    differs = [index for index, pair in enumerate(zip(given, shape, strict=False)) if pair[0] != pair[1]]
    why = f" ({formulas[differs[0]]} = {shape[differs[0]]})" if differs else ""
    contradiction(case, f"{name}.shape: {list(given)} given; the other arguments give {shape}{why}")
    return tuple(given)


def needed(field: str, value: Any) -> Any:
    """Return `value`, which the case must give; ValueError that names `field` if it is None."""
    if value is None:
        allowed = f"; allowed: {', '.join(get_args(Dtype))}" if field.endswith(".dtype") else ""
        raise ValueError(f"{field}: missing{allowed}")
    return value


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
"""Demands of pydantic's type errors, in the words of YAML."""


def explain_error(kind: type[BaseModel], errors: ValidationError) -> str:
    """Return one error of a file of model `kind` as one line: field, what was given, what is allowed.

    It is the first unknown key, else the first error: a misspelled key is also missing by its right name.
    """
    error = min(errors.errors(), key=lambda one: one["type"] != "extra_forbidden")
    location = [part for part in error["loc"] if part != "[key]"]
    field = ".".join(map(str, location))
    given = error["input"]
    match error["type"]:
        case "extra_forbidden":
            keys = [info.alias or key for key, info in _owner(kind, location).model_fields.items()]
            return f"{field}: unknown key{choices(str(location[-1]), keys)}"
        case "missing":
            shape = (kind.model_fields[field].description or "") if field in kind.model_fields else ""
            return f"{field}: missing" + (f"; its shape is {shape.rstrip('.')}" if shape.startswith("[") else "")
        case "literal_error":
            allowed = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
            return f"{field}: {given!r} given; allowed: {allowed}"
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


def _owner(kind: type[BaseModel], location: list[int | str]) -> type[BaseModel]:
    """Return the pydantic model that has the key at `location` (keys from the file's top): `kind` for a top-level key,
    else the model of entry `location[0]`.
    """
    if len(location) == 1:
        return kind
    fields = {info.alias or key: info.annotation for key, info in kind.model_fields.items()}
    annotation = fields[str(location[0])]
    models = (annotation, *get_args(annotation))
    return next(one for one in models if isinstance(one, type) and issubclass(one, BaseModel))


def spelled(given: str, names: Iterable[str]) -> str:
    """Return the one of `names` that equals `given` when upper and lower case do not count, an exact match before others;
    `given` if none does.
    """
    return min((name for name in names if name.lower() == given.lower()), key=lambda name: name != given, default=given)


def choices(given: str, allowed: Mapping[str, Any] | list[str], title: str = "allowed") -> str:
    """Return the end of an error message, from its semicolon: "; did you mean ...?" if a name is like `given`, then `title` and
    all names.
    """
    near = get_close_matches(given, list(allowed), n=1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f"; {title}: {', '.join(allowed)}"
