"""A step of a training, and the nodes that a model leaves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import Simulation, simulate  # noqa: E402
from tests.support.torch.models import ConvTbc  # noqa: E402

CONVOLUTIONS = (torch.nn.modules.conv._ConvNd, ConvTbc)


def nodes(loss: Any) -> int:
    """Convolutions in a graph, by walking it: what autograd will run."""
    seen, ahead = set(), [loss.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            ahead += [following for following, _ in node.next_functions]
    return sum(node.name() in ("ConvolutionBackward0", "_ConvTbcBackward") for node in seen)


def step(model: Any, data: Any, **options: Any) -> tuple[Simulation, Counter[str], int]:
    """One forward and backward; what hooks on the convolutions counted, and the nodes in the graph."""
    ran: Counter[str] = Counter()
    handles = [
        module.register_forward_hook(lambda *_, name=name: ran.update([name]))
        for name, module in model.named_modules()
        if isinstance(module, CONVOLUTIONS)
    ]
    with simulate(**options) as sim:
        loss = model(data).sum()
        loss.backward()
    for handle in handles:
        handle.remove()
    return sim, ran, nodes(loss)
