"""docs/files.md against the models that it is made from."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ascend_sim.ops.case import load_case
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import load_network
from ascend_sim.ops.operators import OPERATORS
from tests.support.places import TOOLS

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("file_reference", TOOLS / "file_reference.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_models_say(tool: ModuleType) -> None:
    """After a change: python tools/file_reference.py, which adds the operators that the page does not have yet."""
    text = tool.PAGE.read_text(encoding="utf-8")
    assert text == tool.page(re.findall(r"^### `operator: (\w+)`$", text, re.MULTILINE))


def test_its_examples_are_files(tool: ModuleType, tmp_path: Path) -> None:
    case, network = re.findall(r"^```yaml\n(.*?)^```$", tool.HEAD, re.MULTILINE | re.DOTALL)
    (tmp_path / "case.yaml").write_text(case)
    (tmp_path / "network.yaml").write_text(network)
    loaded = load_case(tmp_path / "case.yaml")
    assert loaded.attributes["output_mask"] == (False, True, False) and loaded.attributes["padding"] == (1, 1)
    layers = load_network(tmp_path / "network.yaml").layers
    assert [layer.name for layer in layers] == ["stem", "body"] and layers[0].bias is None


def test_a_layer_says_nothing_in_words_of_its_own() -> None:
    """All but what makes it a layer is a field, of the same type, of the cases of its passes."""
    cases = [operator.case for operator in OPERATORS.values() if operator.layer_direction]
    for name, info in Layer.model_fields.items():
        if name in ("name", "kind"):
            continue
        same = [case.model_fields[name] for case in cases if name in case.model_fields]
        assert any(one.metadata == info.metadata for one in same), name
