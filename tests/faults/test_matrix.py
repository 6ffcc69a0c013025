"""The table of faults is what its matrix says, and every row has its test."""

import ast
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def matrix():
    spec = importlib.util.spec_from_file_location("fault_matrix", Path(__file__).with_name("matrix.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_fault_has_its_test_and_says_why_not_elsewhere():
    for row in matrix().faults():
        file, _, name = row["test"].partition("::")
        body = ast.parse((ROOT / file).read_text()).body
        assert name in {node.name for node in body if isinstance(node, ast.FunctionDef)}, row["test"]
        assert all(row.values()), row


def test_the_page_is_the_matrix():
    assert matrix().DOCS.read_text() == matrix().table()
