# One node of the native cluster: its disks, mounts, cgroups, container runtime, kubelet and Service proxy. Read by init.sh,
# and by fault.sh to start a node again.
# shellcheck shell=bash disable=SC2154

start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" </dev/null >>"$state/logs/$name.log" 2>&1 &
}

mount_disks() { # NODE: three real disks, each a file system of its own
  local node=$1 disk
  for disk in "${disks[@]}"; do
    mkdir -p "$state/$node/disks/$disk"
    mountpoint -q "$state/$node/disks/$disk" || "$here/../disk" mount "$(disk_file "$node" "$disk")" "$state/$node/disks/$disk"
  done
}

# make_mounts NODE: a mount namespace for the node, in which its disks are at /mnt/DISK, as they are on every other node.
# What the others see of the machine it sees too. A process that sleeps holds it.
make_mounts() {
  local node=$1 disk
  start "$node-mounts" unshare --mount --propagation slave sleep infinity
  echo $! >"$state/$node/mounts.pid"
  until [[ $(readlink "/proc/$!/ns/mnt") != "$(readlink /proc/self/ns/mnt)" && $(cat "/proc/$!/comm") == sleep ]]; do sleep 0.05; done
  on_node "$node" mount --make-rshared /
  on_node "$node" mount -t tmpfs -o mode=755 tmpfs /mnt
  on_node "$node" mkdir -p /var/lib/cachenode
  on_node "$node" mount -t tmpfs -o mode=755 tmpfs /var/lib/cachenode
  for disk in "${disks[@]}"; do
    on_node "$node" mkdir "/mnt/$disk"
    on_node "$node" mount --bind "$state/$node/disks/$disk" "/mnt/$disk"
  done
}

# on_node NODE COMMAND...: runs in the node's mount and network namespaces.
on_node() {
  local node=$1
  shift
  nsenter --mount="/proc/$(cat "$state/$node/mounts.pid")/ns/mnt" --net="/run/netns/$node" -- "$@"
}

make_cgroups() { # NODE: a tree for each kubelet, in cgroup version 1 or 2
  local root=/sys/fs/cgroup group controller
  group=$(node_cgroup "$1")
  if [[ -e $root/cgroup.controllers ]]; then
    mkdir -p "$root/$group"
    # All that the root has: the kubelet refuses a tree that lacks one of those that it knows.
    for controller in $(<$root/cgroup.controllers); do
      echo "+$controller" >$root/cgroup.subtree_control || true
      echo "+$controller" >"$root/$group/cgroup.subtree_control" || true
    done
    return
  fi
  for controller in cpu cpuacct cpuset memory blkio pids devices freezer hugetlb systemd; do
    [[ ! -d $root/$controller ]] || mkdir -p "$root/$controller/$group"
  done
  cat $root/cpuset/cpuset.cpus >"$root/cpuset/$group/cpuset.cpus"
  cat $root/cpuset/cpuset.mems >"$root/cpuset/$group/cpuset.mems"
}

write_node_config() { # NODE
  local node=$1 dir=$state/$1
  mkdir -p "$dir/cni" "$dir/containerd"
  cat >"$dir/cni/10-bridge.conflist" <<C
{"cniVersion":"1.0.0","name":"pods","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"/run/ipam-$node","ranges":[[{"subnet":"$(node_pods "$node").0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
C
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE no container may get a lower score than containerd's own.
  cat >"$dir/containerd.toml" <<C
version = 3
root = "$dir/containerd"
state = "/run/containerd-$node"
[grpc]
  address = "/run/containerd-$node.sock"
[ttrpc]
  address = "/run/containerd-$node.sock.ttrpc"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "$state/registries"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$bin"]
    conf_dir = "$dir/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "$bin/runc"
C
  echo "nameserver 127.0.0.1" >"$dir/resolv.conf" # for the host network; pods get the cluster's DNS
  cat >"$dir/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: $pki/$node.crt
tlsPrivateKeyFile: $pki/$node.key
readOnlyPort: 0
cgroupDriver: cgroupfs
cgroupRoot: /$(node_cgroup "$node")
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix:///run/containerd-$node.sock
clusterDNS: [$dns_ip]
clusterDomain: cluster.local
resolvConf: $dir/resolv.conf
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
podLogsDir: $dir/podlogs
nodeStatusUpdateFrequency: 5s
nodeLeaseDurationSeconds: 8
serializeImagePulls: false
K
  cat >"$dir/proxy.yaml" <<K
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: $pki/proxy.kubeconfig}
hostnameOverride: $node
clusterCIDR: $pod_cidr
conntrack: {maxPerCore: 0, tcpCloseWaitTimeout: 0s, tcpEstablishedTimeout: 0s}
K
}

start_node() { # NODE
  local node=$1 dir=$state/$1
  mount_disks "$node"
  make_mounts "$node"
  make_cgroups "$node"
  write_node_config "$node"
  # nsenter, not "ip netns exec": the latter mounts a new /sys, in which the kubelet finds no cgroups.
  local enter=(nsenter --mount="/proc/$(cat "$dir/mounts.pid")/ns/mnt" --net="/run/netns/$node")
  start "$node-containerd" "${enter[@]}" containerd -c "$dir/containerd.toml" -l warn
  until [[ -S /run/containerd-$node.sock ]] && ctr -a "/run/containerd-$node.sock" version >/dev/null 2>&1; do sleep 0.2; done
  ctr -a "/run/containerd-$node.sock" -n k8s.io images import "$state/images/pause.tar" >/dev/null
  start "$node-kubelet" "${enter[@]}" kubelet --config="$dir/kubelet.yaml" --kubeconfig="$pki/$node.kubeconfig" \
    --root-dir="$dir/kubelet" --hostname-override="$node" --node-ip="$(node_ip "$node")"
  start "$node-proxy" "${enter[@]}" kube-proxy --config "$dir/proxy.yaml"
}

# stop_node NODE: everything of the node ends at once, as when it loses its power; its disks keep what they have.
stop_node() {
  local node=$1 group pid
  pkill -KILL -f "(kubelet|kube-proxy) .*$state/$node/" || true
  pkill -KILL -f "containerd.* (-c $state/$node/|-address /run/containerd-$node.sock )" || true
  for group in /sys/fs/cgroup{,/*}/"$(node_cgroup "$node")"; do
    [[ -d $group ]] || continue
    while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done < <(find "$group" -name cgroup.procs -exec cat {} + | sort -u)
  done
  kill -KILL "$(cat "$state/$node/mounts.pid")"
  rm -f "/run/containerd-$node.sock" "/run/containerd-$node.sock.ttrpc"
  ip link set "v-$node" down
}
