"""The options of a run reach every layer of a network."""

from __future__ import annotations

from ascend_sim import run_case
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network, cases_of
from ascend_sim.studies.network.run import run_network


def test_a_layer_runs_under_the_profile_that_was_asked_for() -> None:
    """The library narrows a grouped weight gradient before it is turned, where the documents have it turned first."""
    layer = {"name": "only", "input": {"shape": [1, 16, 6, 6], "dtype": "float16"}, "weight": [16, 4, 3, 3], "groups": 4}
    network = Network("grouped", (Layer.model_validate(layer),), 1)
    case = cases_of(network.layers[0])["backward"]
    launched = {}
    for conformance in ("documented", "library"):
        (times,) = run_network(network, conformance=conformance).layers
        call = run_case(case, chip="ascend910b3", mode="timing", conformance=conformance)
        launched[conformance] = [kernel["name"] for kernel in times.kernels]
        assert launched[conformance] == [kernel["name"] for kernel in call.report.kernels]
        assert times.times["total"] == call.report.total_us
    assert launched["documented"] != launched["library"]
