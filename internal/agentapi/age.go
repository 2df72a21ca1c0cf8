package agentapi

import (
	"fmt"
	"strings"
)

// Renderer is the version number of the agent's code, which an agent includes in its reports. An agent renders nginx's
// configuration with its own program, so a pod gets a change of this code only when the pod is replaced. The number
// only grows. Raise it by one with each change of what an agent renders or does, such as a bug fix. Do so if existing
// pods lack the change until they are replaced. Do not raise it for a change that takes effect only with new fields of
// a spec.
const Renderer = 4

// ResolvingRenderer is the lowest Renderer of agents that give nginx the addresses of pods.
const ResolvingRenderer = 3

// SecureRenderer is the lowest Renderer without a known security hole. Set it to Renderer in the change that closes a
// security hole in what an agent renders or does. Agents that are older than the constant Renderer report 0. With
// Renderer 1, an origin can connect clients to the gateway by status 101. With Renderer 2, a name may resolve to any
// address, such as the address of the pod itself.
const SecureRenderer = 3

// MinNginx is the oldest version of nginx without the security holes that the rendered configurations expose. These
// are CVE-2026-42533 (map with regular expressions) and CVE-2026-60005 (captures beside slice or background updates).
// MinNginxMainline is the oldest such version of the branch 1.31.
const (
	MinNginx         = "1.30.4"
	MinNginxMainline = "1.31.3"
)

// IsOldNginx reports whether a version of nginx is below MinNginx or, in the branch 1.31, below MinNginxMainline. It
// returns false for a text that does not begin with the three numbers of a version.
func IsOldNginx(version string) bool {
	v, ok := numbers(version)
	if !ok {
		return false
	}
	floor, _ := numbers(MinNginx)
	mainline, _ := numbers(MinNginxMainline)
	if v[0] == mainline[0] && v[1] == mainline[1] {
		floor = mainline
	}
	for i := range v {
		if v[i] != floor[i] {
			return v[i] < floor[i]
		}
	}
	return false
}

// numbers returns the three numbers at the beginning of a version.
func numbers(version string) (v [3]int, ok bool) {
	version, _, _ = strings.Cut(version, "-") // without the suffix of a distribution
	_, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return v, err == nil
}
