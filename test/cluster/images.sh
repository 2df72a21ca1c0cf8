#!/usr/bin/env bash
# Usage: images.sh NAME...: makes image archives without a daemon and prints their paths, one a line.
#   operator  the operator, from this tree           nginx    nginx 1.30 on Debian, under the stock image's name
#   origin    the origin server of tests and demo    client   the HTTP client of tests and demo
#   coredns   the native cluster's DNS
#   operator@COMMIT  the operator, from a commit of this clone's history, with the commit as the image's tag
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=${CACHENODE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cachenode}/images
ociimage=$("$top/hack/build-tool" ociimage)/ociimage
mkdir -p "$out"

# build FOLDER OUT WHAT PACKAGE...: static programs from the module in a folder. One build for all compiles each package once.
build() {
  mkdir -p "$2"
  (cd "$1" && CGO_ENABLED=0 GOGC=400 "$top/hack/timed" "build $3" "$top/hack/with-progress" "$3" "${*:4}" \
    go build -v -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags '-s -w' -o "$2/" "${@:4}")
}

compiled= # what images of this tree need
compile() {
  [[ ! $compiled ]] || return 0
  compiled=1
  build "$top" "$out/bin" "operator, agent and test programs" ./cmd/... ./test/origin ./test/client
}

sources= # the tree of a commit, while it is built
trap '[[ ! $sources ]] || rm -rf "$sources"' EXIT
compile_commit() { # COMMIT: its programs are built once
  local programs=$out/bin-$1
  [[ ! -e $programs ]] || return 0
  git -C "$top" cat-file -e "$1^{commit}" 2>/dev/null || {
    echo "images.sh: the commit $1 is missing: use a clone with all history (git fetch --unshallow)" >&2
    exit 1
  }
  sources=$(mktemp -d "$out/sources.XXXXXX")
  git -C "$top" archive "$1" | tar -x -C "$sources"
  build "$sources" "$sources/bin" "operator and agent of $1" ./cmd/...
  mv "$sources/bin" "$programs" # whole, for another call beside this one
  rm -r "$sources"
}

program() { # ARCHIVE REFERENCE FILE...: an image with programs, of which the first is the entry point
  local temporary file files=()
  temporary=$(mktemp "$out/$1.XXXXXX")
  for file in "${@:3}"; do files+=(-file "$file:/$(basename "$file")"); done
  "$ociimage" -name "$2" -entrypoint "/$(basename "$3")" "${files[@]}" -o "$temporary"
  mv "$temporary" "$out/$1.tar"
  echo "$out/$1.tar"
}

for name in "$@"; do
  case $name in
  operator)
    compile
    program manager localhost/cachenode-operator:test "$out/bin/manager" "$out/bin/agent" "$out/bin/purge-api"
    ;;
  operator@*)
    commit=${name#*@}
    compile_commit "$commit"
    programs=("$out/bin-$commit"/{manager,agent})
    [[ ! -e $out/bin-$commit/purge-api ]] || programs+=("$out/bin-$commit/purge-api") # the oldest have none
    program "manager-$commit" "localhost/cachenode-operator:$commit" "${programs[@]}"
    ;;
  origin | client)
    compile
    program "$name" "localhost/cachenode-$name:test" "$out/bin/$name"
    ;;
  coredns) program coredns localhost/coredns:test "$("$top/hack/build-tool" cluster)/coredns" ;;
  nginx)
    root=$("$top/hack/nginx-root")
    archive=$out/$(basename "$root")-$(cat "$here/native/nginx" "${BASH_SOURCE[0]}" | sha256sum | cut -c1-8).tar
    if [[ ! -e $archive ]]; then
      tar -C "$root" --sort=name --mtime=@0 --numeric-owner --one-file-system --exclude=./dev -cf "$out/nginx-root.tar" .
      # The first name is the default of operators before 0.2.0.
      "$ociimage" -name docker.io/library/nginx:1.30 -name docker.io/library/nginx:1.30.4 \
        -entrypoint /usr/sbin/nginx -arg -g -arg 'daemon off;' -user 0 \
        -root "$out/nginx-root.tar" -file "$here/native/nginx:/usr/local/sbin/nginx" -o "$out/nginx.partial"
      rm "$out/nginx-root.tar"
      mv "$out/nginx.partial" "$archive"
    fi
    echo "$archive"
    ;;
  *) echo "images.sh: $name: no such image" >&2 && exit 2 ;;
  esac
done
