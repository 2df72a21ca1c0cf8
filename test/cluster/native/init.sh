#!/usr/bin/env bash
# Usage: init.sh STATE BIN: process 1 of the native cluster, started by up.sh in new network, mount and process
# namespaces. Whatever runs in the cluster is its child: when it ends, the kernel ends them all and drops the mounts.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
state=$1 bin=$2
export CACHENODE_CLUSTER_STATE=$state PATH=$bin:$PATH
# shellcheck source=env.sh
. "$here/env.sh"
pki=$state/pki

mount --make-rshared /
mount -t proc proc /proc
# The cluster's own /run: network namespaces, sockets and mounts are gone with it, and no host daemon's socket is in reach.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns "$state/logs"
exec >>"$state/logs/init.log" 2>&1

network() {
  ip link set lo up
  ip link add kbr0 type bridge
  ip addr add $bridge_ip/24 dev kbr0
  ip link set kbr0 up
  sysctl -qw net.ipv4.ip_forward=1
  for node in "${nodes[@]}"; do
    ip netns add "$node"
    ip link add "v-$node" type veth peer name eth0 netns "$node"
    ip link set "v-$node" master kbr0 up
    ip -n "$node" addr add "$(node_ip "$node")/24" dev eth0
    ip -n "$node" link set eth0 up
    ip -n "$node" link set lo up
    ip -n "$node" route add default via $bridge_ip
    nsenter --net="/run/netns/$node" sysctl -qw net.ipv4.ip_forward=1
    for other in "${nodes[@]}"; do
      [[ $other == "$node" ]] || ip -n "$node" route add "$(node_pods "$other").0/24" via "$(node_ip "$other")"
    done
    ip route add "$(node_pods "$node").0/24" via "$(node_ip "$node")"
  done
  # The only way in is the host's end of the uplink, and the only port the API server's; nothing goes out by it.
  nft -f - <<N
table inet uplink {
  chain input { type filter hook input priority 0;
    iifname "$uplink" ip saddr $host_ip tcp dport 6443 accept
    iifname "$uplink" drop
  }
  chain forward { type filter hook forward priority 0;
    iifname "$uplink" drop
    oifname "$uplink" drop
  }
}
N
}

control_plane() {
  local etcd=(--cert-file="$pki/etcd.crt" --key-file="$pki/etcd.key" --client-cert-auth --trusted-ca-file="$pki/ca.crt")
  start etcd etcd --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn "${etcd[@]}" \
    --listen-client-urls https://127.0.0.1:2379 --advertise-client-urls https://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380
  # What the operator asks for, for the test of its rights.
  cat >"$state/audit.yaml" <<'A'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["system:serviceaccount:cachenode-system:cachenode-operator"]}
- {level: None}
A
  start apiserver kube-apiserver --audit-policy-file="$state/audit.yaml" --audit-log-path="$state/logs/audit.log" --secure-port=6443 --advertise-address=$bridge_ip \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" \
    --etcd-servers=https://127.0.0.1:2379 --etcd-cafile="$pki/ca.crt" \
    --etcd-certfile="$pki/apiserver-etcd.crt" --etcd-keyfile="$pki/apiserver-etcd.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --kubelet-client-certificate="$pki/apiserver-kubelet.crt" --kubelet-client-key="$pki/apiserver-kubelet.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/service-account.key" \
    --service-account-signing-key-file="$pki/service-account.key" --anonymous-auth=false \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-cluster-ip-range=$service_cidr --allow-privileged=true --profiling=false
  until curl -sf --cacert "$pki/ca.crt" --cert "$pki/admin.crt" --key "$pki/admin.key" https://127.0.0.1:6443/readyz >/dev/null; do sleep 0.2; done
  start controller-manager kube-controller-manager --kubeconfig="$pki/controller-manager.kubeconfig" --bind-address=127.0.0.1 \
    --service-account-private-key-file="$pki/service-account.key" --root-ca-file="$pki/ca.crt" --leader-elect=false \
    --use-service-account-credentials --node-monitor-grace-period=10s --profiling=false
  start scheduler kube-scheduler --kubeconfig="$pki/scheduler.kubeconfig" --bind-address=127.0.0.1 --leader-elect=false --profiling=false
}

# shellcheck source=node.sh
. "$here/node.sh"
trap 'exit 0' TERM INT
network
control_plane
for node in "${nodes[@]}"; do
  start_node "$node"
done
echo ready >"$state/init.ready"
while :; do wait || true; sleep 1; done
