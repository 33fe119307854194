"""Writes `env.example` from the settings; a test keeps the two equal."""

from __future__ import annotations

from pathlib import Path

from wa_orchestrator.env_file import env_example

if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "env.example").write_text(env_example(), encoding="utf-8")
