#!/usr/bin/env bash
# Ends the kind cluster and removes all that it made but the cached builds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
[[ ! -x $state/bin/kind ]] || "$state/bin/kind" delete cluster --name "$name" >&2
for node in "${nodes[@]}"; do
  for disk in "${disks[@]}"; do
    ! mountpoint -q "$state/$node/disks/$disk" 2>/dev/null || umount "$state/$node/disks/$disk"
  done
done
rm -rf "$state"
