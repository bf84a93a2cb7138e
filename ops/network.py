"""Network files: a list of layers under the names of case files, and entries common to all layers.

NETWORK:LAYER is the address of a layer as a case: the name of a network or the path of its file, and the layer's name or number
from 1. Behind it `:batch=8` scales the network to another batch, `:forward` means the layer's forward pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from os.path import exists, isfile
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from ascend_sim.errors import ConfigError, why_no_file
from ascend_sim.frozen import frozen
from ascend_sim.keywords import near_known
from ascend_sim.ops.arguments import is_whole_number
from ascend_sim.ops.case_entries import Case, CountedFromOne, FileEntry, choices, explain_error, spelled
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.shipped import read_config

MOST_IMAGES = (1 << 31) - 1
"""Limit of a batch; far beyond what the memory of a chip holds."""
_FORWARD = ":forward"
_LAYER = re.compile(r"(?P<name>.*?)(:batch=(?P<batch>\d{1,18}))?(?P<forward>:forward)?", re.DOTALL)
"""Part of an address behind NETWORK: layer, batch, pass."""
_NUMBER = re.compile(r"\d{1,18}")
_MOST_LISTED = 8
"""Most layer names that the message for an unknown layer lists."""


def _some_layers(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not layers:
        raise ValueError("[] given; a network has at least one layer")
    return layers


class NetworkFile(FileEntry):
    """Contents of a network file."""

    name: str | None = Field(default=None, description="Left out: the file's name.")
    source: str = Field(default="", description="Where the shapes are from.")
    batch: CountedFromOne | None = Field(
        default=None, description="The batch that the shapes hold; left out: the first layer's. `--batch` asks for another."
    )
    defaults: dict[str, Any] = Field(default={}, description="Fields of every layer that does not name them.")
    layers: Annotated[list[dict[str, Any]], AfterValidator(_some_layers)] = Field(description="In forward order.")


@frozen
class Network:
    """A named list of layers in forward order, with the batch that their shapes hold; `source` names their origin.

    `address` is the name or path of the network for commands, as it was given; `rescaled` is True after `at` has changed the
    batch.
    """

    name: str
    layers: tuple[Layer, ...]
    batch: int
    source: str = ""
    address: str = ""
    rescaled: bool = False

    def __repr__(self) -> str:
        return f"<Network {self.name}: {len(self.layers)} layers, batch {self.batch}>"

    def at(self, batch: int) -> Network:
        """Return the network with every layer's batch axis scaled by `batch` over the network's own batch; the network itself
        for its own batch.

        Raises ConfigError for a batch below 1 or above its limit, and if a scaled size is not whole.
        """
        if not (is_whole_number(batch) and 1 <= batch <= MOST_IMAGES):
            raise ConfigError(f"batch is {batch!r}; allowed is a whole number from 1 to {MOST_IMAGES}")
        batch = int(batch)  # numpy's too, which JSON does not take
        if batch == self.batch:
            return self
        return replace(self, layers=tuple(self._scaled(layer, batch) for layer in self.layers), batch=batch, rescaled=True)

    def _scaled(self, layer: Layer, batch: int) -> Layer:
        axis, shape = layer.batch_axis, list(layer.input.shape or ())
        size = shape[axis] * batch
        if size % self.batch:
            raise ConfigError(
                f"layer {layer.name}: batch: {batch} given; {shape[axis]} images at the network's batch {self.batch} do "
                f"not scale to a whole number at {batch}"
            )
        shape[axis] = size // self.batch
        return layer.model_copy(update={"input": layer.input.model_copy(update={"shape": tuple(shape)})})


def cases_of(layer: Layer) -> dict[str, Case]:
    """Return {pass: case} of a layer, for each operator of its kind: "forward" and "backward", for conv_tbc "backward" alone.

    "backward" is there also if the layer does not train. ValidationError if invalid.
    """
    operators = [one for one in OPERATORS.values() if one.layer_direction and one.layer_kind == layer.kind]
    return {str(operator.layer_direction): operator.of_layer(layer) for operator in operators}


def layer_text(tensors: Mapping[str, Sequence[int]], attributes: Mapping[str, Any]) -> str:
    """Return a short text with the shapes of input and weight and each attribute that is no default, by its first letter:
    "1x3x8x8 * 4x3x3x3 s2". Equal values of all axes are written once; " transposed" comes last.
    """
    text = " * ".join("x".join(map(str, tensors[name])) for name in ("input", "weight"))
    usual = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "pad": 0, "groups": 1}
    for name, plain in usual.items():
        given = attributes.get(name, plain)
        values = tuple(given) if isinstance(given, Sequence) else (given,)
        if any(value != plain for value in values):
            text += f" {name[0]}{values[0] if len(set(values)) == 1 else ','.join(map(str, values))}"
    return text + (" transposed" if attributes.get("transposed") else "")


def text_of(layer: Layer) -> str:
    """Return a layer's text: the shapes of input and weight, and the attributes beside defaults (`layer_text`)."""
    shapes = {name: getattr(layer, name).shape or () for name in ("input", "weight")}
    return layer_text(shapes, {name: value for name, value in layer.given.items() if value is not None})


def address_of(name: str) -> tuple[str, str] | None:
    """Return (NETWORK, LAYER) of an address; None for a text without a colon, and for the path of anything that exists.

    NETWORK is the shortest part before a colon that is a network or a file, else all before the first colon; LAYER is the rest,
    which may end in `:batch=8` and `:forward`. That either exists is not checked.
    """
    if ":" not in name or exists(name):
        return None
    ends = [place for place, character in enumerate(name) if character == ":"]
    known = network_names()
    end = next((end for end in ends if spelled(name[:end], known) in known or isfile(name[:end])), ends[0])
    return name[:end], name[end + 1 :]


def around_batch(network: str, layer: str) -> tuple[str, str]:
    """Return the two parts of a layer's address between which `:batch=8` stands: ("resnet50:conv1", ":forward" or ""). A batch
    in `layer` is dropped.
    """
    given = _LAYER.fullmatch(layer)
    assert given is not None  # every text is a name
    return f"{network}:{given['name']}", given["forward"] or ""


def case_of_layer(network: str, layer: str) -> Case:
    """Return the case that `run-network` runs for a layer, of the network, pass and batch that `place_of_layer` finds, with its
    errors.
    """
    loaded, place, direction = place_of_layer(network, layer)
    found = loaded.layers[place]
    case: Case = OPERATORS.of_pass(direction, found.kind).of_layer(found)
    return case


def place_of_layer(network: str, layer: str) -> tuple[Network, int, str]:
    """Return (network, index of a layer in it, pass "forward" or "backward"). The layer is given by its name or its number from
    1; its pass is backward, or with ":forward" behind `layer` forward. ":batch=8" before that scales the network that is
    returned.

    Raises ConfigError for an empty name, for an unknown network or layer (with similar names), for a batch that is not
    possible, and for the backward pass of a layer without gradients.
    """
    if not network.strip():
        listed = choices("", network_names(), "shipped networks")
        raise ConfigError(f"{network}:{layer}: no network given before the colon{listed}")
    loaded = load_network(network)
    given = _LAYER.fullmatch(layer)
    assert given is not None  # every text is a name
    name, batch, forward = given["name"], given["batch"], given["forward"]
    layers = {one.name: one for one in loaded.layers}
    found = layers.get(spelled(name, layers))
    if found is None and _NUMBER.fullmatch(name) and 1 <= int(name) <= len(loaded.layers):
        found = loaded.layers[int(name) - 1]
    if found is None:
        raise ConfigError(f"{network}:{layer}: {_no_layer(network, name, loaded)}")
    if not forward and not found.trains:
        raise ConfigError(
            f"{network}:{layer}: the layer asks for no gradient, so it has no backward pass; its forward pass is "
            f"{network}:{layer}{_FORWARD}"
        )
    place = loaded.layers.index(found)
    return loaded if batch is None else loaded.at(int(batch)), place, "forward" if forward else "backward"


def _no_layer(network: str, name: str, loaded: Network) -> str:
    names = [layer.name for layer in loaded.layers]
    near = near_known(name, names)
    hint = f"; did you mean {', '.join(f'{network}:{one}' for one in near)}?" if near else ""
    some = names[: _MOST_LISTED if len(names) > _MOST_LISTED else None]
    more = "" if len(some) == len(names) else ", ..."
    if name.partition(":")[0] in names and not hint:
        hint = f"; behind a layer stand :batch=N, with a whole number from 1, and then {_FORWARD}"
    given = f"no layer {name!r}" if name else "no layer given"
    return f"{given} in {loaded.name}{hint}; allowed are names and numbers from 1 to {len(names)}: {', '.join(some)}{more}"


def network_names() -> list[str]:
    """Return the names of the networks in the package, sorted."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _shipped().iterdir() if entry.name.endswith(".yaml"))


def load_network(name_or_path: str | Path) -> Network:
    """Return the network that ships under that name (in any case of letters), or that of the file at that path.

    Raises ConfigError, one line with file, layer and field, for anything else: among others no such file, a case, the address
    of a single layer, an unknown key, an invalid layer, two layers of one name.
    """
    name = str(name_or_path)
    own = spelled(name, network_names())
    path = _shipped() / f"{own}.yaml" if own in network_names() else Path(name)
    if not isfile(path):
        if (address := address_of(name)) and (spelled(address[0], network_names()) in network_names() or isfile(address[0])):
            raise ConfigError(f"{name}: that is a layer of a network, which is a case: run {name}")
        if isfile(_shipped().parent / "cases" / f"{name}.yaml"):
            raise _is_a_case(name)
        if not name.strip():
            raise ConfigError(f"NETWORK {name!r}: nothing given{choices(name, network_names(), 'shipped networks')}")
        raise ConfigError(
            f"{name}: {why_no_file(path)}, and no network of that name{choices(name, network_names(), 'shipped networks')}"
        )
    if own in network_names():
        entries = read_config(f"networks/{own}.yaml")
    else:
        from ascend_sim.yaml_file import read_yaml  # a user's file alone needs it

        entries = read_yaml(path, "a network file is a mapping with the key layers")
    if "operator" in entries and "layers" not in entries:
        raise _is_a_case(name)
    file = _validated(NetworkFile, entries, str(path))
    for key in file.defaults:
        if key not in Layer.model_fields or key == "name":
            allowed = ", ".join(field for field in Layer.model_fields if field != "name")
            raise ConfigError(f"{path}: defaults: unknown key {key!r}; allowed: {allowed}")
    layers = tuple(_layer(path, number, entry, file.defaults) for number, entry in enumerate(file.layers, 1))
    seen: set[str] = set()
    for layer in layers:
        if layer.name in seen:
            raise ConfigError(f"{path}: layer {layer.name!r} is given twice; every layer has a name of its own")
        seen.add(layer.name)
    shape = layers[0].input.shape or ()
    return Network(file.name or path.stem, layers, file.batch or shape[layers[0].batch_axis], file.source, name)


def _is_a_case(name: str) -> ConfigError:
    return ConfigError(f"{name}: that is a case, which has no layers: run {name}; sweep {name} --vary batch=8 sets its batch")


def _layer(path: Path, number: int, entry: Mapping[str, Any], defaults: Mapping[str, Any]) -> Layer:
    what = f"{path}: layer {entry['name'] if isinstance(entry.get('name'), str) else number}"
    layer = _validated(Layer, {**defaults, **entry}, what)
    for operator in OPERATORS.values():
        if operator.layer_direction and operator.layer_kind == layer.kind:
            _checked(operator.of_layer, layer, operator.case, what)
    return layer


def _validated(kind: type[Any], entries: Mapping[str, Any], what: str) -> Any:
    return _checked(kind.model_validate, entries, kind, what)


def _checked(make: Any, given: Any, kind: type[BaseModel], what: str) -> Any:
    try:
        return make(given)
    except ValidationError as error:
        raise ConfigError(f"{what}: {explain_error(kind, error)}") from error


def _shipped() -> Path:
    return Path(str(files("ascend_sim.configs"))) / "networks"
