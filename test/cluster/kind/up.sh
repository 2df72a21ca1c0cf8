#!/usr/bin/env bash
# Starts the kind cluster: three workers in Docker, each with three XFS file systems as disks. Does nothing if it runs already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
say() { echo "cluster: $*" >&2; }
docker info >/dev/null 2>&1 || { say "kind needs Docker, and Docker does not answer; CLUSTER=native needs none"; exit 1; }
"$top/hack/setup"
mkdir -p "$state/bin" "$state/pki"
ln -sf "$("$top/hack/build-tool" kind)/kind" "$(clients)/kubectl" "$state/bin/"
if lacks_sys_resource && [[ ! -e $state/bin/docker ]]; then
  ln -s "$(command -v docker)" "$state/bin/docker.real"
  ln -s "$here/docker-without-sys-resource" "$state/bin/docker"
fi
export PATH=$state/bin:$PATH
clusters=$(kind get clusters 2>/dev/null)
if grep -qx "$name" <<<"$clusters"; then
  if kubectl --kubeconfig "$state/pki/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; then exit 0; fi
  say "the kind cluster does not answer; it is recreated"
  kind delete cluster --name "$name" >&2
fi

# The nodes' image, and whether the nodes can pull others: kind's own where a registry answers, built from the pinned sources
# otherwise.
rm -f "$state/without-registry"
image=${KIND_NODE_IMAGE:-$stock_image}
if ! timeout 60 docker manifest inspect "$stock_image" >/dev/null 2>&1; then
  say "no registry answers"
  touch "$state/without-registry"
fi
if ! docker image inspect "$image" >/dev/null 2>&1; then
  if [[ ! -e $state/without-registry ]]; then
    say "pulling $image ..."
    docker pull "$image" >&2
  elif [[ ${KIND_NODE_IMAGE-} ]]; then
    say "KIND_NODE_IMAGE=$image: Docker does not have it"
    exit 1
  else
    image=$("$here/node-image.sh")
  fi
fi

{
  printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n'
  for node in "${nodes[@]}"; do
    # The disks are mounted before the nodes start, so no mount has to propagate; it could not where / is not shared.
    printf -- '- role: worker\n  extraMounts:\n  - {hostPath: %s, containerPath: /mnt/disks}\n' "$state/$node/disks"
  done
} >"$state/kind.yaml"
for node in "${nodes[@]}"; do
  for disk in "${disks[@]}"; do
    mkdir -p "$state/$node/disks/$disk"
    if ! mountpoint -q "$state/$node/disks/$disk"; then
      "$here/../disk" make "$state/$node/$disk.xfs" $disk_size
      "$here/../disk" mount "$state/$node/$disk.xfs" "$state/$node/disks/$disk"
    fi
  done
done
kind create cluster --image "$image" --name "$name" --config "$state/kind.yaml" --kubeconfig "$state/pki/admin.kubeconfig" --wait 3m >&2
# kind waits for the control plane only.
kubectl --kubeconfig "$state/pki/admin.kubeconfig" wait --for=condition=Ready nodes --all --timeout=3m >&2
