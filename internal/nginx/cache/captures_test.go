package cache_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// handedOver renders the configuration of a pod whose keys have moved between pods and between disks. No golden file
// covers this case.
func handedOver(t *testing.T, yaml string) string {
	t.Helper()
	in := decode(t, []byte(fastSharded(yaml)))
	in.Facts.Fleet.Previous = fleet.Of(2).Owners
	in.Facts.Fleet.Disks = fleet.Disks{Members: []fleet.Disk{{Name: "disk1", Weight: 10}}}
	config, err := cache.Render(in)
	must(t, err)
	return config.Text
}

// TestCaptures checks that no regular expression has an unnamed capture. CVE-2026-42533 and CVE-2026-60005 concern
// unnamed captures in maps, and unnamed captures together with slices and background updates. The test also checks that
// the name of each capture belongs to only one map, because nginx creates a variable with this name.
func TestCaptures(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for golden := range goldenFiles(t) {
		text, err := os.ReadFile(golden)
		must(t, err)
		texts[golden] = string(text)
	}
	texts["handed over"] = handedOver(t, "")
	texts["handed over, with slices and a memory tier"] = handedOver(t, "  cache: {slice: {size: 1Mi}}\n"+
		nginxtest.MemoryTier(""))
	for name, text := range texts {
		checkCaptures(t, name, text)
	}
}

var (
	// expression finds a regular expression in the places where nginx accepts one: as the key of a map, after the ~ of a
	// location or a server name, and in an if or a rewrite.
	expression = regexp.MustCompile(`^(?:(?:location|if \(\S+) !?~\*? ?|rewrite |"?~\*?|server_name .*~)(.*)`)
	unquote    = strings.NewReplacer(`\\`, `\`, `\"`, `"`)
	named      = regexp.MustCompile(`\(\?(?:P?<|')([a-z_0-9]+)[>']`)
	defined    = regexp.MustCompile(`(?m)^ *(?:map .* |set |split_clients .* )\$([a-z_0-9]+)(?: .*)?[;{]$`)
)

func checkCaptures(t *testing.T, name, text string) {
	t.Helper()
	var variables []string
	for _, m := range defined.FindAllStringSubmatch(text, -1) {
		variables = append(variables, m[1])
	}
	block, of, found := "", map[string]string{}, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, "{") {
			block = line
		}
		m := expression.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		found++
		if unnamed := unnamedCaptures(unquote.Replace(m[1])); unnamed > 0 || regexp.MustCompile(`\$[0-9]`).MatchString(line) {
			t.Errorf("%s: %d unnamed captures in %s", name, unnamed, line)
		}
		for _, capture := range named.FindAllStringSubmatch(m[1], -1) {
			if before, ok := of[capture[1]]; ok && before != block {
				t.Errorf("%s: the capture %s is of %s and of %s", name, capture[1], before, block)
			}
			if of[capture[1]] = block; slices.Contains(variables, capture[1]) {
				t.Errorf("%s: the capture %s is a variable, too", name, capture[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("%s: found %d regular expressions", name, found)
	}
}

// unnamedCaptures counts the unnamed captures of a regular expression.
func unnamedCaptures(expression string) (count int) {
	inClass := false
	for i := 0; i < len(expression); i++ {
		switch c := expression[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
			for i+1 < len(expression) && strings.ContainsRune("^]", rune(expression[i+1])) {
				i++
			}
		case c == '(' && !strings.HasPrefix(expression[i+1:], "?") && !strings.HasSuffix(expression[:i], "(?"):
			count++
		}
	}
	return count
}

func TestUnnamedCaptures(t *testing.T) {
	for expression, want := range map[string]int{
		"(a)": 1, "(?:a|(b))": 1, `\(a`: 0, "[(]": 0, "[^](]": 0, "(?<n>a)(?=b)": 0, "(?(DEFINE)(?<n>(a)))": 1, `\\(a)`: 1,
	} {
		if got := unnamedCaptures(expression); got != want {
			t.Errorf("%s: %d, want %d", expression, got, want)
		}
	}
}
