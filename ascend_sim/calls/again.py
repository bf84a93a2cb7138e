"""A call that computes other values with the programs of its first run.

call = KeptCall(operator, given, attributes, options, room=1 << 29)
call.result                  # of the first run
call.outputs(other_arrays)   # equal shapes, dtypes and strides; nothing is planned or built
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

from ascend_sim.calls.result import Result
from ascend_sim.calls.run import CallJob, run_call_job
from ascend_sim.calls.tensors import TensorSpec, flat_storage, tensor_args
from ascend_sim.memory.local import POISON
from ascend_sim.ops.execute import fill
from ascend_sim.ops.operator import Operator
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import RunOptions
from ascend_sim.sequence import Array


class KeptCall:
    """A call of an operator in mode "functional", run once when it is made, that keeps its programs for other values.

    It keeps nothing (`nbytes` 0) if programs and tensors take more than `room` bytes; `result` is there all the same.
    """

    def __init__(
        self,
        operator: Operator[Any, Any],
        given: Mapping[str, Array | TensorSpec | None],
        attributes: Mapping[str, Any],
        options: RunOptions,
        room: int,
    ) -> None:
        how = filled(RunOptions, options)
        self._job = CallJob(operator, given, attributes, how)
        self._job.keep = max(room, 0)
        self._tensors, self._codes = tensor_args(operator, given, how["dtypes"]), how["dtypes"]
        self._lock = Lock()
        self.result: Result = run_call_job(self._job, how)
        memories = [one.memory for task in self.result.tasks for one in task.tensors if one.memory is not None]
        self._memories = list({id(one): one for one in memories}.values())
        self.nbytes = sum(one.nbytes for one in self._memories)
        """Bytes that the kept call takes; 0 if it keeps nothing."""
        self.nbytes += 0 if self._job.kept is None else self._job.kept.kept_bytes or 0
        if self._job.kept is None or self.nbytes > room:
            self._job.kept, self._memories, self.nbytes = None, [], 0

    def takes(self, given: Mapping[str, Array | None]) -> bool:
        """Return True if the programs are kept and `given` has the same shapes, dtypes and strides as the first run."""
        job = self._job
        return job.kept is not None and tensor_args(job.operator, given, self._codes) == self._tensors

    def outputs(self, given: Mapping[str, Array | None]) -> dict[str, Array]:
        """Return the outputs for other values by name, computed with the kept programs; `takes(given)` must hold. There is no
        report and no verdict. Threads take turns.
        """
        job = self._job
        assert job.kept is not None
        with self._lock:
            for memory in self._memories:
                memory[:] = POISON
            named = job.operator.by_our_names(given)
            fill(job.held, {name: flat_storage(named[name])[0] for name in job.accepted.inputs})
            job.kept.run_again()
            return job.outputs()
