"""Checks of the machine itself: Python, settings, folders, limits."""

from __future__ import annotations

import json
import platform
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from wa_orchestrator.doctor.finding import Finding, bad, good, skipped
from wa_orchestrator.doctor.patient import Patient
from wa_orchestrator.file_handles import ENOUGH, WHAT_TO_DO, most_allowed

_OLDEST_PYTHON = (3, 11)
_OWN_LINES = frozenset({"TIMEZONE", "REDIS_URL", "BACKUP_AT"})
_LEAST_FREE_BYTES = 500_000_000  # logs, the store's file and one backup of a small installation


def python(_: Patient) -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return bad("python", f"This is Python {version}.", "Install Python 3.11 or newer.")
    return good("python", f"Python {version}")


def settings(patient: Patient) -> Finding:
    sentences = [sentence for name, sentence in patient.wrong.items() if name not in _OWN_LINES]
    if sentences:
        return bad("settings", " ".join(sentences), "Correct it in the environment or in .env.")
    return good("settings", "All values can be read.")


def time_zone(patient: Patient) -> Finding:
    if "TIMEZONE" in patient.wrong:
        return bad("time zone", patient.wrong["TIMEZONE"], "Correct TIMEZONE in the environment or in .env.")
    return good("time zone", patient.settings.timezone)


def backup_time(patient: Patient) -> Finding:
    if "BACKUP_AT" in patient.wrong:
        return bad("backup time", patient.wrong["BACKUP_AT"], "Correct BACKUP_AT in the environment or in .env.")
    at, zone = patient.settings.backup_at, patient.settings.timezone
    return good("backup time", "Backups are made only when asked for." if at == "off" else f"Daily at {at}, {zone}.")


def data_folder(patient: Patient) -> Finding:
    folder = patient.settings.data_path()
    fault = _fault_of(folder)
    if fault:
        return bad("data folder", fault, "Set DATA_DIR to a folder that the server's user may write to.")
    later = "" if folder.is_dir() else " (made at first start)"
    return good("data folder", f"{folder} can be written to{later}.")


def other_folders(patient: Patient) -> Finding:
    """Sessions, run files and backups may lie elsewhere, on another disk."""
    settings = patient.settings
    places = {
        "SESSIONS_DIR": settings.sessions_path,
        "RUN_DIR": settings.run_path,
        "BACKUPS_DIR": settings.backups_path,
    }
    elsewhere = {name: path for name, path in places.items() if not path.is_relative_to(settings.data_path())}
    for name, path in elsewhere.items():
        if fault := _fault_of(path):
            return bad("folders", fault, f"Set {name} to a folder that the server's user may write to.")
    if not elsewhere:
        return good("folders", "All lie in the data folder.")
    return good("folders", f"{', '.join(map(str, elsewhere.values()))} can be written to.")


def _fault_of(folder: Path) -> str:
    """Why nothing can be written there; empty: it can."""
    in_the_way = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), None)
    if in_the_way:
        return f"{in_the_way} is a file, not a folder."
    nearest = _nearest_existing(folder)
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return ""
    except OSError as error:
        return f"Nothing can be written to {nearest}: {error.strerror}."


def free_space(patient: Patient) -> Finding:
    try:
        usage = shutil.disk_usage(_nearest_existing(patient.settings.data_path()))
    except OSError as error:
        return skipped("free space", f"Not known: {error.strerror}.")
    if not usage.total:
        return skipped("free space", "Not known: this is no disk.")
    free_bytes = usage.free
    text = f"{free_bytes / 1e9:.1f} GB are free for the data folder."
    if free_bytes < _LEAST_FREE_BYTES:
        return bad("free space", text, f"Free at least {_LEAST_FREE_BYTES / 1e9:.1f} GB, or move DATA_DIR.")
    return good("free space", text)


def secrets_file(patient: Patient) -> Finding:
    file = patient.settings.data_path("secrets.json")
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return skipped("secrets", "None are kept yet; the first start makes them.")
    except OSError as error:
        return bad("secrets", f"{file} cannot be read: {error.strerror}.", "Run this as the server's user.")
    except ValueError:
        kept = None
    if mode & 0o077:
        return bad("secrets", f"Other users may read {file} (mode {mode:04o}).", f"Run: chmod 600 {file}")
    if not isinstance(kept, dict) or not all(isinstance(kept.get(k), str) for k in ("apiKey", "webhookSecret")):
        return bad("secrets", f"{file} is damaged.", "Restore it from a backup: workers' secrets come from it.")
    return good("secrets", f"{file} is readable by its owner only.")


def file_handles(_: Patient) -> Finding:
    # the server raises its own limit as far as it may, so that is what counts
    allowed = most_allowed()
    if allowed is not None and allowed < ENOUGH:
        return bad("file handles", f"This user may open only {allowed} files at once.", WHAT_TO_DO)
    return good("file handles", f"Up to {'unlimited' if allowed is None else allowed}.")


def _nearest_existing(folder: Path) -> Path:
    return next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
