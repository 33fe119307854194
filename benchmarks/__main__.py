"""`python -m benchmarks [PART …]`: all parts, or those named."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time

import uvloop

from benchmarks import report as reports
from wa_orchestrator.logs import configure_logs

PARTS = ("gateway", "bulk", "dispatcher", "claims", "idle", "workers", "fleet", "end_to_end", "recovery", "dashboard",
         "webhooks", "backups")  # fmt: skip


async def _run(part: str) -> reports.Report:
    report = reports.Report(part)
    report.load_before = os.getloadavg()[0]
    report.say(f"begins; load average of the machine: {report.load_before:.1f}")
    await importlib.import_module(f"benchmarks.{part}").measure(report)
    return report


def main(wanted: list[str]) -> int:
    if unknown := [name for name in wanted if name not in PARTS]:
        print(f"There is no part {unknown[0]}; the parts are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    configure_logs(level="error")
    done: list[reports.Report] = []
    for part in wanted or PARTS:
        began = time.monotonic()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            done.append(runner.run(_run(part)))
        done[-1].say(f"took {time.monotonic() - began:.0f} s\n")
    print(f"Written to {reports.write(done)}")
    reports.summary(done)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
