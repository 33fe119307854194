"""Faults of the surroundings, one file each: disk, memory, slowness, clock, network, Docker."""

from __future__ import annotations

from chaos.faults.clock_jumps import ClockJumps
from chaos.faults.fault import Fault
from chaos.faults.full_disk import FullDisk
from chaos.faults.out_of_memory import OutOfMemory
from chaos.faults.partition import Partition
from chaos.faults.slow_store import SlowStore

ALL: tuple[type[Fault], ...] = (OutOfMemory, SlowStore, FullDisk, ClockJumps, Partition)

__all__ = ["ALL", "ClockJumps", "Fault", "FullDisk", "OutOfMemory", "Partition", "SlowStore"]
