#!/usr/bin/env bash
# Prepares a machine for the Docker set-up: .env with generated secrets, folders, images. May be repeated; what is there is kept.
#   scripts/setup.sh
# Other base images (build arguments): NODE_IMAGE=… PYTHON_IMAGE=… REDIS_IMAGE=… scripts/setup.sh
set -euo pipefail
cd "$(dirname "$0")/.."
env_file=${ENV_FILE:-.env}

say() { printf '  %s\n' "$*"; }
die() { printf 'set-up stopped: %s\n' "$*" >&2; exit 1; }
secret() { head -c 24 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'; }
given() { grep -Eq "^$1=." "$env_file"; }
value() { sed -n "s/^$1=//p" "$env_file" | tail -1; }
put() { # name value: unless it has one; an empty line of a copied env.example is filled
  given "$1" && return 0
  if grep -q "^$1=" "$env_file"; then sed -i "s|^$1=.*|$1=$2|" "$env_file"; else printf '%s=%s\n' "$1" "$2" >>"$env_file"; fi
  say "$env_file: $1 was set"
}

command -v docker >/dev/null || die "docker is not installed"
docker version >/dev/null 2>&1 || die "the Docker engine does not answer; does it run, and may this user use it?"

[ -e "$env_file" ] || { (umask 077; printf '# Settings of this installation; every name is explained in env.example.\n' >"$env_file"); }
chmod 600 "$env_file"
put API_KEY "wa_$(secret)"
put WEBHOOK_SECRET "$(secret)"
put REDIS_PASSWORD "$(secret)"
put HOST_SESSIONS_DIR "$PWD/sessions"
put HOST_BACKUPS_DIR "$PWD/backups"
put HOST_STATE_DIR "$PWD/state"
for name in NODE_IMAGE PYTHON_IMAGE REDIS_IMAGE DOCKER_SOCK; do [ -z "${!name:-}" ] || put "$name" "${!name}"; done
# who owns the folders runs the server and the workers; never root
if [ "$(id -u)" = 0 ]; then put ORCH_UID 1000; put ORCH_GID 1000; else put ORCH_UID "$(id -u)"; put ORCH_GID "$(id -g)"; fi

for folder in "$(value HOST_SESSIONS_DIR)" "$(value HOST_BACKUPS_DIR)" "$(value HOST_STATE_DIR)"; do
  mkdir -p -m 700 "$folder"
  [ "$(id -u)" != 0 ] || chown "$(value ORCH_UID):$(value ORCH_GID)" "$folder"
done

node_image=${NODE_IMAGE:-$(value NODE_IMAGE)} python_image=${PYTHON_IMAGE:-$(value PYTHON_IMAGE)}
build() { # file, tag, arguments
  local file=$1 tag=$2; shift 2
  say "building $tag …"
  docker build -q "$@" -f "$file" -t "$tag" . >/dev/null
}
image=$(value WORKER_IMAGE)
build worker/Dockerfile "${image:-whatsapp-worker-image:1.0.0}" --build-arg BASE_IMAGE="${node_image:-node:20-slim}"
build deploy/Dockerfile whatsapp-orchestrator:1.0.0 \
  --build-arg BASE_IMAGE="${python_image:-python:3.11-slim}" --build-arg NODE_IMAGE="${node_image:-node:20-slim}"
say "ready: scripts/deploy.sh starts it"
