package agentapi

import "testing"

func TestIsSkewed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		operator, agent string
		want            bool
	}{
		"the same":                     {"0.3.0", "0.3.0", false},
		"another patch":                {"0.3.9", "0.3.0", false},
		"the agent is one behind":      {"0.3.0", "0.2.7", false},
		"the agent is one ahead":       {"0.2.7", "0.3.0", false},
		"the agent is two behind":      {"0.4.0", "0.2.9", true},
		"the agent is two ahead":       {"0.2.9", "0.4.0", true},
		"a release candidate":          {"v0.4.0-rc.1", "0.2.0", true},
		"a commit after a tag":         {"v0.4.0-12-g7a62e0913a5b", "0.3.0", false},
		"another major version":        {"1.0.0", "0.9.0", true},
		"the operator's is not known":  {"unknown", "0.2.0", false},
		"the agent's is a commit":      {"0.4.0", "7a62e09", false},
		"the agent reports no version": {"0.4.0", "", false},
		"the agent reports nonsense":   {"0.4.0", "0.-1.0", false},
		"the agent's number is huge":   {"0.4.0", "0.99999999999999999999.0", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsSkewed(tt.operator, tt.agent); got != tt.want {
				t.Errorf("IsSkewed(%q, %q) is %t, want %t", tt.operator, tt.agent, got, tt.want)
			}
		})
	}
}
