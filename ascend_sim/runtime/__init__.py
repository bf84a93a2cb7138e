"""The runtime: devices, tasks, and functions that run them."""

from ascend_sim.engine.device import Device, KernelMoves, Moved
from ascend_sim.engine.engine import OnProgram, Progress
from ascend_sim.engine.replay import Observer
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.isa.memory import ValueModel
from ascend_sim.memory.gm import Allocation
from ascend_sim.runtime.recording import Recording, without_recording
from ascend_sim.runtime.session import Outcome, run_tasks, run_values

__all__ = [
    "Allocation",
    "Device",
    "KernelMoves",
    "Moved",
    "Observer",
    "OnProgram",
    "Outcome",
    "Progress",
    "Recording",
    "Task",
    "Timeline",
    "ValueModel",
    "run_tasks",
    "run_values",
    "without_recording",
]
