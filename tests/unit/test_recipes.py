"""What the recipe pages show can be pasted: the JSON is JSON, the Python is Python and uses what there is."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/howto/recipes.md", ROOT / "docs/howto/waha.md", ROOT / "clients/python/README.md"]


def blocks(language: str) -> list[str]:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    return [found for text in texts for found in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


@pytest.mark.parametrize("text", blocks("json"))
def test_workflows_are_json_and_hang_together(text: str) -> None:
    flow = json.loads(text)
    names = {node["name"] for node in flow["nodes"]}
    assert len(names) == len(flow["nodes"])
    for start, ends in flow["connections"].items():
        assert start in names
        assert {end["node"] for line in ends["main"] for end in line} <= names


@pytest.mark.parametrize("text", blocks("python"))
def test_programs_compile_and_import_what_there_is(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "wa_orchestrator_client":
            client = importlib.import_module(node.module)
            assert all(hasattr(client, name.name) for name in node.names)


def test_there_is_something_to_check() -> None:
    assert len(blocks("json")) >= 2
    assert len(blocks("python")) >= 4
