"""The first moment of a detached program, run as a script: write down who we are, then become that program.

    python -I -S launch.py <error fd> <pid file> <program> <argument>…

It writes the pid file itself, before the program starts: if the control plane is killed right after the fork, no
process is left that nobody knows. A shell could do the same, but each shell adds its own variables (PWD, SHLVL, _)
to an environment that has to be exact. Standard library only and no import of this package: it must start fast.
"""

from __future__ import annotations

import os
import signal
import sys


def _environment() -> dict[bytes, bytes]:
    # not os.environ: Python may have added LC_CTYPE to it while starting
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - importing pathlib would double the start time
        entries = file.read().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


def _write_pid_file(pid_file: str) -> None:
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        start_ticks = file.read().rpartition(")")[2].split()[19]
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        boot_id = file.read().strip()
    unfinished = f"{pid_file}.tmp"
    with open(unfinished, "w", encoding="ascii") as file:  # noqa: PTH123
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{os.getpid()} {start_ticks} {boot_id}\n")
    os.rename(unfinished, pid_file)  # noqa: PTH104


def _usual_signals() -> None:
    # Python ignores two for itself, `nohup` another one, and what is ignored stays so across exec
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def main(arguments: list[str]) -> None:
    error_fd, pid_file, program = int(arguments[0]), arguments[1], arguments[2]
    os.set_inheritable(error_fd, False)  # closed by a successful exec: that is how the starter hears of it
    try:
        _write_pid_file(pid_file)
        _usual_signals()
        os.execve(program, arguments[2:], _environment())  # noqa: S606
    except OSError as error:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the starter may be gone
        os.write(error_fd, str(error).encode(errors="replace")[:4000])
        os._exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
