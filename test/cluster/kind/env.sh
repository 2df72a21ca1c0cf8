# Names and paths of the kind cluster, read by its other scripts and by ../cluster.
# shellcheck shell=bash disable=SC2034
cache=${CACHENODE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cachenode}
state=${CACHENODE_CLUSTER_STATE:-$cache/kind-cluster}
name=cachenode
nodes=(node-1 node-2 node-3)
disks=(disk1 disk2 disk3)
disk_size=1G

# The newest image of the tested minor version of Kubernetes that was built for the kind of hack/pins/kind. The release notes
# of kind list them.
stock_image=docker.io/kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed

lacks_sys_resource() { # the capability 24 of the bounding set
  local set
  set=$(sed -n 's/^CapBnd:\s*/0x/p' /proc/self/status 2>/dev/null) && [[ $set ]] && ! ((set >> 24 & 1))
}

# pulls_images: can the nodes pull the stock nginx image?
pulls_images() { [[ ! -e $state/without-registry ]]; }

clients() { "$(dirname "${BASH_SOURCE[0]}")/../../../hack/build-tool" cluster:kubectl,helm; }

node_name() { # node-1 is kind's first worker
  local number=${1#node-}
  echo "$name-worker${number#1}"
}
disk_path() { echo "/mnt/disks/$2"; }
wipe_disk() { docker exec "$(node_name "$1")" find "$(disk_path "$1" "$2")" -mindepth 1 -delete || # a pod that ends may still write
  docker exec "$(node_name "$1")" find "$(disk_path "$1" "$2")" -mindepth 1 -delete; }
heal_disk() { :; } # no test makes its disks fail
