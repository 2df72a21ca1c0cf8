#!/usr/bin/env bash
# Starts the native cluster: three Kubernetes nodes on one Linux machine, as root, without Docker or a registry, in
# namespaces of its own. Does nothing where it runs already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
say() { echo "cluster: $*" >&2; }

running && [[ -e $state/init.ready ]] && exit 0
"$top/hack/setup"
"$here/down.sh"
mkdir -p "$state"
addresses=$(ip -brief addr show)
for ((link = 0; link < 63; link++)); do
  [[ $addresses == *"169.254.230.$((4 * link + 1))/30"* ]] || break
done
echo "$link" >"$state/link"
# shellcheck source=env.sh
. "$here/env.sh"

bin=$state/bin
mkdir -p "$bin" "$state/images"
# What waits for the network rather than for a processor is fetched beside the build.
"$top/hack/nginx-root" >/dev/null 2>"$state/nginx-root.log" 9>&- &
(cd "$top" && go mod download) >/dev/null 2>&1 9>&- &
for tool in cluster runc cni; do
  ln -sf "$("$top/hack/build-tool" "$tool")"/* "$bin/"
done
ln -sf server "$bin/etcd" # the module's name for etcd

(cd "$top" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$state/pause" ./test/cluster/pause)
"$("$top/hack/build-tool" ociimage)/ociimage" -name localhost/pause:1 -entrypoint /pause -file "$state/pause:/pause" -o "$state/images/pause.tar"

"$here/pki.sh" "$state/pki"
# The files that the disks are in.
if [[ ${CACHENODE_CLUSTER_DISKS-} ]]; then
  mkdir -p "$CACHENODE_CLUSTER_DISKS/$tag"
  ln -s "$CACHENODE_CLUSTER_DISKS/$tag" "$state/files"
else
  mkdir -p "$state/files"
fi
for node in "${nodes[@]}"; do
  mkdir -p "$state/$node"
  for disk in "${disks[@]}"; do
    "$here/../disk" make "$(disk_file "$node" "$disk")" $disk_size
  done
done

say "starting the control plane and ${#nodes[@]} nodes ..."
setsid unshare --net --mount --propagation private --pid --fork --kill-child \
  bash "$here/init.sh" "$state" "$bin" </dev/null >"$state/unshare.log" 2>&1 9>&- &
for _ in $(seq 50); do
  pgrep -o -f "^bash $here/init.sh $state $bin" >"$state/init.pid" && break # the oldest: its subshells look alike
  sleep 0.1
done
running || { say "the cluster's first process ended: see $state/logs/init.log"; exit 1; }

ip link add $uplink type veth peer name $uplink netns "$(cat "$state/init.pid")"
ip addr add $host_ip/30 dev $uplink
ip link set $uplink up
inside ip addr add $cluster_ip/30 dev $uplink
inside ip link set $uplink up

export KUBECONFIG=$state/pki/admin.kubeconfig
for _ in $(seq 600); do
  running || { say "the cluster's first process ended: see $state/logs"; exit 1; }
  [[ -e $state/init.ready ]] && (($("$bin/kubectl" get nodes --no-headers 2>/dev/null | grep -c ' Ready ') == ${#nodes[@]})) && break
  sleep 0.2
done
"$bin/kubectl" get nodes --no-headers | grep -c ' Ready ' >/dev/null || { say "no node became ready: see $state/logs"; exit 1; }
say "the nodes are ready"
