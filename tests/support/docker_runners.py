"""How tests make Docker runners; the fixture is in tests/docker/conftest.py."""

from __future__ import annotations

from collections.abc import Callable

from wa_orchestrator.runners.docker import DockerRunner

# any rule of the containers, and docker_host, may be given by name
NewDockerRunner = Callable[..., DockerRunner]
