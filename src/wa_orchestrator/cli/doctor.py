"""The command that looks the installation over and says what to fix."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import plain, print_json

_MARKS = {True: "✔", False: "✘", None: "–"}


def doctor(
    ctx: typer.Context,
    probe: Annotated[bool, typer.Option("--probe", help="Also connect through every configured proxy.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check store, Node, worker, proxies, folders and ports, and say what to fix.

    The exit status is 1 when something must be fixed.
    """
    from wa_orchestrator.doctor import examine  # noqa: PLC0415 - pulls in the store's client

    options = options_of(ctx)
    findings = examine(options.environ(), data_dir=options.data_dir, probe_proxies=probe)
    failed = [finding for finding in findings if finding.ok is False]
    if options.as_json:
        print_json({"ok": not failed, "findings": [asdict(finding) for finding in findings]})
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            words = f"{finding.text} {finding.fix}" if finding.ok is False else finding.text
            typer.echo(f"{_MARKS[finding.ok]} {finding.name:<{width}}  {plain(words).strip()}")
        typer.echo("All is well." if not failed else f"{len(failed)} to fix.")
    if failed:
        raise typer.Exit(1)
