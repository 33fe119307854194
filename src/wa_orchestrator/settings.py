"""Settings: read once from the environment, frozen, each with unit, default and reason. `env.example` lists them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from wa_orchestrator import setting_values as value
from wa_orchestrator.alerts.kinds import SEVERITIES
from wa_orchestrator.suppression.words import LONGEST_REPLY, OPT_IN_WORDS, OPT_OUT_WORDS

_PROXY_NAME = re.compile(r"^PROXY_URL_[0-9]+$")


def _setting(env: str, default: str, read: Callable[[str, str], Any], help_: str, *, group: str) -> Any:
    return field(metadata={"env": env, "default": default, "read": read, "help": help_, "group": group})


_MS_DAY = 24 * 3600 * 1000
_DOCKER = "Workers as containers (RUNNER=docker)"
_SERVER, _STORE, _SESSIONS, PROXIES = "Server", "Store", "Sessions and workers", "Proxies"
_MESSAGES = "Messages and pacing"
_RESPONSIBLE = "Responsible sending and audit"
_EVENTS = "Events and webhooks"
_ALERTS, _BACKUPS, _WHATSAPP = "Alerts", "Backups", "Another WhatsApp server than the real one (tests, simulator)"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything an operator can set."""

    api_key: str = _setting("API_KEY", "", value.text,
        "Key for every API call (header X-Api-Key). Empty: made at first start, kept in DATA_DIR, shown once.",
        group=_SERVER)  # fmt: skip
    webhook_secret: str = _setting("WEBHOOK_SECRET", "", value.text,
        "Each worker's own secret is derived from it. Empty: made at first start, kept in DATA_DIR.",
        group=_SERVER)  # fmt: skip
    host: str = _setting("ORCH_HOST", "127.0.0.1", value.text,
        "Address to listen on. 0.0.0.0 only behind a firewall or a TLS proxy.", group=_SERVER)  # fmt: skip
    port: int = _setting("ORCH_PORT", "3001", value.whole(0, 65535), "Port to listen on; 0 takes a free one.",
        group=_SERVER)  # fmt: skip
    data_dir: str = _setting("DATA_DIR", "./data", value.text,
        "Everything that must survive. Relative paths below are relative to it.", group=_SERVER)  # fmt: skip
    log_level: str = _setting("LOG_LEVEL", "info", value.one_of("debug", "info", "warning", "error"),
        "How much is logged.", group=_SERVER)  # fmt: skip
    log_format: str = _setting("LOG_FORMAT", "console", value.one_of("console", "json"),
        "console for people, json for log collectors.", group=_SERVER)  # fmt: skip
    timezone: str = _setting("TIMEZONE", "Asia/Jerusalem", value.zone, "Zone of sending hours and daily work.",
        group=_SERVER)  # fmt: skip
    max_body_bytes: int = _setting("MAX_BODY_BYTES", "1048576", value.whole(1024, 1 << 30),
        "Larger request bodies are refused with 413.", group=_SERVER)  # fmt: skip

    metrics_token: str = _setting("METRICS_TOKEN", "", value.text,
        "Bearer token that may read /metrics and nothing else. Empty: an API key with the right to read is needed.",
        group=_SERVER)  # fmt: skip
    metrics_open: bool = _setting("METRICS_OPEN", "false", value.yes_no,
        "Anybody who reaches the port may read /metrics. Only where nobody else does.", group=_SERVER)  # fmt: skip
    metrics_port: int = _setting("METRICS_PORT", "0", value.whole(0, 65535),
        "Only for a dispatcher that runs alone: port of its /metrics and /health on ORCH_HOST; 0: none.",
        group=_SERVER)  # fmt: skip

    sign_in_hours: int = _setting("SIGN_IN_HOURS", "24", value.whole(1, 24 * 365),
        "After so many hours a browser must sign in to the dashboard again.", group=_SERVER)  # fmt: skip
    scan_link_hours: int = _setting("SCAN_LINK_HOURS", "24", value.whole(1, 24 * 30),
        "How long a link works that lets a number's owner scan one session's code.", group=_SERVER)  # fmt: skip

    redis_url: str = _setting("REDIS_URL", "", value.redis_url,
        "Redis 7+ or Valkey. Empty: an embedded Valkey in DATA_DIR is started and looked after.",
        group=_STORE)  # fmt: skip
    store_fsync: str = _setting("STORE_FSYNC", "always", value.one_of("always", "everysec"),
        "Embedded store only. always: an accepted message survives a power cut.", group=_STORE)  # fmt: skip

    sessions_dir: str = _setting("SESSIONS_DIR", "./sessions", value.text,
        "One folder per session with its auth files.", group=_SESSIONS)  # fmt: skip
    run_dir: str = _setting("RUN_DIR", "./run", value.text,
        "Which local worker runs where. Share it and SESSIONS_DIR between orchestrators of one machine.",
        group=_SESSIONS)  # fmt: skip
    max_sessions_per_phone: int = _setting("MAX_SESSIONS_PER_PHONE", "4", value.whole(1, 100),
        "WhatsApp lets a phone link four devices.", group=_SESSIONS)  # fmt: skip
    provisioning_interval_ms: int = _setting("PROVISIONING_INTERVAL_MS", "2000", value.whole(100, _MS_DAY),
        "How often wanted and running workers are compared.", group=_SESSIONS)  # fmt: skip
    monitor_interval_ms: int = _setting("MONITOR_INTERVAL_MS", "30000", value.whole(1000, _MS_DAY),
        "How often all workers and proxies are looked over.", group=_SESSIONS)  # fmt: skip
    watchdog_interval_ms: int = _setting("WATCHDOG_INTERVAL_MS", "60000", value.whole(1000, _MS_DAY),
        "How often silent workers are looked for.", group=_SESSIONS)  # fmt: skip
    ping_timeout_ms: int = _setting("PING_TIMEOUT_MS", "180000", value.whole(1000, _MS_DAY),
        "A worker without PING for so long is unhealthy and restarted.", group=_SESSIONS)  # fmt: skip
    scan_timeout_ms: int = _setting("SCAN_TIMEOUT_MS", "900000", value.whole(1000, 30 * _MS_DAY),
        "A session that nobody scans gives its slot back after this.", group=_SESSIONS)  # fmt: skip
    start_budget: int = _setting("START_BUDGET", "4", value.whole(1, 1000),
        "Workers that may be starting at the same time: a cold start costs about half a CPU second.",
        group=_SESSIONS)  # fmt: skip
    deleted_keep_days: int = _setting("DELETED_KEEP_DAYS", "7", value.whole(0, 3650),
        "How long the auth folder of a deleted session is kept aside.", group=_SESSIONS)  # fmt: skip
    enable_keep_alive: bool = _setting("ENABLE_KEEP_ALIVE", "true", value.yes_no,
        "Workers show presence and write themselves an ephemeral message.", group=_SESSIONS)  # fmt: skip
    ping_interval_ms: int = _setting("PING_INTERVAL_MS", "15000", value.whole(0, _MS_DAY),
        "How often a worker reports that it lives; 0 turns it off.", group=_SESSIONS)  # fmt: skip
    presence_interval_ms: int = _setting("PRESENCE_INTERVAL_MS", "15000", value.whole(0, _MS_DAY),
        "How often a worker shows presence; 0 turns it off.", group=_SESSIONS)  # fmt: skip
    self_message_interval_ms: int = _setting("SELF_MESSAGE_INTERVAL_MS", "600000", value.whole(0, _MS_DAY),
        "How often a worker writes itself an ephemeral message; 0 turns it off.", group=_SESSIONS)  # fmt: skip
    worker_url: str = _setting("WORKER_URL", "", value.text,
        "How workers reach this server. Empty: http://127.0.0.1:<port>.", group=_SESSIONS)  # fmt: skip
    worker_command: str = _setting("WORKER_COMMAND", "", value.text,
        "Program that runs one worker. Empty: Node with the built worker bundle.", group=_SESSIONS)  # fmt: skip
    worker_env: str = _setting("WORKER_ENV", "", value.assignments,
        "Further worker settings (worker/README.md), NAME=value with spaces between.", group=_SESSIONS)  # fmt: skip
    worker_log_bytes: int = _setting("WORKER_LOG_BYTES", "5242880", value.whole(65536, 1 << 30),
        "A worker's log file is turned over at this size.", group=_SESSIONS)  # fmt: skip

    runner: str = _setting("RUNNER", "process", value.one_of("process", "docker"),
        "process: workers are local processes. docker: one container each.", group=_DOCKER)  # fmt: skip
    docker_host: str = _setting("DOCKER_HOST", "unix:///var/run/docker.sock", value.docker_host,
        "The Docker engine, or better the filter in front of it (`wa-orchestrator docker-filter`).",
        group=_DOCKER)  # fmt: skip
    worker_image: str = _setting("WORKER_IMAGE", "whatsapp-worker-image:1.0.0", value.text,
        "Image of the workers, built from worker/Dockerfile.", group=_DOCKER)  # fmt: skip
    docker_network: str = _setting("DOCKER_NETWORK", "bridge", value.text,
        "Docker network of the workers; WORKER_URL must be reachable from it.", group=_DOCKER)  # fmt: skip
    host_sessions_dir: str = _setting("HOST_SESSIONS_DIR", "", value.host_path,
        "SESSIONS_DIR as the Docker machine sees it. Empty: the same path, for a server outside containers.",
        group=_DOCKER)  # fmt: skip
    worker_memory_mb: int = _setting("WORKER_MEMORY_MB", "256", value.whole(32, 1 << 20),
        "Memory limit of a worker, without swap: it needs 50 to 100, media comes on top.", group=_DOCKER)  # fmt: skip
    worker_cpus: float = _setting("WORKER_CPUS", "1", value.cpus,
        "CPU limit of a worker: a start takes about half a CPU second.", group=_DOCKER)  # fmt: skip
    worker_pids: int = _setting("WORKER_PIDS", "64", value.whole(8, 1 << 20),
        "Limit of processes and threads of a worker: it has about 12.", group=_DOCKER)  # fmt: skip
    egress_relay: str = _setting("EGRESS_RELAY", "", value.optional_host_port,
        "host:port of `wa-orchestrator egress`, the workers' only way out. Empty: workers reach proxies directly.",
        group=_DOCKER)  # fmt: skip

    max_sessions_per_proxy: int = _setting("MAX_SESSIONS_PER_PROXY", "4", value.whole(1, 1000),
        "Slots per proxy; never exceeded.", group=PROXIES)  # fmt: skip
    proxy_file: str = _setting("PROXY_FILE", "", value.text,
        "One proxy per line, # for comments; relative to the current folder.", group=PROXIES)  # fmt: skip
    proxy_check_target: str = _setting("PROXY_CHECK_TARGET", "web.whatsapp.com:443", value.host_port,
        "What the health check connects to through each proxy.", group=PROXIES)  # fmt: skip
    proxy_exit_ip_url: str = _setting("PROXY_EXIT_IP_URL", "", value.web_url,
        "A page that answers with its visitor's address, asked once an hour through each proxy. Empty: not asked.",
        group=PROXIES)  # fmt: skip
    proxy_timeout_ms: int = _setting("PROXY_TIMEOUT_MS", "10000", value.whole(100, 120_000),
        "A proxy that takes longer counts as hanging.", group=PROXIES)  # fmt: skip
    proxy_bad_after: int = _setting("PROXY_BAD_AFTER", "3", value.whole(1, 100),
        "Failed checks in a row of the health loop that make a proxy bad. One bad report is not a verdict.",
        group=PROXIES)  # fmt: skip

    rate_limit_per_second: int = _setting("RATE_LIMIT_PER_SECOND", "0", value.whole(0, 1_000_000),
        "Messages the whole installation accepts per second; 0: no limit.", group=_MESSAGES)  # fmt: skip
    rate_limit_burst: int = _setting("RATE_LIMIT_BURST", "200", value.whole(1, 1_000_000),
        "How many may come at once within that rate.", group=_MESSAGES)  # fmt: skip
    pacing_preset: str = _setting("PACING_PRESET", "standard", value.one_of("standard", "cautious"),
        "Which table of limits phones start with.", group=_MESSAGES)  # fmt: skip
    burst_messages: int = _setting("BURST_MESSAGES", "20", value.whole(1, 10_000),
        "After so many messages without a natural gap a phone pauses.", group=_MESSAGES)  # fmt: skip
    burst_pause_ms: int = _setting("BURST_PAUSE_MS", "30000", value.whole(0, _MS_DAY),
        "How long that pause is.", group=_MESSAGES)  # fmt: skip
    flood_per_minute: int = _setting("FLOOD_PER_MINUTE", "300", value.whole(0, 1_000_000),
        "Messages accepted for one phone in a minute that are flagged as a flood; 0: never.",
        group=_MESSAGES)  # fmt: skip
    message_attempts: int = _setting("MESSAGE_ATTEMPTS", "3", value.whole(1, 100),
        "Refusals after which a message has failed.", group=_MESSAGES)  # fmt: skip
    message_lease_ms: int = _setting("MESSAGE_LEASE_MS", "120000", value.whole(1000, _MS_DAY),
        "How long a worker may keep a message without an answer.", group=_MESSAGES)  # fmt: skip
    message_keep_days: int = _setting("MESSAGE_KEEP_DAYS", "30", value.whole(1, 3650),
        "How long ended messages can be looked up.", group=_MESSAGES)  # fmt: skip
    max_text_length: int = _setting("MAX_TEXT_LENGTH", "4096", value.whole(1, 65536),
        "Longest text of a message, in characters.", group=_MESSAGES)  # fmt: skip
    max_media_bytes: int = _setting("MAX_MEDIA_BYTES", "67108864", value.whole(1024, 1 << 31),
        "Largest file that is uploaded or fetched.", group=_MESSAGES)  # fmt: skip
    inbox_keep_days: int = _setting("INBOX_KEEP_DAYS", "30", value.whole(0, 3650),
        "How long conversations can be looked up; 0: what people write is not kept for that.",
        group=_MESSAGES)  # fmt: skip
    inbound_media_max_bytes: int = _setting("INBOUND_MEDIA_MAX_BYTES", "16777216", value.whole(0, 1 << 31),
        "Largest file of an incoming message that is fetched, through the session's proxy; 0: none.",
        group=_MESSAGES)  # fmt: skip
    inbound_media_keep_days: int = _setting("INBOUND_MEDIA_KEEP_DAYS", "30", value.whole(1, 3650),
        "How long received files are kept.", group=_MESSAGES)  # fmt: skip
    inbound_media_total_bytes: int = _setting("INBOUND_MEDIA_TOTAL_BYTES", "10737418240", value.whole(1 << 20, 1 << 50),
        "Room for received files; beyond it the oldest go first.", group=_MESSAGES)  # fmt: skip
    inbound_media_dir: str = _setting("INBOUND_MEDIA_DIR", "./inbound-media", value.text,
        "Where received files are kept. Share it between orchestrators of several servers.",
        group=_MESSAGES)  # fmt: skip
    dispatch_interval_ms: int = _setting("DISPATCH_INTERVAL_MS", "25", value.whole(1, 10_000),
        "How often due senders are served.", group=_MESSAGES)  # fmt: skip

    opt_out_words: tuple[str, ...] = _setting("OPT_OUT_WORDS", "standard", value.opt_words(OPT_OUT_WORDS),
        "Whoever answers with one of these and nothing else gets no more messages. standard: our own list "
        "(STOP, הסר …); add words with commas between; off: no word does that.",
        group=_RESPONSIBLE)  # fmt: skip
    opt_in_words: tuple[str, ...] = _setting("OPT_IN_WORDS", "standard", value.opt_words(OPT_IN_WORDS),
        "These lift an opt-out that was made by a word; standard, words of your own, or off.",
        group=_RESPONSIBLE)  # fmt: skip
    opt_out_reply: str = _setting("OPT_OUT_REPLY", "", value.short_text(LONGEST_REPLY),
        "Answered once to whoever opts out by a word. Empty: nothing is answered.", group=_RESPONSIBLE)  # fmt: skip
    recipient_cap_per_day: int = _setting("RECIPIENT_CAP_PER_DAY", "0", value.whole(0, 100_000),
        "Messages one recipient may get in a day (TIMEZONE) from all sessions together; 0: no such limit.",
        group=_RESPONSIBLE)  # fmt: skip
    audit_keep_days: int = _setting("AUDIT_KEEP_DAYS", "365", value.whole(1, 3650),
        "How long the audit log is kept; at most 100,000 lines.", group=_RESPONSIBLE)  # fmt: skip

    journal_length: int = _setting("JOURNAL_LENGTH", "100000", value.whole(1000, 1_000_000),
        "Events that are kept for those who read them by number.", group=_EVENTS)  # fmt: skip
    journal_keep_days: int = _setting("JOURNAL_KEEP_DAYS", "30", value.whole(1, 3650),
        "Older events are not kept, however few there are.", group=_EVENTS)  # fmt: skip
    webhook_backlog: int = _setting("WEBHOOK_BACKLOG", "500000", value.whole(1000, 2_000_000),
        "While a webhook's receiver is away so many events are kept for it; beyond, it is told of a gap.",
        group=_EVENTS)  # fmt: skip
    webhook_retry_days: int = _setting("WEBHOOK_RETRY_DAYS", "3", value.whole(1, 30),
        "How long an event is tried before it becomes a dead letter.", group=_EVENTS)  # fmt: skip
    webhook_dead_letters: int = _setting("WEBHOOK_DEAD_LETTERS", "10000", value.whole(100, 1_000_000),
        "Dead letters kept per webhook; also how many events of refused sessions may wait aside.",
        group=_EVENTS)  # fmt: skip
    webhook_timeout_ms: int = _setting("WEBHOOK_TIMEOUT_MS", "10000", value.whole(100, 60_000),
        "A receiver that takes longer to answer has failed.", group=_EVENTS)  # fmt: skip
    webhook_concurrency: int = _setting("WEBHOOK_CONCURRENCY", "8", value.whole(1, 100),
        "Requests under way to one receiver; events of one session go one after the other.", group=_EVENTS)  # fmt: skip
    webhook_allow_private: str = _setting("WEBHOOK_ALLOW_PRIVATE", "false", value.allowed_networks,
        "Whether webhooks may lead into private networks: true, false, or networks: 10.1.0.0/16, 192.168.1.7.",
        group=_EVENTS)  # fmt: skip

    telegram_bot_token: str = _setting("TELEGRAM_BOT_TOKEN", "", value.text, "Empty: no alerts.",
        group=_ALERTS)  # fmt: skip
    telegram_chat_id: str = _setting("TELEGRAM_CHAT_ID", "", value.text, "Where alerts go.", group=_ALERTS)  # fmt: skip
    telegram_api_url: str = _setting("TELEGRAM_API_URL", "https://api.telegram.org", value.web_address,
        "The Bot API; another one for a server of your own.", group=_ALERTS)  # fmt: skip
    alert_language: str = _setting("ALERT_LANGUAGE", "en", value.one_of("en", "he"), "Language of alerts: en or he.",
        group=_ALERTS)  # fmt: skip
    alert_min_severity: str = _setting("ALERT_MIN_SEVERITY", "info", value.one_of(*SEVERITIES),
        "What is sent: info (all), warning or critical. The dashboard shows all.", group=_ALERTS)  # fmt: skip
    alert_muted: str = _setting("ALERT_MUTED", "", value.alert_kinds,
        "Kinds that are not sent, with commas between, for example connected,backup_done.", group=_ALERTS)  # fmt: skip
    alert_grace_ms: int = _setting("ALERT_GRACE_MS", "60000", value.whole(0, _MS_DAY),
        "A lost connection or a low stock that is over sooner is not told.", group=_ALERTS)  # fmt: skip
    alert_fold_ms: int = _setting("ALERT_FOLD_MS", "600000", value.whole(1000, 7 * _MS_DAY),
        "The same about the same is told once in this time, then with how often it happened.",
        group=_ALERTS)  # fmt: skip
    alert_digest_ms: int = _setting("ALERT_DIGEST_MS", "5000", value.whole(100, _MS_DAY),
        "How long is waited for more of a kind, so that many make one message.", group=_ALERTS)  # fmt: skip
    low_free_slots: int = _setting("LOW_FREE_SLOTS", "2", value.whole(0, 1_000_000),
        "Alert when fewer proxy slots are free; 0: never.", group=_ALERTS)  # fmt: skip
    low_healthy_proxies: int = _setting("LOW_HEALTHY_PROXIES", "1", value.whole(0, 1_000_000),
        "Alert when fewer proxies work; 0: never.", group=_ALERTS)  # fmt: skip
    low_connected_sessions: int = _setting("LOW_CONNECTED_SESSIONS", "0", value.whole(0, 1_000_000),
        "Alert when fewer sessions are connected; 0: never.", group=_ALERTS)  # fmt: skip
    low_profiles: int = _setting("LOW_PROFILES", "0", value.whole(0, 1_000_000),
        "Alert when fewer uploaded profiles are left; 0: never.", group=_ALERTS)  # fmt: skip

    backups_dir: str = _setting("BACKUPS_DIR", "./backups", value.text, "Where backups are kept.",
        group=_BACKUPS)  # fmt: skip
    max_backups: int = _setting("MAX_BACKUPS", "7", value.whole(1, 10_000), "Older ones are removed.",
        group=_BACKUPS)  # fmt: skip
    backup_at: str = _setting("BACKUP_AT", "03:00", value.time_or_off,
        "When the daily backup is made, in TIMEZONE; off: only when asked for.", group=_BACKUPS)  # fmt: skip
    backup_passphrase: str = _setting("BACKUP_PASSPHRASE", "", value.text,
        "Backups are encrypted with it. Without it they hold proxy passwords and auth files in the open.",
        group=_BACKUPS)  # fmt: skip

    wa_websocket_url: str = _setting("WA_WEBSOCKET_URL", "", value.text, "For example wss://localhost:7443/ws/chat.",
        group=_WHATSAPP)  # fmt: skip
    wa_root_public_key: str = _setting("WA_ROOT_PUBLIC_KEY", "", value.text, "Root of its Noise certificates, hex.",
        group=_WHATSAPP)  # fmt: skip
    wa_ca_file: str = _setting("WA_CA_FILE", "", value.text, "Its TLS authority, PEM.", group=_WHATSAPP)  # fmt: skip
    wa_version: str = _setting("WA_VERSION", "", value.text,
        "WhatsApp Web version that workers announce, a.b.c. Empty: the library's own.", group=_WHATSAPP)  # fmt: skip

    proxy_urls: tuple[str, ...] = ()  # PROXY_URL_1 … n

    def data_path(self, *parts: str) -> Path:
        return Path(self.data_dir).absolute().joinpath(*parts)

    @property
    def sessions_path(self) -> Path:
        return self.data_path(self.sessions_dir)

    @property
    def run_path(self) -> Path:
        return self.data_path(self.run_dir)

    @property
    def inbound_media_path(self) -> Path:
        return self.data_path(self.inbound_media_dir)

    @property
    def backups_path(self) -> Path:
        return self.data_path(self.backups_dir)


def described_settings() -> list[tuple[str, str, str, str]]:
    """(group, environment name, default, help) of every setting, in order."""
    return [
        (f.metadata["group"], f.metadata["env"], f.metadata["default"], f.metadata["help"])
        for f in fields(Settings)
        if f.metadata
    ]


def load_settings(environ: Mapping[str, str], **overrides: Any) -> Settings:
    """Reads the environment; `overrides` (from the command line, by field name) win where they are not None."""
    values: dict[str, Any] = {}
    for f in fields(Settings):
        if not f.metadata:
            continue
        name: str = f.metadata["env"]
        given = environ.get(name, "").strip() or f.metadata["default"]
        values[f.name] = f.metadata["read"](name, given)
    names = sorted((n for n in environ if _PROXY_NAME.match(n)), key=lambda n: int(n.rsplit("_", 1)[1]))
    values["proxy_urls"] = tuple(environ[n].strip() for n in names if environ[n].strip())
    values.update({key: given for key, given in overrides.items() if given is not None})
    return Settings(**values)
