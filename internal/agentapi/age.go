package agentapi

import (
	"fmt"
	"strings"
)

// Renderer is the number of this code in the reports of agents. An agent renders nginx's configuration with its own
// program, so a pod has what this number stands for only when it was replaced. The number only grows: raise it by one
// with each change of what an agent renders or does that pods from before lack, such as a mended fault. A change that
// only new fields of a spec bring about needs no other number.
const Renderer = 4

// ResolvingRenderer is the oldest number whose agents tell nginx the addresses of pods.
const ResolvingRenderer = 3

// SecureRenderer is the oldest number without a security hole that is known. Raise it to Renderer with the change that
// closes a hole in what an agent renders or does. Agents from before the number report 0. With 1, an origin can connect
// clients with the gateway (101). With 2, a name may lead to any address, such as the pod's own.
const SecureRenderer = 3

// MinNginx is the oldest version of nginx without a hole that the rendered configurations open: CVE-2026-42533 (map
// with regular expressions) and CVE-2026-60005 (captures beside slice or background updates). MinNginxMainline is that
// of the branch 1.31.
const (
	MinNginx         = "1.30.4"
	MinNginxMainline = "1.31.3"
)

// IsOldNginx reports whether a version of nginx is below MinNginx, or of the branch 1.31 and below MinNginxMainline. A
// version that is not three numbers is not known, and does not count as old.
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
	version, _, _ = strings.Cut(version, "-") // what a distribution adds
	_, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return v, err == nil
}
