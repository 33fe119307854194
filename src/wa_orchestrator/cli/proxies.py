"""The commands around proxies: add, look, check, remove, import."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import Api, api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.files import text_of
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, place, plain, print_json, print_table
from wa_orchestrator.proxies.loading import parse_line

_CHECKS_AT_ONCE = 8
_CHECK_TIMEOUT_S = 150.0  # the server gives a proxy up to two minutes

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Add, look at, check, remove and import proxies.",
    epilog="Example: wa-orchestrator proxies add socks5h://user:pass@proxy.example:1080",
)
ProxyIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help="One proxy or several.")]


@app.command(epilog="Example: wa-orchestrator proxies add socks5h://user:pass@a.example:1080 b.example:1080:user:pass")
def add(
    ctx: typer.Context,
    urls: Annotated[
        list[str],
        typer.Argument(metavar="URL", help="socks5h://user:pass@host:port; also host:port:user:pass."),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Add proxies to the pool; one that is known already gets the new password."""
    # all are read before any is sent: a slip in the third should not leave two behind
    addresses = [parse_line(url) for url in urls]
    options, api = options_of(ctx), api_for(options_of(ctx))
    answers = [api.call("POST", "/api/v1/proxies", body={"proxy": one.url}) for one in addresses]
    if options.as_json:
        print_json([answer.data for answer in answers])
        return
    for answer in answers:
        word = "added" if answer.status == 201 else "known already"
        typer.echo(f"{answer.data['id']}  {place(answer.data)}  {word}, {answer.data['status']}")


@app.command("list")
def list_(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List all proxies with their state and load."""
    options = options_of(ctx)
    answer = api_for(options).get("/api/v1/proxies")
    if options.as_json:
        print_json(answer)
        return
    if not answer["proxies"]:
        typer.echo("No proxies yet: wa-orchestrator proxies add socks5h://user:pass@host:port")
        return
    columns = ("ID", "PLACE", "STATUS", "SLOTS", "PHONES", "LATENCY", "CHECKED", "LAST ERROR")
    print_table(columns, [_row(proxy) for proxy in answer["proxies"]])


@app.command(epilog="Exit status 1 when a proxy does not work. Example: wa-orchestrator proxies check --all")
def check(
    ctx: typer.Context,
    proxy_ids: ProxyIds = None,
    all_: Annotated[bool, typer.Option("--all", help="Check every proxy.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check proxies now: login and a connection to WhatsApp through each."""
    if bool(proxy_ids) == all_:
        raise CliError("USAGE", "Name the proxies to check, or give --all.", exit_code=2)
    options, api = options_of(ctx), api_for(options_of(ctx))
    wanted = proxy_ids or [proxy["id"] for proxy in api.get("/api/v1/proxies")["proxies"]]
    with ThreadPoolExecutor(_CHECKS_AT_ONCE) as pool:
        answers = list(pool.map(lambda one: _check(api, one), wanted))
    if options.as_json:
        print_json(answers)
    else:
        for answer in answers:
            _tell_check(answer)
    if not all("check" in answer and answer["check"]["ok"] for answer in answers):
        raise typer.Exit(1)


@app.command(epilog="Example: wa-orchestrator proxies remove px_0123456789ab --drain")
def remove(
    ctx: typer.Context,
    proxy_id: Annotated[str, typer.Argument(metavar="ID", help="The proxy, see `proxies list`.")],
    drain: Annotated[bool, typer.Option("--drain", help="Move its sessions to other proxies first.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove a proxy from the pool."""
    options = options_of(ctx)
    query = {"drain": "true" if drain else None}
    answer = api_for(options).call("DELETE", f"/api/v1/proxies/{segment(proxy_id)}", query=query).data
    if options.as_json:
        print_json(answer)
    elif answer["removed"]:
        typer.echo(f"{answer['id']} is removed.")
    else:
        typer.echo(f"{answer['id']} takes no more sessions and is removed when its {answer['moving']} have moved.")


@app.command("import", epilog="Example: wa-orchestrator proxies import proxies.txt")
def import_(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="One proxy per line, # for comments; - reads stdin.")],
    as_json: JsonFlag = False,
) -> None:
    """Import a list of proxies; vendors' forms host:port:user:pass and user:pass@host:port are understood."""
    options = options_of(ctx)
    answer = api_for(options).call("POST", "/api/v1/proxies/import", text=text_of(file)).data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['added']} added, {answer['known']} known already, {len(answer['errors'])} not understood.")
        for error in answer["errors"]:
            typer.echo(f"line {error['line']}: {plain(error['message'])}", err=True)
    if answer["errors"]:
        raise typer.Exit(1)


def _check(api: Api, proxy_id: str) -> dict[str, Any]:
    try:
        path = f"/api/v1/proxies/{segment(proxy_id)}/check"
        answer: dict[str, Any] = api.call("POST", path, timeout_s=_CHECK_TIMEOUT_S).data
    except CliError as error:
        return {"id": proxy_id, "error": error.as_object()}
    return answer


def _tell_check(answer: dict[str, Any]) -> None:
    if "error" in answer:
        typer.echo(f"✘ {plain(answer['id'])}  {answer['error']['message']}")
        return
    mark = "✔" if answer["check"]["ok"] else "✘"
    typer.echo(f"{mark} {answer['id']}  {place(answer)}  {plain(answer['check']['text'])}")


def _row(proxy: Any) -> tuple[str, ...]:
    error = proxy.get("lastError")
    return (
        proxy["id"],
        place(proxy),
        proxy["status"] + (", draining" if proxy.get("draining") else ""),
        f"{proxy['slotsUsed']}/{proxy['slotsTotal']}",
        str(proxy.get("boundPhones") or 0),
        f"{proxy['latencyMs']} ms" if proxy.get("latencyMs") is not None else "",
        ago(proxy.get("checkedAt")),
        error["text"] if error else "",
    )
