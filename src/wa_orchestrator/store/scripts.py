"""Loads the Lua scripts: one file per atomic move, with what it uses of the shared parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec
from redis.exceptions import NoScriptError, ResponseError

from wa_orchestrator.errors import OrchestratorError, by_code
from wa_orchestrator.store import keys
from wa_orchestrator.store.assembly import assembled
from wa_orchestrator.store.connection import Connection

_FOLDER = resources.files("wa_orchestrator.store") / "lua"


@dataclass(frozen=True)
class Script:
    name: str
    text: str
    sha: str


@cache
def load(name: str) -> Script:
    """The script `lua/<name>.lua`, ready to run."""
    own = (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
    first_line = own.partition("\n")[0]
    used = first_line.removeprefix("-- uses: ").split() if first_line.startswith("-- uses: ") else []
    parts = [(_FOLDER / f"{part}.lua").read_text(encoding="utf-8") for part in ("shared", *used)]
    text = assembled(own, "\n".join(parts), {key.name: key.pattern for key in keys.ALL})
    return Script(name=name, text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def script_names() -> list[str]:
    """All scripts, without the shared parts."""
    found = [entry.name.removesuffix(".lua") for entry in _FOLDER.iterdir() if entry.name.endswith(".lua")]
    return sorted(name for name in found if not name.startswith("shared"))


async def run(connection: Connection, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Runs a script with named arguments. A refusal (`{error=CODE}`) becomes the exception of that code."""
    script = load(name)
    packed = msgspec.json.encode(arguments)
    try:
        answer = await connection.call("EVALSHA", script.sha, 0, packed)
    except NoScriptError:
        # a new or emptied server: send the text along; it knows the script from then on
        answer = await connection.call("EVAL", script.text, 0, packed)
    except ResponseError as error:
        raise OrchestratorError(details={"script": name}) from error
    result: dict[str, Any] = msgspec.json.decode(answer)
    code = result.pop("error", None)
    if code is not None:
        message = result.pop("message", None)
        raise by_code().get(code, OrchestratorError)(message, details=result or None)
    return result
