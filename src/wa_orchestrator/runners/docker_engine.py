"""The Docker engine as the runner uses it: a client made when needed, and its troubles told in plain words."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import aiohttp
from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError

from wa_orchestrator.errors import RunnerUnavailable
from wa_orchestrator.runners.docker_container import ContainerRules, Found, filters_for, found, name_of

_ANSWER_S = 60.0
_NO_CONNECTION = 900  # aiodocker's own number for an engine that cannot be reached
TROUBLE = (DockerError, RunnerUnavailable, aiohttp.ClientError, OSError, TimeoutError)


class DockerEngine:
    def __init__(self, docker_host: str, rules: ContainerRules) -> None:
        self._host = docker_host
        self._rules = rules
        self._client: Docker | None = None
        self._closed = False

    @property
    def in_use(self) -> bool:
        return self._client is not None

    @property
    def docker(self) -> Docker:
        if self._closed and self._client is None:
            raise RunnerUnavailable("The server is stopping.")
        if self._client is None:  # made in the loop that uses it
            limits = aiohttp.ClientTimeout(total=_ANSWER_S, sock_connect=5.0)
            self._client = Docker(url=self._host, timeout=limits)
        return self._client

    async def close(self) -> None:
        self._closed = True
        if self._client:
            await self._client.close()
            self._client = None

    # containers ------------------------------------------------------------------------------------------------
    def container(self, container_id: str) -> DockerContainer:
        return self.docker.containers.container(container_id)

    async def ours(self) -> list[DockerContainer]:
        """Those of this installation that run."""
        filters = json.dumps(filters_for(self._rules.installation))
        return list(await self.docker.containers.list(filters=filters))

    async def look(self, session_id: str, *, foreign_is_an_error: bool = True) -> Found | None:
        """The session's container; one of another installation is never touched."""
        there = await self.show(name_of(session_id))
        if there is None or there.installation == self._rules.installation:
            return there
        if foreign_is_an_error:
            raise RunnerUnavailable(
                f"The container {name_of(session_id)} belongs to another installation on this Docker engine. "
                "Remove it there, or give the session another id."
            )
        return None

    async def show(self, name: str) -> Found | None:
        try:
            return found(await self.container(name).show())
        except DockerError as error:
            if error.status == 404:
                return None
            raise

    async def signal(self, container_id: str, signal: str) -> None:
        with ignored(404, 409):  # gone, or ended by itself
            await self.container(container_id).kill(signal=signal)

    async def remove(self, container_id: str) -> None:
        with ignored(404, 409):  # gone, or its removal is under way
            await self.container(container_id).delete(force=True, v=True)

    # troubles --------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def told_plainly(self, what: str) -> Iterator[None]:
        try:
            yield
        except DockerError as error:
            raise RunnerUnavailable(f"{what}: {self._reason(error)}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RunnerUnavailable(f"{what}: {self._no_answer()}") from error
        except OSError as error:
            raise RunnerUnavailable(f"{what}: {error}.") from error

    def _reason(self, error: DockerError) -> str:
        if error.status == _NO_CONNECTION:
            return self._no_answer()
        said = error.message.lower()
        if "no such image" in said:
            return f"the image {self._rules.image} is not on this machine. Build it with scripts/setup.sh."
        if "network" in said and "not found" in said:
            return f"there is no Docker network {self._rules.network}. `docker compose up -d` makes it."
        return error.message

    def _no_answer(self) -> str:
        return (
            f"the Docker engine at {self._host} does not answer. Check DOCKER_HOST, and whether this user may use it."
        )


@contextlib.contextmanager
def ignored(*statuses: int) -> Iterator[None]:
    """Answers of the engine that are as good as success."""
    try:
        yield
    except DockerError as error:
        if error.status not in statuses:
            raise


def plain(error: BaseException) -> str:
    return error.message if isinstance(error, DockerError) else str(error) or type(error).__name__
