#!/usr/bin/env bash
# Ends the native cluster and removes all that it made but the cached builds, also after a crash. The first process takes
# every other one, every mount and every network namespace with it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=env.sh
. "$here/env.sh"

if running; then
  pid=$(cat "$state/init.pid")
  kill -KILL "$pid"
  while [[ -e /proc/$pid ]]; do sleep 0.1; done
fi
# The kernel would remove the uplink with the network namespace that its other end is in; but connections to a node that was
# stopped keep that for minutes.
ip link delete "$uplink" 2>/dev/null || true

# Empty cgroups, children first; they cannot be removed while a process is in them.
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
  for node in "${nodes[@]}"; do
    group=$root/$(node_cgroup "$node")
    [[ -d $group && ! -L $root ]] || continue
    for _ in $(seq 50); do
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
      [[ -d $group ]] || break
      sleep 0.1
    done
  done
done
[[ ! -L $state/files ]] || rm -rf --one-file-system "$(readlink "$state/files")"
rm -rf --one-file-system "$state"
