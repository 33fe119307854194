"""A visitor who signed in, on a control plane without a browser."""

from __future__ import annotations

import re

import pytest

from support.control_plane import API_KEY, ControlPlane
from support.visitor import Visitor, cookie_of, sign_in


@pytest.fixture
async def visitor(plane: ControlPlane) -> Visitor:
    found = Visitor(plane, cookie_of(await sign_in(plane, API_KEY)))
    token = re.search(r'name="csrf-token" content="([^"]+)"', await found.get("/"))
    assert token
    found.csrf = token[1]
    return found
