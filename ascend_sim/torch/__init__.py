"""A PyTorch model's convolutions on a simulated chip, while the model runs as it is.

from ascend_sim.torch import export_network, simulate

with simulate(chip="ascend910b3", mode="timing") as sim:
    loss = model(batch).sum()
    loss.backward()
print(sim), print(sim.report)               # the summary; a line for each layer
sim.to_dict(), sim.write_html("model.html"), sim.to_network("model.yaml")

Needs PyTorch, as nothing else in the package does. For CPUs alone:
`pip install torch --index-url https://download.pytorch.org/whl/cpu`.
"""

from __future__ import annotations

try:
    import torch as _torch  # absolute: PyTorch, not this room
except ImportError as error:
    raise ImportError(
        "ascend_sim.torch needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    ) from error

from ascend_sim.torch.export import export_network
from ascend_sim.torch.simulation import Simulation, simulate
from ascend_sim.torch.training import compare_training

__all__ = ["Simulation", "compare_training", "export_network", "simulate"]
