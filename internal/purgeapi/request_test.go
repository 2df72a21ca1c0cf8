package purgeapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

// body returns the body of a request with a namespace, a CacheNode and the given fields.
func body(more string) string { return `{"namespace":"shop","cacheNode":"edge",` + more + `}` }

func TestParse(t *testing.T) {
	t.Parallel()
	usual := Request{Namespace: "shop", CacheNode: "edge", Mode: "Hard", Wait: WaitApplied, TimeoutSeconds: 10}
	for name, tt := range map[string]struct {
		body string
		want func(*Request)
	}{
		"each list": {
			body(`"urls":["http://a/"],"prefixes":["http://a/b"],"hosts":["a"],"tags":["t"]`),
			func(r *Request) {
				r.Target = purge.Target{
					URLs: []string{"http://a/"}, Prefixes: []string{"http://a/b"}, Hosts: []string{"a"}, Tags: []string{"t"},
				}
			},
		},
		"everything": {body(`"everything":true`), func(r *Request) { r.Everything = true }},
		"how": {
			body(`"tags":["t"],"mode":"Soft","wait":"settled","timeoutSeconds":60`),
			func(r *Request) {
				r.Tags, r.Mode, r.Wait, r.TimeoutSeconds = []string{"t"}, "Soft", WaitSettled, 60
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := usual
			tt.want(&want)
			got, err := Parse([]byte(tt.body))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// TestMistakes checks that Parse finds each mistake. The error must name the field.
func TestMistakes(t *testing.T) {
	t.Parallel()
	host := strings.Repeat("h", 250)
	large := body(`"tags":[` + items(1000, strings.Repeat("t", 256)) + `],"hosts":[` + items(40, host) + `]`)
	const tooLarge = "names more than 262144 bytes of URLs, prefixes, hosts and tags: send several requests"
	const notJSON = "the body must be one JSON object: "
	for text, want := range map[string]string{
		`{"cacheNode":"edge","tags":["t"]}`:       `namespace: "": must be the name of a namespace`,
		`{"namespace":"a/b","cacheNode":"edge"}`:  `namespace: "a/b": must be the name of a namespace`,
		`{"namespace":"shop","tags":["t"]}`:       `cacheNode: "": must be the name of a CacheNode`,
		`{"namespace":"shop","cacheNode":"Edge"}`: `cacheNode: "Edge": must be the name of a CacheNode`,
		body(`"wait":"applied"`):                  "names nothing: set urls, prefixes, hosts, tags or everything",
		body(`"tags":["t"],"everything":true`):    "everything: goes alone: remove urls, prefixes, hosts and tags",
		body(`"tags":["a\u0001"]`): "tags: \"a\\x01\": must have 1 to 256 bytes, " +
			"and no space, comma or control character",
		body(`"urls":["a"]`):                               `urls: "a": must begin with http:// or https://`,
		body(`"tags":["t"],"mode":"soft"`):                 `mode: "soft": must be Hard or Soft`,
		body(`"tags":["t"],"wait":"forever"`):              `wait: "forever": must be applied, settled or none`,
		body(`"tags":["t"],"timeoutSeconds":61`):           "timeoutSeconds: must be from 1 to 60",
		body(`"tags":["t"],"timeoutSeconds":-1`):           "timeoutSeconds: must be from 1 to 60",
		body(`"tag":["t"]`):                                `unknown field "tag"`,
		body(`"TAGS":["t"]`):                               `unknown field "TAGS"`,
		body(`"tags":["t"],"tags":["u"]`):                  `duplicate field "tags"`,
		body(`"hosts":["a","b",` + items(1000, "c") + `]`): "hosts: must have at most 1000 items, has 1002",
		large:                            tooLarge,
		body(`"prefixes":["http://a/"]`): `prefixes: "http://a/": is a whole host: name it in hosts`,
		"":                               notJSON + "unexpected end of JSON input",
		body(`"tags":"t"`):               notJSON + "cannot unmarshal string into field tags",
		body(`"urls":[1]`):               notJSON + "cannot unmarshal number into field urls",
		tagged("t", "") + "{}":           notJSON + "invalid character '{' after top-level value",
	} {
		if _, err := Parse([]byte(text)); fmt.Sprint(err) != want {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
}

// items returns a JSON list of n texts, without its brackets.
func items(n int, text string) string {
	return strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%q,", text), n), ",")
}

// FuzzParse checks that each request that Parse accepts has a valid form. If the request is encoded and parsed again,
// it must stay the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(body(`"tags":["t"]`)))
	f.Add([]byte(body(`"urls":["http://a/?b=%20"],"hosts":["a"],"mode":"Soft","wait":"none","timeoutSeconds":1`)))
	f.Add([]byte(body(`"everything":true`)))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		if err := r.CheckForm(); err != nil || r.cost() < 1 || r.timeout() > MaxTimeout {
			t.Fatalf("%+v was taken: %v", r, err)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Parse(again); err != nil || !cmp.Equal(r, same) {
			t.Fatalf("error %v (-sent +parsed)\n%s", err, cmp.Diff(r, same))
		}
	})
}
