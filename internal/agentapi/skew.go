package agentapi

import "k8s.io/apimachinery/pkg/util/version"

// MaxSkew is how many minor versions operator and agent may be apart: docs/reference/versions.md.
const MaxSkew = 1

// IsSkewed reports whether operator and agent are further apart than MaxSkew, either way. Versions are those of
// releases, such as 0.2.0 or v0.3.1-rc.1; one that is something else, such as a commit, is not known and does not count
// as skewed.
func IsSkewed(operator, agent string) bool {
	o, err := version.ParseSemantic(operator)
	if err != nil {
		return false
	}
	a, err := version.ParseSemantic(agent)
	if err != nil {
		return false
	}
	if o.Major() != a.Major() {
		return true
	}
	return max(o.Minor(), a.Minor())-min(o.Minor(), a.Minor()) > MaxSkew
}
