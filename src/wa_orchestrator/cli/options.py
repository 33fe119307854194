"""What every command can be told: which server, which key, which data folder, text or JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from wa_orchestrator.env_file import read_env_file


@dataclass
class Options:
    """The options of the top command; they hold for whatever command follows."""

    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    data_dir: str | None = None
    as_json: bool = False

    def environ(self) -> Mapping[str, str]:
        """The environment, with the `.env` of the current folder behind it: the same sources as the server's."""
        return {**read_env_file(Path(".env")), **os.environ}

    def data_path(self) -> Path:
        return Path(self.data_dir or self.environ().get("DATA_DIR", "").strip() or "data")


def options_of(ctx: typer.Context) -> Options:
    options: Options = ctx.find_root().obj
    return options


def _remember(ctx: typer.Context, value: bool) -> bool:
    if value:
        options_of(ctx).as_json = True
    return value


JsonFlag = Annotated[bool, typer.Option("--json", callback=_remember, help="Print JSON instead of text.")]
