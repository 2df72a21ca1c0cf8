#!/usr/bin/env bash
# Starts a registry in the cluster's network, from which the nodes take images under any registry's name, as from a mirror.
# Does nothing where it runs already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
# shellcheck source=env.sh
. "$here/env.sh"
crane=$("$top/hack/build-tool" crane)/crane
answers() { inside curl -sf -o /dev/null http://127.0.0.1:5000/v2/; }

answers && exit 0
mkdir -p "$state/registry" "$state/registries/_default"
cat >"$state/registries/_default/hosts.toml" <<T
server = "http://$bridge_ip:5000"
[host."http://$bridge_ip:5000"]
  capabilities = ["pull", "resolve"]
T
inside setsid "$crane" registry serve --address 0.0.0.0:5000 --disk "$state/registry" </dev/null >>"$state/logs/registry.log" 2>&1 &
for _ in $(seq 100); do
  answers && exit 0
  sleep 0.1
done
echo "cluster: the registry does not answer: see $state/logs/registry.log" >&2
exit 1
