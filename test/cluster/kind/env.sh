# Names and paths of the kind cluster, read by its other scripts and by ../cluster.
# shellcheck shell=bash disable=SC2034
cache=${CACHENODE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cachenode}
state=${CACHENODE_CLUSTER_STATE:-$cache/kind-cluster}
name=cachenode
nodes=(node-1 node-2 node-3)
disks=(disk1 disk2 disk3)
disk_size=1G

node_name() { # node-1 is kind's first worker
  local number=${1#node-}
  echo "$name-worker${number#1}"
}
disk_path() { echo "/mnt/disks/$2"; }
wipe_disk() { docker exec "$(node_name "$1")" find "$(disk_path "$1" "$2")" -mindepth 1 -delete; }
heal_disk() { :; } # no test makes its disks fail
