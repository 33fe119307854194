"""Checks of the machine itself: Python, settings, folders, limits."""

from __future__ import annotations

import json
import platform
import resource
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from wa_orchestrator.doctor.finding import Finding, bad, good, skipped
from wa_orchestrator.doctor.patient import Patient

_OLDEST_PYTHON = (3, 11)
_LEAST_FREE_BYTES = 500_000_000  # logs, the store's file and one backup of a small installation
_LEAST_FILE_HANDLES = 4096  # a thousand workers that wait and report, a client connection for some


def python(_: Patient) -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return bad("python", f"This is Python {version}.", "Install Python 3.11 or newer.")
    return good("python", f"Python {version}")


def settings(patient: Patient) -> Finding:
    # these two have their own lines
    sentences = [sentence for name, sentence in patient.wrong.items() if name not in {"TIMEZONE", "REDIS_URL"}]
    if sentences:
        return bad("settings", " ".join(sentences), "Correct it in the environment or in .env.")
    return good("settings", "All values can be read.")


def time_zone(patient: Patient) -> Finding:
    if "TIMEZONE" in patient.wrong:
        return bad("time zone", patient.wrong["TIMEZONE"], "Correct TIMEZONE in the environment or in .env.")
    return good("time zone", patient.settings.timezone)


def data_folder(patient: Patient) -> Finding:
    folder = patient.settings.data_path()
    fix = "Set DATA_DIR to a folder that the server's user may write to."
    if folder.exists() and not folder.is_dir():
        return bad("data folder", f"{folder} is a file, not a folder.", fix)
    nearest = _nearest_existing(folder)
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        return bad("data folder", f"Nothing can be written to {nearest}: {error.strerror}.", fix)
    return good("data folder", f"{folder} can be written to{'' if nearest == folder else ' (made at first start)'}.")


def free_space(patient: Patient) -> Finding:
    try:
        free_bytes = shutil.disk_usage(_nearest_existing(patient.settings.data_path())).free
    except OSError as error:
        return skipped("free space", f"Not known: {error.strerror}.")
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
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _LEAST_FILE_HANDLES:
        return bad(
            "file handles",
            f"This user may open only {soft} files at once.",
            "Run `ulimit -n 8192` before the server, or set LimitNOFILE=8192 in its service.",
        )
    return good("file handles", f"Up to {'unlimited' if soft == resource.RLIM_INFINITY else soft}.")


def _nearest_existing(folder: Path) -> Path:
    return next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
