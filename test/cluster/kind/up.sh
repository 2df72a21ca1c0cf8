#!/usr/bin/env bash
# Starts the kind cluster: three workers in Docker, each with three disks: XFS file systems of their own where this runs
# as root, folders otherwise. Does nothing where it runs already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
docker info >/dev/null 2>&1 || { echo "cluster: kind needs Docker, and Docker does not answer; CLUSTER=native needs Linux and root instead" >&2; exit 1; }
mkdir -p "$state/bin" "$state/pki"
ln -sf "$("$top/hack/build-tool" kind)/kind" "$("$top/hack/build-tool" cluster)/kubectl" "$state/bin/"
export PATH=$state/bin:$PATH
if kind get clusters 2>/dev/null | grep -qx "$name"; then
  if kubectl --kubeconfig "$state/pki/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; then exit 0; fi
  echo "cluster: the kind cluster does not answer; it is recreated" >&2
  kind delete cluster --name "$name" >&2
fi

{
  printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n'
  for node in "${nodes[@]}"; do
    printf -- '- role: worker\n  extraMounts:\n  - {hostPath: %s, containerPath: /mnt/disks, propagation: HostToContainer}\n' "$state/$node/disks"
  done
} >"$state/kind.yaml"
for node in "${nodes[@]}"; do
  for disk in "${disks[@]}"; do
    mkdir -p "$state/$node/disks/$disk"
    if [[ $(id -u) == 0 && $(uname -s) == Linux ]] && ! mountpoint -q "$state/$node/disks/$disk"; then
      "$here/../disk" make "$state/$node/$disk.xfs" $disk_size
      "$here/../disk" mount "$state/$node/$disk.xfs" "$state/$node/disks/$disk"
    fi
  done
done
kind create cluster --name "$name" --config "$state/kind.yaml" --kubeconfig "$state/pki/admin.kubeconfig" --wait 3m >&2
