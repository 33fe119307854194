"""Where webhooks may lead."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from wa_orchestrator.errors import InvalidWebhookUrl, SettingsError
from wa_orchestrator.events.targets import Guard, TargetRefused, has_credentials, is_public, read_url, shown_url

INSIDE = [
    "127.0.0.1", "127.9.9.9", "0.0.0.1", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.1.1.1",
    "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
]  # fmt: skip
OUTSIDE = ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]


@pytest.mark.parametrize("text", INSIDE)
def test_addresses_inside_are_refused(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not Guard().allows(ip_address(text))
    assert Guard.from_setting("true").allows(ip_address(text))


@pytest.mark.parametrize("text", OUTSIDE)
def test_addresses_outside_are_allowed(text: str) -> None:
    assert Guard().allows(ip_address(text))


def test_named_networks_are_allowed_and_no_others() -> None:
    guard = Guard.from_setting("10.1.0.0/16, 192.168.1.7, fd00::/8")
    for inside in ("10.1.2.3", "192.168.1.7", "fd12::1", "::ffff:10.1.2.3", "8.8.8.8"):
        assert guard.allows(ip_address(inside)), inside
    for outside in ("10.2.0.1", "192.168.1.8", "127.0.0.1", "::ffff:10.2.0.1"):
        assert not guard.allows(ip_address(outside)), outside


@pytest.mark.parametrize("text", ["maybe", "10.0.0.0/33", "10.1.0.0/16;10.2.0.0/16", "localhost"])
def test_a_setting_that_is_no_network_stops_the_start(text: str) -> None:
    with pytest.raises(SettingsError, match="WEBHOOK_ALLOW_PRIVATE"):
        Guard.from_setting(text)


def test_no_socket_is_made_for_an_address_inside() -> None:
    stream = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
    with pytest.raises(TargetRefused):
        Guard().opened_socket((*stream, ("127.0.0.1", 80)))
    with pytest.raises(TargetRefused):
        Guard().opened_socket((socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("fe80::1%eth0", 80, 0, 1)))
    Guard().opened_socket((*stream, ("8.8.8.8", 80))).close()


@pytest.mark.parametrize(
    "url",
    ["", "ftp://host/", "file:///etc/passwd", "gopher://host", "https://", "http://:80/", "//host/path", "http://host:0/",
     "http://host:99999/", "http://[::1", "https://host/#part", "https://host/a b", "https://hóst/",
     "http://host/\r\nX: y", "https://host/" + "a" * 2000],
)  # fmt: skip
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidWebhookUrl):
        read_url(url)


def test_a_wrong_address_is_not_quoted() -> None:
    with pytest.raises(InvalidWebhookUrl) as caught:
        read_url("ftp://user:hunter2@host/")
    assert "hunter2" not in caught.value.message


def test_secrets_of_an_address_are_not_shown() -> None:
    url = "https://user:hunter2@hooks.example:8443/in/path?token=s3cr3t&plain"
    shown = shown_url(url)
    assert "hunter2" not in shown
    assert "s3cr3t" not in shown
    assert "user" not in shown
    assert shown.startswith("https://hooks.example:8443/in/path?token=")
    assert has_credentials(url)
    assert not has_credentials("https://hooks.example/path")
