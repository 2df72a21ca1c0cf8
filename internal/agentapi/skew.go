package agentapi

import "k8s.io/apimachinery/pkg/util/version"

// MaxSkew is the number of minor versions by which operator and agent may differ: see docs/reference/versions.md.
const MaxSkew = 1

// IsSkewed reports whether the versions of operator and agent differ by more than MaxSkew, whichever of them is
// newer. The versions are those of releases, such as 0.2.0 or v0.3.1-rc.1. IsSkewed returns false if a version has
// another form, such as a commit.
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
