"""The register: an operator that a test brings along goes through every face, so that none of them knows a name."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from ascend_sim import AclnnError, SimError, TensorSpec, cli, explain, precision
from ascend_sim.calls.cases import accept_case, phase_one_of_case, specs_of
from ascend_sim.calls.run import call_operator
from ascend_sim.calls.tensors import tensor_args
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import ConfigError
from ascend_sim.kernel.function import kernel_function
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import Case, Shape, TensorEntry, needed
from ascend_sim.ops.checks.common import CallFacts
from ascend_sim.ops.checks.rules import RuleList, fail
from ascend_sim.ops.kernels.vector.common import KernelWork, contiguous
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import load_network
from ascend_sim.ops.operator import Operator, Settings
from ascend_sim.ops.operators import OPERATORS, SHIPPED, Register
from ascend_sim.ops.plan import Plan
from ascend_sim.studies.network.run import run_network
from ascend_sim.studies.tiles.command import kernels_of
from tests.support.places import ROOT
from tests.support.sources import nodes, parsed, python_files

Array = NDArray[Any]

RULES = RuleList()


@dataclass(frozen=True)
class Arguments:
    wide: TensorArg
    most: int
    cube_math_type: int


@RULES.rule("most.size", "test: a limit that the caller names")
def most_size(c: Any) -> Any:
    size, most = c.call.wide.size, c.call.most
    return None if size <= most else fail(f"wide has {size} elements: allowed are {most}")


class ScaleFacts(CallFacts):
    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self.warnings.append("it narrows")


class NarrowCase(Case):
    operator: Literal["narrow"]
    wide: TensorEntry
    most: int = 1000

    @property
    def attributes(self) -> dict[str, Any]:
        return {"most": self.most}

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        return {"wide": (needed("wide.shape", self.wide.shape), self.wide.dtype or "float32")}

    @property
    def results(self) -> dict[str, tuple[Shape, str]]:
        return {"narrowed": (self.tensors["wide"][0], "float16")}


TILE = 4096


@kernel_function(core=("AI_CORE", "AIV"))
def narrow_kernel(k: Kernel, wide: Tensor, narrowed: Tensor, pieces: Sequence[slice]) -> None:
    """A kernel of the operator's own, as users write them."""
    incoming = k.ub_queue("in", TILE, wide.dtype, "MTE2", "V")
    outgoing = k.ub_queue("out", TILE, narrowed.dtype, "V", "MTE3")
    for part in k.each(pieces):
        count = part.stop - part.start
        with incoming.write() as place:
            k.gm_to_ub(place[:count], wide[part])
        with incoming.read() as values, outgoing.write() as result:
            k.cast(result[:count], values[:count])
        with outgoing.read() as result:
            k.ub_to_gm(narrowed[part], result[:count])


class Narrow(Operator[Arguments, AcceptedCall]):
    """A Cast to float16: no convolution, no cube, and names of its own."""

    name = "narrow"
    tensors = ("wide",)
    attributes = ("most",)
    outputs = ("narrowed",)
    names: ClassVar[Mapping[str, str]] = {"wide": "source"}
    case: ClassVar[type[Case]] = NarrowCase
    cube_kernels = ()
    rules = RULES
    facts = ScaleFacts
    layer_direction: ClassVar[Any] = "sideways"
    layer_parts: ClassVar[Mapping[str, tuple[str, str]]] = {"narrowed": ("Cast_narrowed", "n us")}

    def arguments(
        self, tensors: Mapping[str, TensorArg | None], attributes: Mapping[str, Any], *, cube_math_type: int, conformance: str
    ) -> Arguments:
        wide = tensors["wide"]
        assert wide is not None
        return Arguments(wide, attributes["most"], cube_math_type)

    def accepted(self, arguments: Arguments, chip: ChipSpec, warnings: tuple[str, ...], settings: Settings) -> AcceptedCall:
        narrow = TensorArg(arguments.wide.shape, "float16")
        return AcceptedCall(
            operator=self.name,
            inputs={"source": arguments.wide},
            outputs={"narrowed": narrow},
            warnings=warnings,
            compute_dtype=settings.compute_dtype("float32", arguments.cube_math_type),
            **settings.fields,
        )

    def kernels(self, call: AcceptedCall, chip: ChipSpec) -> Plan:
        plan, count = Plan(), call.inputs["source"].size
        plan.tensor("source", "float32", "ND", 4 * count, "input")
        plan.tensor("narrowed", "float16", "ND", 2 * count, "output")
        pieces = [slice(start, min(start + TILE, count)) for start in range(0, count, TILE)]
        blocks = min(len(pieces), chip.cores.vector_units)
        sides = contiguous(([count], "float32"), ([count], "float16"))
        work = KernelWork(narrow_kernel, sides, blocks, lambda block: pieces[block::blocks])
        disarm = call.disarm.get("Cast_narrowed", ())
        plan.add("Cast", "Cast_narrowed", ["source"], ["narrowed"], work, disarm=disarm)
        plan.place()
        return plan

    def shown(self, arguments: Arguments) -> dict[str, Any]:
        return {"most": arguments.most}

    def macs(self, call: AcceptedCall) -> dict[str, int]:
        return {}

    def sums(
        self,
        call: AcceptedCall,
        output: str,
        operands: Mapping[str, Array],
        inputs: Mapping[str, Array],
        *,
        absolute: bool = False,
    ) -> tuple[Array, ...]:
        values = inputs["source"].astype(np.float64)
        return (values, values**2, *([abs(values)] if absolute else []))

    def products(self, call: AcceptedCall) -> dict[str, int]:
        return {"narrowed": 1}

    def roundings(self, call: AcceptedCall, output: str) -> list[str]:
        return ["float16"]

    def summed(self, output: str) -> str | None:
        return "wide"

    def of_layer(self, layer: Layer) -> Case:
        return NarrowCase(operator="narrow", wide=TensorEntry(shape=layer.weight.shape, dtype="float32"), most=10**9)


@pytest.fixture(autouse=True, name="narrow")
def registered() -> Iterator[Narrow]:
    operator = Narrow()
    OPERATORS.add(operator)
    yield operator
    OPERATORS.remove("narrow")


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text("operator: narrow\nwide: {shape: [3, 70], dtype: float32}\n")
    return path


def command(*arguments: object) -> str:
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_call_from_python(narrow: Narrow) -> None:
    values = np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)
    for mode in ("full", "functional"):
        result = call_operator(narrow, {"wide": values}, {"most": 500}, {"mode": mode})
        np.testing.assert_array_equal(result.outputs["narrowed"], values.astype(np.float16))
        assert result.report.passed and result.dtypes == {"narrowed": "float16"}
        assert result.grad_input is result.grad_weight is result.grad_bias is None
    problem = result.report.to_dict(statements=False)["problem"]
    assert problem["tensors"] == {"wide": {"shape": [5, 100], "dtype": "float32"}} and problem["most"] == 500
    assert result.report.to_dict(statements=False)["warnings"] == ["it narrows"]
    timed = call_operator(narrow, {"wide": TensorSpec((5, 100), "float32")}, {"most": 500}, {"mode": "timing"})
    assert timed.outputs == {} and (timed.report.total_us or 0) > 0


def test_a_wrong_result_is_found(narrow: Narrow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Narrow, "sums", lambda *_, **__: (np.ones((5, 10)), np.ones((5, 10))))
    assert not call_operator(narrow, {"wide": np.zeros((5, 10), np.float32)}, {"most": 99}, {}).report.passed


def test_refusals(narrow: Narrow) -> None:
    with pytest.raises(AclnnError, match="wide has 50 elements: allowed are 10"):
        call_operator(narrow, {"wide": TensorSpec((50,), "float32")}, {"most": 10}, {"mode": "timing"})
    with pytest.raises(SimError, match="needs values, but source is a TensorSpec"):
        call_operator(narrow, {"wide": TensorSpec((50,), "float32")}, {"most": 99}, {})
    with pytest.raises(SimError, match="disarm: no flag 'x' in Cast_narrowed"):
        call_operator(narrow, {"wide": np.zeros(9, np.float32)}, {"most": 9}, {"disarm": {"Cast_narrowed": ["x"]}})


def test_an_operator_of_the_cube_needs_a_file(narrow: Narrow, monkeypatch: pytest.MonkeyPatch) -> None:
    chip = load_chip("ascend910b3")
    assert narrow.product(chip).compute_dtype("bfloat16", 3).compute_dtype == "bfloat16"
    monkeypatch.setattr(Narrow, "cube_kernels", ("narrowed",))
    with pytest.raises(ConfigError, match=r"no operator 'narrow': there is no configs/operators/narrow\.yaml"):
        narrow.product(chip)


def test_cases(case: Path) -> None:
    loaded = load_case(case)
    chip = load_chip("ascend910b3")
    assert accept_case(loaded, chip).outputs["narrowed"].shape == (3, 70)
    result, rules = phase_one_of_case(loaded, chip, cube_math_type=0, conformance="documented")
    assert result.status == 0 and [rule.id for rule in rules] == ["most.size", "plan"]
    assert "narrow" in command("explain-status", case) or "most.size" in command("explain-status", case)


def test_the_command_line(case: Path, tmp_path: Path) -> None:
    report = json.loads(command("run", case, "--json", "--out", tmp_path / "out"))
    assert list(report["outputs"]) == ["narrowed"] and report["problem"]["operator"] == "narrow"
    assert (tmp_path / "out" / "outputs.npz").is_file()
    text = command("run", case, "--full")
    assert "narrow on ascend910b3" in text and "Outputs against float64" in text


def test_precision_takes_it(case: Path) -> None:
    table = precision(case, dtypes=["float32"])
    row = table.rows[0]
    assert table.passed and set(row.outputs) == {"narrowed"} and row.outputs["narrowed"]["operand_bits"] == np.inf


def test_a_network_takes_it() -> None:
    network = load_network("resnet50")
    run = run_network(type(network)(network.name, network.layers[:2], network.batch), batch=1, direction="sideways")
    assert run.parts == ("narrowed", "layout")
    assert all(layer.times["narrowed"] > 0 and layer.times["layout"] == 0 for layer in run.layers)
    assert OPERATORS.of_pass("backward").name == "convolution_backward"
    with pytest.raises(SimError, match="no operator for the upward pass of a layer of conv; there is"):
        run_network(network, direction="upward")


def test_what_it_does_not_offer_is_refused_by_its_name(case: Path) -> None:
    with pytest.raises(SimError, match="explain: narrow has no element to follow"):
        explain(case)
    with pytest.raises(SimError, match=r"tile searches the tilings of .*; narrow has neither"):
        kernels_of(load_case(case), ["ascend910b3"], "grad_input")


def test_the_register_itself(narrow: Narrow) -> None:
    folders = {path.parent.name for path in (ROOT / "ops" / "operators").glob("*/operator.py")}
    assert set(SHIPPED) == folders
    assert all(OPERATORS[name].name == name for name in OPERATORS)
    with pytest.raises(SimError, match="there is an operator 'narrow' already"):
        OPERATORS.add(Narrow())
    with pytest.raises(SimError, match="no operator 'wide'; there are"):
        OPERATORS["wide"]
    with pytest.raises(SimError, match="no operator 'convolution_backward' was added"):
        OPERATORS.remove("convolution_backward")
    own = Register()
    own.add(narrow)
    assert list(own) == ["narrow"] and own["narrow"] is narrow and "narrow" in own and len(own) == 1


FACES = ("ascend_sim/__init__.py", "ascend_sim/api.py", "ascend_sim/acl/operators.py", "ascend_sim/acl/c", "ascend_sim/torch")
"""Where operators have names: public functions, the C interface, PyTorch's calls."""

OWN_ROOMS = ("ops/operators/", *FACES)


def trees() -> dict[str, ast.Module]:
    """Return the sources outside the operators' own rooms, by their path."""
    files = [*python_files("ascend_sim"), *python_files("ops")]
    places = {path.relative_to(ROOT).as_posix(): path for path in files}
    return {place: parsed(path) for place, path in places.items() if not place.startswith(OWN_ROOMS)}


def words(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a file defines: its functions, classes, parameters and attributes."""
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr


def is_operator(node: ast.expr) -> bool:
    """Return whether an expression is an operator, its name, or the register."""
    return bool(re.search(r"\boperator(\.name)?$|\bOPERATORS$", ast.unparse(node)))


def meant(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what a file takes for the name of an operator: keys of the register, and what is compared with an operator."""
    for node in nodes(tree):
        if isinstance(node, ast.Subscript) and is_operator(node.value):
            yield node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_operator(node.func.value):
            yield from node.args
        elif isinstance(node, ast.Compare) and any(map(is_operator, (node.left, *node.comparators))):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.Match) and is_operator(node.subject):
            yield from (one.value for case in node.cases for one in ast.walk(case) if isinstance(one, ast.MatchValue))
        elif isinstance(node, ast.keyword) and node.arg == "operator":
            yield node.value
        elif isinstance(node, ast.Dict):
            yield from (v for k, v in zip(node.keys, node.values, strict=True) if k and ast.unparse(k) == "'operator'")


def texts(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts of an expression."""
    yield from (one for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def known(tree: ast.Module, names: Sequence[str], own: set[str]) -> Iterator[str]:
    """Yield the places of a file that know one of these operators, with what they say.

    A name of several words is looked for in every text that is no docstring, unless it is one of `own`: the house has a
    function or a parameter of that name. A single word is many things (`add`): it counts where an operator is meant.
    """
    spoken = "|".join(name.replace("_", "[ _]") for name in names if "_" in name and name not in own)
    docstrings = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    for text in texts(tree):
        if spoken and id(text) not in docstrings and re.search(rf"\b(?:{spoken})\b", str(text.value)):
            yield f"{text.lineno} {text.value}"
    for text in (text for node in meant(tree) for text in texts(node)):
        if text.value in names:
            yield f"{text.lineno} {text.value}"
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ascend_sim.ops.operators."):
            yield f"{node.lineno} {node.module}"


def test_a_refusal_of_one_profile_alone_names_the_other() -> None:
    """A null gradWeight whose mask is off is 161001 in the documents alone; groups 0 is refused in both."""
    operator, chip = OPERATORS["convolution_backward"], load_chip("ascend910b3")
    case = load_case("document_example_2d")
    arguments = operator.arguments(
        tensor_args(operator, {name: specs_of(case).get(name) for name in operator.tensors}),
        case.attributes | {"output_mask": (True, False, False)},
        cube_math_type=0,
        conformance="library",
    )
    operator.accept(arguments, chip, conformance="library")
    with pytest.raises(AclnnError, match=r"the released library accepts this call \(conformance library\)$"):
        operator.accept(arguments, chip)
    with pytest.raises(AclnnError) as refusal:
        operator.accept(replace(arguments, groups=0), chip)
    assert "accept" not in refusal.value.message


def test_nobody_else_knows_a_name() -> None:
    """No source outside the operators' own rooms knows an operator by its name."""
    files = trees()
    own = {word for tree in files.values() for word in words(tree)}
    assert [f"{place}:{said}" for place, tree in files.items() for said in known(tree, SHIPPED, own)] == []


@pytest.mark.parametrize(
    ("line", "knows"),
    [
        ('x = OPERATORS["add"]', True),
        ('x = OPERATORS.get("add")', True),
        ('x = call.operator == "add"', True),
        ('x = operator.name in ("add", "sub")', True),
        ('x = {"operator": "add"}', True),
        ('x = f(operator="add")', True),
        ('match operator.name:\n    case "add":\n        pass', True),
        ('x = f"a relu backward of {x}"', True),
        ('x = "relu_backward"', True),
        ("from ascend_sim.ops.operators.add import rules", True),
        ('x = k.vector("add")', False),
        ('x = {"add": 1}', False),
        ('x = "what the kernels add"', False),
        ('x = "trans_data"', False),
        ('"""As relu_backward does."""', False),
    ],
)
def test_who_knows_a_name(line: str, knows: bool) -> None:
    assert any(known(ast.parse(line), ("add", "relu_backward", "trans_data"), {"trans_data"})) == knows
