# Names and addresses of the native cluster, read by its other scripts.
# shellcheck shell=bash disable=SC2034
native=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CACHENODE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cachenode}
state=${CACHENODE_CLUSTER_STATE:-$cache/native-cluster}
nodes=(node-1 node-2 node-3)
disks=(disk1 disk2 disk3)
disk_size=1G # as truncate means it: 1 GiB

# What all clusters of a machine share is named after the state folder: another checkout's may run beside this one.
tag=$(cksum <<<"$state" | cut -d' ' -f1)

# The host and the cluster meet on a link of two addresses; link-local ones, which no router forwards. up.sh chooses them.
uplink=cn$tag
link=$(cat "$state/link" 2>/dev/null || echo 0)
host_ip=169.254.230.$((4 * link + 1))
cluster_ip=169.254.230.$((4 * link + 2))

# Inside: a bridge that joins the nodes, a range of pods for each node, and the Services.
bridge_ip=10.200.0.1
service_cidr=10.96.0.0/16
pod_cidr=10.244.0.0/16
kubernetes_ip=10.96.0.1
dns_ip=10.96.0.10
node_ip() { echo "10.200.0.1${1#node-}"; }
node_cgroup() { echo "cachenode-$tag-$1"; }
node_pods() { echo "10.244.${1#node-}"; }

# running: is the cluster's first process alive, and still that process?
running() {
  local pid
  pid=$(cat "$state/init.pid" 2>/dev/null) && [[ -n $pid ]] || return 1
  { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q "native/init.sh $state "
}

# inside COMMAND...: runs in the cluster's namespaces (its network, mounts and processes), in the root of them.
inside() { nsenter -t "$(cat "$state/init.pid")" -n -m -p -- "$@"; }

pulls_images() { return 1; }
clients() { "$native/../../../hack/build-tool" cluster; } # all of what the cluster needs: it is there
node_name() { echo "$1"; }
disk_path() { echo "$state/$1/disks/$2"; }
disk_file() { echo "$state/files/$1-$2.xfs"; }
# An nginx whose pod has just been deleted may still write a file into a folder that goes.
wipe_disk() {
  local tries
  for tries in 3 2 1 0; do
    inside find "$(disk_path "$1" "$2")" -mindepth 1 -delete && return
    ((tries == 0)) || sleep 1
  done
  return 1
}

# node_sh SCRIPT: runs with the functions of node.sh, where the nodes are.
node_sh() {
  # shellcheck disable=SC2016 # it is expanded there
  inside env CACHENODE_CLUSTER_STATE="$state" PATH="$state/bin:$PATH" bash -c \
    'set -euo pipefail; here=$0 pki=$CACHENODE_CLUSTER_STATE/pki bin=$CACHENODE_CLUSTER_STATE/bin; . "$here/env.sh"; . "$here/node.sh"; eval "$1"' "$native" "$1"
}
# detach_disk, attach_disk NODE DISK: whether the disk is at /mnt/DISK of the node
detach_disk() { node_sh "on_node $1 umount /mnt/$2" 2>/dev/null || true; }
attach_disk() { node_sh "on_node $1 mkdir -p /mnt/$2 && on_node $1 mount --bind $(disk_path "$1" "$2") /mnt/$2"; }
heal_disk() {
  local path
  path=$(disk_path "$1" "$2")
  inside mount -o remount,rw "$path" 2>/dev/null || true
  # A file system that was shut down still lists what is cached, and takes nothing.
  if ! inside mountpoint -q "$path" || ! inside sh -c "echo >$path/stranger" 2>/dev/null; then
    detach_disk "$1" "$2"
    inside umount "$path" 2>/dev/null || true
    inside mkdir -p "$path"
    inside "$native/../disk" mount "$(disk_file "$1" "$2")" "$path"
  fi
  if ! node_sh "[[ \$(on_node $1 stat -c %d /mnt/$2) == \$(stat -c %d $path) ]]" 2>/dev/null; then
    detach_disk "$1" "$2"
    attach_disk "$1" "$2"
  fi
  inside rm -f "$path/stranger" 2>/dev/null || true # a pod may still hold a dead one
}
