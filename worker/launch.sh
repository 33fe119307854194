#!/bin/sh
# Starts the worker only while it holds the lock of its folder: one worker per folder, whoever starts containers here.
# The lock is the kernel's (flock), shared by all containers and processes of the machine, and gone with the process.
set -eu
umask 077
case "${SESSION_ID:-}" in
  '' | *[!A-Za-z0-9_-]*) echo "SESSION_ID may have letters, digits, _ and -, 1 to 64 characters." >&2; exit 64 ;;
esac
folder="${SESSIONS_DIR:-/app/sessions}/$SESSION_ID"
if ! [ -w "$folder" ]; then
  echo "The folder $folder is missing, or user $(id -u) may not write to it." >&2
  exit 64
fi
cd "$folder"
[ -e .lock ] || : >>.lock
exec 9<.lock
# two seconds: a control plane that looks whether the folder is free holds the lock for an instant
flock --exclusive --timeout 2 9 || { echo "The folder $folder is in use by another worker." >&2; exit 75; }
exec "$@"
