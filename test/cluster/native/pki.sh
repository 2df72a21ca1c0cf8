#!/usr/bin/env bash
# Makes the certificates of a native cluster below $1: one authority, and one certificate for every client and server.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
pki=$1
umask 077
mkdir -p "$pki"
cd "$pki"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -keyout ca.key -out ca.crt \
  -subj /CN=cachenode-test-cluster -addext basicConstraints=critical,CA:true \
  -addext keyUsage=critical,keyCertSign,digitalSignature 2>/dev/null
openssl genrsa -out service-account.key 2048 2>/dev/null

# issue NAME SUBJECT USAGE [SUBJECT ALTERNATIVE NAMES]
issue() {
  local extensions="basicConstraints=CA:false
keyUsage=digitalSignature
extendedKeyUsage=$3"
  [[ -z ${4-} ]] || extensions+=$'\nsubjectAltName='$4
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -subj "$2" 2>/dev/null |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out "$1.crt" -extfile <(echo "$extensions") 2>/dev/null
}

issue etcd /CN=etcd serverAuth,clientAuth IP:127.0.0.1
issue apiserver /CN=kube-apiserver serverAuth "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,\
DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$kubernetes_ip,IP:$bridge_ip,IP:$cluster_ip"
issue apiserver-etcd /CN=kube-apiserver clientAuth
issue apiserver-kubelet /O=system:masters/CN=kube-apiserver-kubelet clientAuth
issue admin /O=system:masters/CN=admin clientAuth
issue controller-manager /CN=system:kube-controller-manager clientAuth
issue scheduler /CN=system:kube-scheduler clientAuth
issue proxy /CN=system:kube-proxy clientAuth
for node in "${nodes[@]}"; do
  issue "$node" "/O=system:nodes/CN=system:node:$node" serverAuth,clientAuth "DNS:$node,IP:$(node_ip "$node")"
done

# kubeconfig NAME SERVER: a self-contained kubeconfig for the certificate NAME
kubeconfig() {
  cat >"$1.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: cachenode, cluster: {server: "https://$2:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: cachenode, context: {cluster: cachenode, user: $1}}]
current-context: cachenode
K
}
kubeconfig admin "$cluster_ip"
for name in controller-manager scheduler proxy "${nodes[@]}"; do kubeconfig "$name" "$bridge_ip"; done
