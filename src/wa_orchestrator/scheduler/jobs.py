"""What is done on a schedule. To add work: add its line here."""

from __future__ import annotations

from wa_orchestrator.backups.room import BackupRoom
from wa_orchestrator.scheduler.due import Daily, read_time
from wa_orchestrator.scheduler.loop import Job
from wa_orchestrator.settings import Settings


def scheduled_jobs(settings: Settings, backups: BackupRoom) -> list[Job]:
    jobs: list[Job] = []
    if at := read_time(settings.backup_at):
        jobs.append(Job("backup", Daily(at, settings.timezone), backups.make_daily))
    return jobs
