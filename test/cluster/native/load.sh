#!/usr/bin/env bash
# Usage: load.sh ARCHIVE...: imports image archives into every node of the native cluster; one that is there is skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=env.sh
. "$here/env.sh"

runtime() { # NODE VERB ARGUMENT...: what the node's container runtime says, without its warnings
  inside "$state/bin/ctr" -a "/run/containerd-$1.sock" -n k8s.io "${@:2}" 2>"$state/$1/load.log"
}

# has NODE NAME CONFIG: the runtime has all of the image, in this version. A kubelet that runs out of space deletes images,
# so no note of ours about what was loaded can be trusted.
has() {
  local manifest
  manifest=$(runtime "$1" images check "name==$2" | awk '/ complete \(/ {print $3}')
  [[ $manifest && $(runtime "$1" content get "$manifest" | jq -r .config.digest) == "$3" ]]
}

for archive in "$@"; do
  read -r name config < <(tar -xOf "$archive" manifest.json | jq -r '.[0] | "\(.RepoTags[0]) \(.Config)"')
  declare -A loading=()
  for node in "${nodes[@]}"; do
    if has "$node" "$name" "$config"; then continue; fi
    runtime "$node" images import "$archive" >/dev/null &
    loading[$node]=$!
  done
  for node in "${!loading[@]}"; do
    wait "${loading[$node]}" || { echo "cluster: $archive did not load on $node: $(cat "$state/$node/load.log")" >&2; exit 1; }
  done
done
