"""Export of a model's convolutions to a network file, traced from shapes alone."""

from __future__ import annotations

from os.path import isdir
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from ascend_sim.errors import SimError
from ascend_sim.ops.network import Network
from ascend_sim.torch.names import kind_of
from ascend_sim.torch.network import network_of
from ascend_sim.torch.simulation import simulate


def export_network(model: torch.nn.Module, *inputs: Any, path: str | Path | None = None, **options: Any) -> Network:
    """Return the convolutions of `model(*inputs, **options)` as a Network; the model is traced with fake tensors, without
    values.

    With `path` also write a network file. Raises SimError for a model without convolutions, for one whose shapes are not known,
    for a path that cannot be written, and for errors of the model.
    """
    _check(model, path)
    name = kind_of(model)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:

        def shape_of(tensor: torch.Tensor) -> torch.Tensor:
            return tensor if type(tensor).__name__ == "FakeTensor" else fake.from_tensor(tensor)

        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        fakes = {name: shape_of(tensor) for name, tensor in state.items()}
        given, named = tree_map_only(torch.Tensor, shape_of, (inputs, options))
        with torch.enable_grad(), simulate(model, matmul=False) as seen:
            try:
                torch.func.functional_call(model, fakes, given, named)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                raise SimError(
                    f"{name}: its results depend on values ({error}), but only shapes are traced; "
                    f"run it under simulate(...) and write the network with .to_network(path)"
                ) from error
            except SimError:
                raise
            except Exception as error:
                first = str(error).strip().partition("\n")[0]
                raise SimError(f"{name} does not run on these inputs: {type(error).__name__}: {first}") from error
    return network_of(seen.rows, name, path)


def _check(model: Any, path: Any) -> None:
    """Raise SimError for a model that is not a plain nn.Module or has lazy parameters or buffers, and for a path that is no
    text or Path, that is a folder, or whose folder does not exist.
    """
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise SimError(f"model is {_shown(model)}; allowed is a torch.nn.Module that is not traced or scripted")
    lazy = [name for name, one in (*model.named_parameters(), *model.named_buffers()) if is_lazy(one)]
    if lazy:
        raise SimError(
            f"{kind_of(model)}: {', '.join(lazy)} {'has' if len(lazy) == 1 else 'have'} no shape yet (a lazy module); run the "
            f"model once on an input first"
        )
    if path is not None and not isinstance(path, str | Path):
        raise SimError(f"path is {path!r}; allowed is the path of a file, or None")
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise SimError(f"cannot write {path}: its folder does not exist")
    if path is not None and isdir(path):
        raise SimError(f"cannot write {path}: that is a folder")


def _shown(model: Any) -> str:
    if isinstance(model, type):
        return f"the class {model.__name__}"
    return f"a {type(model).__name__}" if isinstance(model, torch.nn.Module) else repr(model)
