#!/usr/bin/env bash
# Usage: load.sh ARCHIVE...: imports image archives into every node of the native cluster; one that is there is skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
for archive in "$@"; do
  sum=$(sha256sum <"$archive" | cut -c1-32)
  loaded=loaded-$(basename "$archive" .tar) # names what was loaded last: another version takes the same tag
  for node in "${nodes[@]}"; do
    [[ $(cat "$state/$node/$loaded" 2>/dev/null) != "$sum" ]] || continue
    (inside "$state/bin/ctr" -a "/run/containerd-$node.sock" -n k8s.io images import "$archive" >/dev/null 2>"$state/$node/load.log" && echo "$sum" >"$state/$node/$loaded") &
  done
  wait
  for node in "${nodes[@]}"; do
    [[ $(cat "$state/$node/$loaded" 2>/dev/null) == "$sum" ]] || { echo "cluster: $archive did not load on $node: $(cat "$state/$node/load.log")" >&2; exit 1; }
  done
done
