#!/usr/bin/env bash
# Starts or upgrades the Docker set-up, and waits until it is healthy. Running workers are not restarted.
#   scripts/deploy.sh          build, start, wait, print the address
#   scripts/deploy.sh relay    replace the egress relay by the present image; all sessions reconnect
#   scripts/deploy.sh down     stop everything, workers included; nothing is deleted
set -euo pipefail
cd "$(dirname "$0")/.."
env_file=${ENV_FILE:-.env}
export ENV_FILE=$env_file

die() { printf 'not deployed: %s\n' "$*" >&2; exit 1; }
value() { sed -n "s/^$1=//p" "$env_file" | tail -1; }
if docker compose version >/dev/null 2>&1; then compose=(docker compose)
elif command -v docker-compose >/dev/null; then compose=(docker-compose)
else die "docker compose is not installed"; fi
compose+=(--env-file "$env_file")

workers() { docker ps -aq --filter label=wa-orchestrator.session --filter network=wa-workers; }

case ${1:-up} in
  up)
    scripts/setup.sh
    # a new relay would cut every session's connection for a moment: it is only replaced when asked for
    "${compose[@]}" up -d --no-build --no-recreate --wait redis egress
    "${compose[@]}" up -d --no-build --no-deps --wait docker-filter
    "${compose[@]}" up -d --no-build --no-deps orchestrator
    for _ in $(seq 120); do
      health=$(docker inspect -f '{{.State.Health.Status}}' "$("${compose[@]}" ps -q orchestrator)" 2>/dev/null || true)
      [ "$health" != healthy ] || break
      sleep 1
    done
    [ "$health" = healthy ] || { "${compose[@]}" logs --tail 30 orchestrator >&2; die "the orchestrator is not healthy; its log is above"; }
    port=$(value ORCH_PORT)
    printf '\n  WhatsApp Orchestrator is ready at http://127.0.0.1:%s\n  The API key is in %s (API_KEY).\n\n' "${ORCH_PORT:-${port:-3001}}" "$env_file"
    ;;
  relay) "${compose[@]}" up -d --no-build --no-deps --wait egress ;;
  down)
    "${compose[@]}" stop orchestrator
    ids=$(workers)
    [ -z "$ids" ] || { docker stop -t 15 $ids >/dev/null; docker rm $ids >/dev/null; }
    "${compose[@]}" down
    ;;
  *) die "usage: scripts/deploy.sh [up|relay|down]" ;;
esac
