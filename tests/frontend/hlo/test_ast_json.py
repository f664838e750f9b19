"""The syntax tree of HLO as data, of whole modules and of the fragments that one finds in articles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.frontend.hlo import parse_hlo, to_ast, to_dfg
from graphc.tools.convert import convert
from graphc.tools.operators import list_operators
from support.process import ROOT

FUSED = """%fused.19 (param_0.16672: f32[4,49,64], param_1: f32[196,64]) -> f32[64] {
  %param_1 = f32[196,64]{1,0} parameter(1)
  %reshape.13330 = f32[4,49,64]{2,1,0} reshape(f32[196,64]{1,0} %param_1), metadata={op_type="Reshape" op_name="a/b"}
  %param_0.16672 = f32[4,49,64]{2,1,0} parameter(0)
  %multiply = f32[4,49,64]{2,1,0} multiply(f32[4,49,64]{2,1,0} %reshape.13330, f32[4,49,64]{2,1,0} %param_0.16672)
  %slice = f32[4,9,64]{2,1,0} slice(f32[4,49,64]{2,1,0} %multiply), slice={[0:4], [3:12], [0:64]}
  %constant.11228 = f32[] constant(0)
  ROOT %reduce = f32[64]{0} reduce(f32[4,9,64]{2,1,0} %slice, f32[] %constant.11228), dimensions={0,1}, to_apply=%sum
}
"""
FUSION = (
    "%fusion.8228 = f32[4,32]{1,0} fusion(f32[192,8]{1,0} %dot.2067, f32[] %arg217.0), kind=kLoop, "
    'calls=%fused.clone, metadata={op_type="Mul" op_name="transformer/mul"}'
)


def test_a_computation_alone() -> None:
    tree = to_ast(parse_hlo(FUSED, fragment=True))
    assert json.loads(json.dumps(tree)) == tree
    (function,) = tree["Functions"]
    assert function["Name"] == "%fused.19"
    assert function["Params"][1] == {
        "Name": "param_1",
        "Type": {"DataType": "f32", "Dimensions": [196, 64]},
    }
    assert function["ReturnTypes"] == [{"DataType": "f32", "Dimensions": [64]}]
    parameter, reshape, _, _, sliced, constant, reduce = function["Body"]
    assert parameter["Fn"]["Params"] == [{"Name": "1"}] and "Meta" not in parameter
    assert reshape["Fn"] == {
        "ReturnTypes": [{"VarType": "f32", "VarDim": [4, 49, 64], "Layout": [2, 1, 0]}],
        "Name": "reshape",
        "Params": [
            {
                "Type": {"VarType": "f32", "VarDim": [196, 64], "Layout": [1, 0]},
                "Name": "%param_1",
            }
        ],
    }
    pairs = [{"Key": "op_type", "Value": '"Reshape"'}, {"Key": "op_name", "Value": '"a/b"'}]
    assert reshape["Meta"] == [{"Key": "metadata", "DictValue": pairs}]
    (ranges,) = sliced["Meta"]
    assert ranges["ListSlices"][1] == {"Start": 3, "End": 12, "Stride": 1}
    assert constant["Fn"]["Params"] == [{"Name": "0"}]
    assert reduce["Meta"] == [
        {"Key": "dimensions", "ListNums": [0, 1]},
        {"Key": "to_apply", "Value": "%sum"},
    ]


def test_an_instruction_alone() -> None:
    module = parse_hlo(FUSION, fragment=True)
    assert module.is_fragment
    ids = [node["id"] for node in to_dfg(module)["nodes"]]
    assert ids == ["entry/dot.2067", "entry/arg217.0", "entry/fusion.8228"]
    bare = parse_hlo("%y = f32[4] add(%a, b)", fragment=True)
    assert [len(to_dfg(bare)[key]) for key in ("nodes", "edges")] == [3, 2]
    assert to_ast(bare)["Functions"][0]["Body"][0]["Fn"]["ReturnTypes"] == []


@pytest.mark.parametrize("text", [FUSED, FUSION])
def test_fragments_are_shown_but_not_imported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "part.hlo"
    path.write_text(text)
    for view, key in (("dfg", "nodes"), ("ast", "Functions")):
        output = tmp_path / f"part.{view}.json"
        convert(path, view, output)
        assert json.loads(output.read_text())[key]
    found = list_operators(path)[-1]
    assert found.type in ("reduce", "fusion") and len(found.inputs) == 2
    assert found.outputs[0].consumers == ()
    with pytest.raises(UserError, match="must be defined before it is used"):
        load(path)


def test_other_formats_have_a_tree_too(tmp_path: Path) -> None:
    convert(ROOT / "examples" / "mlp.onnx", "ast", tmp_path / "mlp.ast.json")
    tree = json.loads((tmp_path / "mlp.ast.json").read_text())
    assert "dot" in {i["Fn"]["Name"] for i in tree["Functions"][-1]["Body"]}
