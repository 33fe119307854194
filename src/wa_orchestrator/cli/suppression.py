"""The commands around numbers that get no messages: list, add, remove, import, export, explain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import api_for, segment
from wa_orchestrator.cli.files import text_of
from wa_orchestrator.cli.moments import local
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, plain, print_fields, print_json, print_table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Numbers that get no messages, and what may be sent to whom.",
    epilog="Example: wa-orchestrator suppression add 972501234567 --reason complaint",
)
Phone = Annotated[str, typer.Argument(metavar="NUMBER", help="In international form: 972501234567.")]


@app.command("list")
def list_(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List the newest ones: number, why, since when, by whom."""
    options = options_of(ctx)
    answer = api_for(options).get("/api/v1/suppression", limit=limit)
    if options.as_json:
        print_json(answer)
        return
    rows = [(e["phone"], e["reason"] or "", e["source"], ago(e["at"]), e["by"] or "", e["note"] or "")
            for e in answer["suppressed"]]  # fmt: skip
    print_table(("NUMBER", "REASON", "SOURCE", "SINCE", "BY", "NOTE"), rows)
    typer.echo(f"{answer['total']} in all.")


@app.command()
def add(
    ctx: typer.Context,
    phone: Phone,
    reason: Annotated[str, typer.Option("--reason", help="opted_out, complaint, wrong_number …")] = "by_hand",
    note: Annotated[str, typer.Option("--note", help="For yourself.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Put a number on the list; what waits for it is cancelled."""
    options = options_of(ctx)
    answer = api_for(options).post("/api/v1/suppression", {"phone": phone, "reason": reason, "note": note})
    if options.as_json:
        print_json(answer)
    else:
        word = "is on the list now" if answer["added"] else "was on the list already"
        typer.echo(f"{plain(answer['phone'])} {word}; {answer['cancelled']} waiting messages cancelled.")


@app.command()
def remove(ctx: typer.Context, phone: Phone, as_json: JsonFlag = False) -> None:
    """Take a number off the list."""
    options = options_of(ctx)
    answer = api_for(options).call("DELETE", f"/api/v1/suppression/{segment(phone)}").data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{plain(answer['phone'])} may get messages again.")


@app.command("import", epilog="Example: wa-orchestrator suppression import opted-out.txt")
def import_(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A number per line, then a reason; - reads stdin.")],
    as_json: JsonFlag = False,
) -> None:
    """Put many numbers on the list; importing the same again changes nothing."""
    options = options_of(ctx)
    answer = api_for(options).call("POST", "/api/v1/suppression/import", text=text_of(file), timeout_s=300).data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(
            f"{answer['added']} added, {answer['known']} known already, {len(answer['errors'])} not understood; "
            f"{answer['cancelled']} waiting messages cancelled."
        )
        for error in answer["errors"]:
            typer.echo(f"line {error['line']}: {plain(error['message'])}", err=True)
    if answer["errors"]:
        raise typer.Exit(1)


@app.command(epilog="Example: wa-orchestrator suppression export > opted-out.txt")
def export(ctx: typer.Context) -> None:
    """Write the whole list, as `import` reads it."""
    for line in api_for(options_of(ctx)).text_lines("/api/v1/suppression/export"):
        typer.echo("\t".join(plain(field) for field in line.split("\t")))


@app.command(epilog="Example: wa-orchestrator suppression explain 972501234567")
def explain(ctx: typer.Context, phone: Phone, as_json: JsonFlag = False) -> None:
    """Say what may be sent to a number, and why not."""
    options = options_of(ctx)
    answer = api_for(options).get(f"/api/v1/recipients/{segment(phone)}")
    if options.as_json:
        print_json(answer)
        return
    print_fields([("number", answer["phone"]), ("may be sent to", "yes" if answer["maySend"] else "no")])
    for reason in answer["reasons"]:
        until = f" (until {local(reason['until'])})" if reason["until"] else ""
        typer.echo(f"  {reason['code']}: {reason['message']}{until}")
    print_fields(_known(answer))


def _known(answer: Any) -> list[tuple[str, str]]:
    contact, today = answer["lastContact"], answer["today"]
    return [
        ("waiting", str(answer["waiting"])),
        ("today", f"{today['released']} of {today['limit']}" if today["limit"] else ""),
        ("last contact", f"{contact['sessionId']}, {ago(contact['at'])}" if contact else ""),
        ("would be sent by", answer["nextSession"] or ""),
        *(("consent", f"{note['source']}, {local(note['at'])}") for note in answer["consent"]),
    ]
