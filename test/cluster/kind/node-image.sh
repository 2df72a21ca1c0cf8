#!/usr/bin/env bash
# Usage: node-image.sh: makes kind's node image without a registry, of Debian packages and of the sources that hack/pins pins,
# and prints its name. It does what images/base/Dockerfile of kind and "kind build node-image" do. On Linux, as root, once for
# each version: five minutes on two processors.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
tool() { "$top/hack/build-tool" "$1"; }
module() { (cd "$top/hack/pins/$1" && go list -m -f "{{.$3}}" "$2"); }

version=$(module cluster k8s.io/kubernetes Version)
[[ $(module kind-node k8s.io/kubernetes Version) == "$version" ]] || {
  echo "node-image.sh: hack/pins/kind-node has another version of Kubernetes than hack/pins/cluster, $version" >&2
  exit 1
}
key=$(cat "$here/node-image.sh" "$here/pod-network.yaml" "$top"/hack/pins/{cluster,kind,kind-node,runc,cni}/go.sum "$top/hack/pins/kind-node/coredns/main.go" "$top/hack/debian-root" "$top"/test/cluster/pause/*.go | sha256sum | cut -c1-12)
image=localhost/cachenode-kind-node:$version-$key
if docker image inspect "$image" >/dev/null 2>&1; then
  echo "$image"
  exit
fi
[[ $(uname -s) == Linux && $(id -u) == 0 ]] || { echo "node-image.sh: without a registry kind's node image is built on Linux, as root" >&2; exit 1; }

work=$(mktemp -d)
importer=
trap '[[ ! $importer ]] || kill $importer 2>/dev/null; rm -rf "$work"' EXIT
root=$work/node
cluster=$(tool cluster)
(cd "$top/hack/pins/kind" && go mod download sigs.k8s.io/kind)
kind=$(module kind sigs.k8s.io/kind Dir)

# base is images/base/Dockerfile: Debian with systemd, kind's own files, containerd, runc and CNI plugins. Debian 12 has the
# last systemd that boots on version 1 of cgroups unasked.
base() {
  local debian file
  debian=$("$top/hack/debian-root" kind-node bookworm "systemd,dbus,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,\
kmod,libseccomp2,pigz,socat,e2fsprogs,xfsprogs,bash,ca-certificates,curl,jq,procps,hostname,ipset,ebtables,iputils-ping")
  cp -a "$debian" "$root"
  rm "$root/.complete"
  cp -r "$kind"/images/base/files/{etc,kind,usr} "$root/"
  chmod -R u+w "$root/kind" "$root/etc" "$root/usr/local" # files of a Go module are read-only, and not executable
  chmod 755 "$root"/usr/local/bin/* "$root"/kind{,/bin,/bin/*}
  chmod 644 "$root"/etc/containerd/config.toml "$root"/etc/systemd/system/*.service "$root"/etc/systemd/system/kubelet.service.d/*
  find "$root/lib/systemd/system/sysinit.target.wants/" -name systemd-tmpfiles-setup.service -delete
  rm -f "$root"/{lib,etc}/systemd/system/multi-user.target.wants/* "$root"/etc/systemd/system/*.wants/* \
    "$root"/lib/systemd/system/{local-fs,basic}.target.wants/* "$root"/lib/systemd/system/sockets.target.wants/*{udev,initctl}*
  echo ReadKMsg=no >>"$root/etc/systemd/journald.conf"
  ln -sf /usr/lib/systemd/systemd "$root/sbin/init"
  chroot "$root" systemctl --quiet enable kubelet.service containerd.service undo-mount-hacks.service
  chroot "$root" systemctl --quiet mask systemd-binfmt.service
  mkdir -p "$root"/etc/kubernetes/manifests "$root"/opt/cni/bin "$root"/kind/manifests
  cp "$cluster"/{containerd,ctr,containerd-shim-runc-v2} "$(tool kind-node)/crictl" "$root/usr/local/bin/"
  cp "$(tool runc)/runc" "$root/usr/local/sbin/"
  cp "$(tool cni)"/{bridge,host-local,loopback,portmap} "$root/opt/cni/bin/"
  chroot "$root" ctr oci spec |
    jq '.hooks.createContainer |= . + [{path: "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' >"$root/etc/containerd/cri-base.json"
  # Kubelets since 1.35 refuse version 1 of cgroups by default.
  sed -i 's/^KUBELET_EXTRA_ARGS=.*/& --fail-cgroupv1=false/' "$root/etc/default/kubelet"
  # What docker-without-sys-resource leaves out: Docker mounts cgroups read-only then, and nothing may lower an OOM score.
  file=$root/usr/local/bin/entrypoint
  grep -q '^# run pre-init fixups$' "$file"
  # shellcheck disable=SC2016 # it is expanded in the node
  sed -i '/^# run pre-init fixups$/i for m in /sys/fs/cgroup $(findmnt -rno TARGET -t cgroup,cgroup2); do ! findmnt -rno OPTIONS "$m" | grep -qw ro || mount -o remount,bind,rw "$m"; done' "$file"
  sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$root/etc/containerd/config.toml"
}

# kubernetes is the first half of "kind build node-image". kind's pod network is no Go module: pod-network.yaml is ours.
kubernetes() {
  cp "$cluster"/{kubelet,kubectl} "$(tool kind-node)/kubeadm" "$root/usr/bin/"
  echo -n "$version" >"$root/kind/version"
  cp "$here/pod-network.yaml" "$root/kind/manifests/default-cni.yaml"
  cat >"$root/kind/manifests/default-storage.yaml" <<'S'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
S
}

program() { # NAME FILE PROGRAM [OPTION...]: an image of the control plane
  "$(tool ociimage)/ociimage" -name "$1" -user 0 -entrypoint "/usr/local/bin/$3" -file "$2:/usr/local/bin/$3" "${@:4}" -o "$work/images/$3.tar"
}

# images are those that kubeadm asks for.
images() {
  local name wanted
  mkdir -p "$work/images"
  wanted=$(chroot "$root" kubeadm config images list --kubernetes-version "$version")
  for name in kube-apiserver kube-controller-manager kube-scheduler; do
    program "registry.k8s.io/$name:$version" "$cluster/$name" "$name"
  done
  program "$(grep etcd <<<"$wanted")" "$cluster/server" etcd
  "$(tool ociimage)/ociimage" -name "$(grep coredns <<<"$wanted")" -user 0 -entrypoint /coredns -file "$(tool kind-node)/coredns:/coredns" -o "$work/images/coredns.tar"
  CGO_ENABLED=0 GOWORK=off go build -C "$top" -trimpath -ldflags '-s -w' -o "$work/pause" ./test/cluster/pause
  "$(tool ociimage)/ociimage" -name registry.k8s.io/pause:3.10 -entrypoint /pause -file "$work/pause:/pause" -o "$work/images/pause.tar"
  proxy_root
  program "registry.k8s.io/kube-proxy:$version" "$cluster/kube-proxy" kube-proxy -root "$work/proxy.tar"
}

# proxy_root is what kube-proxy runs: iptables and nft with their libraries, out of the node's root. Without those of all
# modules of iptables its rules fail, and the node stays NotReady.
proxy_root() {
  local proxy=$work/proxy name lib libs
  libs=$(dirname "$(find "$root/usr/lib" -type d -name xtables)")
  libs=${libs#"$root"}
  mkdir -p "$proxy"/{usr/{sbin,bin,lib64,local/bin},etc,tmp,run,var,proc,sys,dev} "$proxy$libs"
  for name in bin sbin lib lib64; do ln -s usr/$name "$proxy/$name"; done
  cp "$root"/usr/sbin/{xtables-nft-multi,nft,conntrack} "$proxy/usr/sbin/"
  cp "$root"/bin/{kmod,bash} "$proxy/usr/bin/"
  ln -s bash "$proxy/usr/bin/sh"
  for name in {ip,ip6}tables{,-save,-restore}; do ln -s xtables-nft-multi "$proxy/usr/sbin/$name"; done
  cp -a "$root$libs/xtables" "$proxy$libs/"
  for name in "$root$libs"/xtables/*.so /usr/sbin/{xtables-nft-multi,nft,conntrack} /bin/{kmod,bash}; do
    chroot "$root" ldd "${name#"$root"}" || true
  done | grep -o '/[^ ]*' | sort -u | while read -r lib; do
    if [[ -e $root$lib ]]; then cp -L "$root$lib" "$proxy$lib"; fi
  done
  tar -C "$proxy" --sort=name --mtime=@0 --numeric-owner -cf "$work/proxy.tar" .
}

# load puts the images into the containerd of the node image, by a containerd whose root is there.
load() {
  local archive ctr=("$cluster/ctr" -a "$work/import.sock" -n k8s.io)
  cat >"$work/import.toml" <<T
version = 3
root = "$root/var/lib/containerd"
state = "$work/import-state"
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"]
[grpc]
  address = "$work/import.sock"
[ttrpc]
  address = "$work/import.sock.ttrpc"
T
  "$cluster/containerd" -c "$work/import.toml" -l warn >"$work/import.log" 2>&1 &
  importer=$!
  until "${ctr[@]}" version >/dev/null 2>&1; do
    kill -0 $importer || { cat "$work/import.log" >&2; exit 1; }
    sleep 0.2
  done
  for archive in "$work"/images/*.tar; do
    "${ctr[@]}" images import --all-platforms --no-unpack --digests "$archive" >/dev/null
  done
  kill $importer
  wait $importer || true
  importer=
}

echo "building kind's node image $image (once) ..." >&2
base
kubernetes
images
load
# docker import takes no stop signal, so a build of one layer adds what the image says of itself.
tar -C "$root" --numeric-owner --one-file-system --exclude='./dev/*' -c . | docker import - "$image-root" >/dev/null
docker build -q -t "$image" - >/dev/null <<D
FROM $image-root
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
D
docker rmi "$image-root" >/dev/null
echo "$image"
