package cache_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// statement is a directive of nginx.conf. block is nil for a directive without a block.
type statement struct {
	words []string
	block []statement
}

// parse reads a configuration: words, quotes, comments and blocks. The renderer writes nothing else.
func parse(t *testing.T, text string) []statement {
	t.Helper()
	token := regexp.MustCompile(`\s+|#[^\n]*|"(?:[^"\\]|\\.)*"|[{};]|[^\s{};"]+`)
	tokens := token.FindAllString(text, -1)
	if strings.Join(tokens, "") != text {
		t.Fatal("the configuration has something that the test cannot read")
	}
	unquote := strings.NewReplacer(`\\`, `\`, `\"`, `"`)
	var read func() []statement
	read = func() []statement {
		block, words := []statement{}, []string(nil)
		for len(tokens) > 0 {
			word := tokens[0]
			tokens = tokens[1:]
			switch {
			case word == "}":
				return block
			case word == ";":
				block, words = append(block, statement{words: words}), nil
			case word == "{":
				block, words = append(block, statement{words, read()}), nil
			case word[0] == '"':
				words = append(words, unquote.Replace(word[1:len(word)-1]))
			case word[0] != '#' && strings.TrimSpace(word) != "":
				words = append(words, word)
			}
		}
		return block
	}
	return read()
}

var variableIn = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// decodes returns the variables that can hold a decoded part of a request: $uri, decoded arguments, variables that are
// made of these, and captures from them.
func decodes(block []statement) map[string]bool {
	decoded := map[string]bool{"uri": true, "document_uri": true}
	holds := func(text string) bool {
		return slices.ContainsFunc(variableIn.FindAllStringSubmatch(text, -1), func(m []string) bool {
			name := m[1] + m[2]
			return decoded[name] || strings.HasPrefix(name, "arg_")
		})
	}
	captures := regexp.MustCompile(`\$(\d|\{\d)`)
	var visit func(block []statement)
	visit = func(block []statement) {
		for _, s := range block {
			switch s.words[0] {
			case "set":
				if holds(s.words[2]) {
					decoded[s.words[1][1:]] = true
				}
			case "map":
				for _, row := range s.block {
					value := row.words[len(row.words)-1]
					named := regexp.MustCompile(`\?P?<(\w+)>`).FindAllStringSubmatch(row.words[0], -1)
					takes := captures.MatchString(value) || slices.ContainsFunc(named, func(m []string) bool {
						return strings.Contains(value, "$"+m[1])
					})
					if holds(value) || holds(s.words[1]) && takes {
						decoded[s.words[2][1:]] = true
					}
				}
			default:
				visit(s.block)
			}
		}
	}
	for before := 0; before < len(decoded); { // until a round finds nothing new
		before = len(decoded)
		visit(block)
	}
	return decoded
}

// decodedText returns the directives that write a decoded variable to a place where a line feed has a meaning.
func decodedText(block []statement) (found []string) {
	decoded := decodes(block)
	sinks := []string{
		"proxy_set_header", "proxy_pass", "proxy_method", "proxy_set_body", "add_header", "return", "rewrite", "log_format",
	}
	var visit func(block []statement)
	visit = func(block []statement) {
		for _, s := range block {
			isSink := slices.Contains(sinks, s.words[0]) &&
				(s.words[0] != "log_format" || slices.Contains(s.words, "escape=none"))
			for _, m := range variableIn.FindAllStringSubmatch(strings.Join(s.words[1:], " "), -1) {
				if name := m[1] + m[2]; isSink && (decoded[name] || strings.HasPrefix(name, "arg_")) {
					found = append(found, strings.Join(s.words, " "))
				}
			}
			visit(s.block)
		}
	}
	visit(block)
	return found
}

// TestDecodedText checks that no header, request line or response contains a decoded part of a request. Otherwise a
// client could end a header with a line feed, and begin another header. The test covers pods at rest and pods during a
// hand-over.
func TestDecodedText(t *testing.T) {
	t.Parallel()
	files := goldenFiles(t)
	inputs := map[string]string{}
	for golden, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		inputs[filepath.Base(golden)] = string(text)
	}
	for i, key := range []string{"[Host, URI, Args]", "[Method, Scheme, Host, URI, Args]", "[Host, RequestURI]"} {
		for j, more := range []string{"", ", query: {drop: [utm_source]}", ", slice: {size: 1Mi}"} {
			inputs[fmt.Sprintf("key %d, policy %d", i, j)] = sharded("  cache: {key: " + key + more + "}\n")
		}
	}
	for name, yaml := range inputs {
		in := decode(t, []byte(yaml))
		for when, f := range map[string]fleet.Fleet{"at rest": fleet.Of(1), "hand-over": handOver()} {
			in.Facts.Fleet = cache.Fleet{Fleet: f, Certificate: certificateHash}
			in.Facts.Generations = map[string]int64{in.Spec.Disks[0].Name: 2}
			config, err := cache.Render(in)
			must(t, err)
			if found := decodedText(parse(t, config.Text)); len(found) > 0 {
				t.Errorf("%s, %s: %q", name, when, found)
			}
		}
	}
}

// handOver returns a fleet in which keys move between pods and between disks.
func handOver() fleet.Fleet {
	f := aPodMore()
	f.Disks.Members = []fleet.Disk{{Name: "former", Weight: 1024}, {Name: "disk1", Weight: 1024}}
	return f
}

// TestFindsDecodedText checks that decodedText finds what TestDecodedText must not contain.
func TestFindsDecodedText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"a header":   {`proxy_set_header X-A $uri;`, []string{"proxy_set_header X-A $uri"}},
		"an address": {`server { proxy_pass "http://a${uri}"; }`, []string{"proxy_pass http://a${uri}"}},
		"an argument": {
			`location / { add_header X-A "x$arg_x"; return 200 ok; }`, []string{"add_header X-A x$arg_x"},
		},
		"a capture, through two maps": {
			`map "$host$uri" $a { "~(.*)" $1; } map $x $b { 1 $a; } return 302 $b;`, []string{"return 302 $b"},
		},
		"a named capture": {`map $uri $a { "~(?<rest>.*)" $rest; } return 302 $a;`, []string{"return 302 $a"}},
		"a set":           {`set $a $uri; proxy_method $a;`, []string{"proxy_method $a"}},
		"a choice by it":  {`map $uri $a { "~(.*)" 1; default ""; } add_header X-A $a;`, nil},
		"as it was sent":  {`proxy_set_header X-A "$request_uri$args$host$http_x";`, nil},
		"a key":           {`proxy_cache_key $uri;`, nil},
		"a log": {
			`log_format a escape=json $uri; log_format b escape=none $uri;`, []string{"log_format b escape=none $uri"},
		},
	} {
		if diff := cmp.Diff(tt.want, decodedText(parse(t, tt.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
