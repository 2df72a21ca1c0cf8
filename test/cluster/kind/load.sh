#!/usr/bin/env bash
# Usage: load.sh ARCHIVE...: loads image archives into every node of the kind cluster.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
for archive in "$@"; do
  "$state/bin/kind" load image-archive "$archive" --name "$name" >&2
done
