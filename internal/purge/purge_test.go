package purge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// policy returns a cache policy whose key consists of the given parts.
func policy(parts ...v1alpha1.KeyPart) v1alpha1.Cache { return v1alpha1.Cache{Key: parts} }

var usual = policy(v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyRequestURI)

func TestPatterns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target purge.Target
		policy v1alpha1.Cache
		want   purge.Patterns
	}{
		"a URL stands for both schemes": {
			purge.Target{URLs: []string{"https://WWW.example.com:8443/A?b=c"}},
			usual,
			purge.Patterns{Keys: []string{"http://www.example.com/A?b=c", "https://www.example.com/A?b=c"}},
		},
		"a host with its root": {
			purge.Target{URLs: []string{"http://www.example.com.:80/A"}, Prefixes: []string{"http://a./b"}},
			policy(v1alpha1.KeyHost, v1alpha1.KeyRequestURI),
			purge.Patterns{Keys: []string{"www.example.com/A"}, Prefixes: []string{"a/b"}},
		},
		"and for all methods": {
			purge.Target{URLs: []string{"http://a"}},
			v1alpha1.Cache{
				Methods: []v1alpha1.CacheMethod{"POST"}, Key: []v1alpha1.KeyPart{v1alpha1.KeyMethod, v1alpha1.KeyRequestURI},
			},
			purge.Patterns{Keys: []string{"GET /", "HEAD /", "POST /"}},
		},
		"a query string without a path": {
			purge.Target{URLs: []string{"http://a?b"}},
			policy(v1alpha1.KeyHost, v1alpha1.KeyRequestURI),
			purge.Patterns{Keys: []string{"a/?b"}},
		},
		"the decoded path": {
			purge.Target{URLs: []string{"http://a/%41/../b?c"}, Prefixes: []string{"http://a/%41/"}},
			policy(v1alpha1.KeyURI, v1alpha1.KeyArgs),
			purge.Patterns{Keys: []string{"/b?c"}, Prefixes: []string{"/A/"}},
		},
		"a prefix": {
			purge.Target{Prefixes: []string{"http://a/b"}},
			usual,
			purge.Patterns{Prefixes: []string{"http://a/b", "https://a/b"}},
		},
		"a host": {
			purge.Target{Hosts: []string{"a"}},
			policy(v1alpha1.KeyHost, v1alpha1.KeyRequestURI),
			purge.Patterns{Prefixes: []string{"a/"}},
		},
		"hosts with an underscore and with a dot at the end": {
			purge.Target{Hosts: []string{"my_shop.example.com", "B."}},
			policy(v1alpha1.KeyHost, v1alpha1.KeyRequestURI),
			purge.Patterns{Prefixes: []string{"my_shop.example.com/", "b/"}},
		},
		"everything": {purge.Target{Everything: true}, usual, purge.Patterns{Prefixes: []string{""}}},
		"tags":       {purge.Target{Tags: []string{"a", "b"}}, usual, purge.Patterns{Tags: []string{"a", "b"}}},
	} {
		got, err := test.target.Patterns(test.policy)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, target := range map[string]purge.Target{
		"names nothing: set urls, prefixes, hosts, tags or everything":            {},
		`urls: "a/b": must begin with http:// or https://`:                        {URLs: []string{"a/b"}},
		`urls: "ftp://a/b": must begin with http:// or https://`:                  {URLs: []string{"ftp://a/b"}},
		`urls: "http://a/#b": must have no fragment: clients do not send it`:      {URLs: []string{"http://a/#b"}},
		`urls: "http://a/ b": must be percent-encoded, as clients send it`:        {URLs: []string{"http://a/ b"}},
		`urls: "http:///b": must have a host, and no user`:                        {URLs: []string{"http:///b"}},
		`urls: "http://u@a/b": must have a host, and no user`:                     {URLs: []string{"http://u@a/b"}},
		`prefixes: "http://a/": is a whole host: name it in hosts`:                {Prefixes: []string{"http://a/"}},
		`prefixes: "http://a//": is a whole host: name it in hosts`:               {Prefixes: []string{"http://a//"}},
		`prefixes: "http://a/%2e": is a whole host: name it in hosts`:             {Prefixes: []string{"http://a/%2e"}},
		`prefixes: "http://a/x/..": is a whole host: name it in hosts`:            {Prefixes: []string{"http://a/x/.."}},
		`hosts: "a/b": must be the name of a host, without scheme, port and path`: {Hosts: []string{"a/b"}},
		`hosts: "*.a": must be the name of a host, without scheme, port and path`: {Hosts: []string{"*.a"}},
		"urls: must have at most 1000 items, has 1001":                            {URLs: make([]string, 1001)},
		`tags: "a b": must have 1 to 256 bytes, and no space, comma or control character`: {
			Tags: []string{"a b"},
		},
		`prefixes: "http://a/b?c": must end in the path: every query string of the paths is purged`: {
			Prefixes: []string{"http://a/b?c"},
		},
	} {
		if err := target.Check(usual); fmt.Sprint(err) != want {
			t.Errorf("%+.40v: %v, want %s", target, err, want)
		}
	}
	err := purge.Target{Hosts: []string{"a"}}.Check(policy(v1alpha1.KeyRequestURI))
	if err == nil || !strings.Contains(err.Error(), "purge everything instead") {
		t.Errorf("a host where the key has none: %v", err)
	}
}

// FuzzPatterns checks that a purge of a URL contains the key under which nginx stores the object, for all URLs that are
// accepted.
func FuzzPatterns(f *testing.F) {
	f.Add("http://www.example.com/a%20b?c=d&e")
	f.Add("https://[::1]:80?x")
	f.Fuzz(func(t *testing.T, text string) {
		target := purge.Target{URLs: []string{text}}
		if target.Check(usual) != nil {
			return
		}
		p, err := target.Patterns(usual)
		if err != nil || len(p.Keys) != 2 {
			t.Fatalf("%q: %v %q", text, err, p.Keys)
		}
		scheme, rest, _ := strings.Cut(text, "://")
		uri := "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			rest, uri = rest[:i], "/"+strings.TrimPrefix(rest[i:], "/")
		}
		host := rest
		if i := strings.LastIndex(rest, ":"); i >= 0 && !strings.HasSuffix(rest, "]") {
			host = rest[:i]
		}
		request := cachekey.Request{Method: "GET", Scheme: strings.ToLower(scheme), Host: host, URI: uri}
		want := cachekey.Of(usual, request).Object()
		if !slices.Contains(p.Keys, want) {
			t.Errorf("%q: %q is not in %q", text, want, p.Keys)
		}
	})
}

func TestTable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	table := purge.NewTable()
	add := func(r purge.Rule) {
		p, err := r.Patterns(usual)
		if err != nil {
			t.Fatal(err)
		}
		table.Add(r, p)
	}
	add(purge.Rule{Number: 1, Until: now, Target: purge.Target{URLs: []string{"http://a/ended"}}})
	add(purge.Rule{Number: 2, Target: purge.Target{URLs: []string{"http://a/open"}, Tags: []string{"t"}}})
	add(purge.Rule{Number: 3, Soft: true, Target: purge.Target{Prefixes: []string{"http://a/o"}}})
	add(purge.Rule{Number: 4, Until: now.Add(-time.Hour), Target: purge.Target{URLs: []string{"http://a/ended"}}})
	hour := time.Hour
	for _, test := range []struct {
		key      string
		tags     []string
		received time.Time
		want     purge.Verdict
	}{
		{"http://a/ended", nil, now.Add(-hour / 2), purge.Verdict{Effect: purge.Remove, Number: 1}},
		{"http://a/ended", nil, now.Add(hour), purge.Verdict{}},
		{"https://a/open", nil, now.Add(hour), purge.Verdict{Effect: purge.Remove, Number: 2}},
		{"http://a/other", nil, now, purge.Verdict{Effect: purge.Expire, Number: 3}},
		{"http://a/other", []string{"s", "t"}, now, purge.Verdict{Effect: purge.Remove, Number: 2}},
		{"http://b/other", []string{"s"}, now, purge.Verdict{}},
	} {
		if got := table.Match(test.key, test.tags, test.received); got != test.want {
			t.Errorf("%s %v at %s: %+v, want %+v", test.key, test.tags, test.received, got, test.want)
		}
	}
}

// TestTableAgrees adds and removes rules without an end. It compares the result of Match with a search through all
// rules one by one. If several rules have the same target, the last one must be returned.
func TestTableAgrees(t *testing.T) {
	t.Parallel()
	table, rules := purge.NewTable(), map[int64]purge.Patterns{}
	word := func() string { return strings.Repeat("a", rand.IntN(3)) + strings.Repeat("b", rand.IntN(3)) }
	for n := range int64(20_000) {
		if number := rand.Int64N(n + 1); n%2 == 0 {
			p := [...]purge.Patterns{
				{Prefixes: []string{word(), word()}}, {Keys: []string{word()}}, {Tags: []string{word()}},
			}[rand.IntN(3)]
			rules[n] = p
			table.Add(purge.Rule{Number: n}, p)
		} else if p, ok := rules[number]; ok {
			delete(rules, number)
			table.Remove(purge.Rule{Number: number}, p)
		}
		if len(rules) > 10 {
			for number, p := range rules {
				delete(rules, number)
				table.Remove(purge.Rule{Number: number}, p)
				break
			}
		}
		key, tag, want := word(), word(), false
		for _, p := range rules {
			begins := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
			want = want || slices.Contains(p.Keys, key) || slices.Contains(p.Tags, tag) ||
				slices.ContainsFunc(p.Prefixes, begins)
		}
		if got := table.Match(key, []string{tag}, time.Unix(1_800_000_000, 0)); (got.Effect == purge.Remove) != want {
			t.Fatalf("step %d: %q with the tag %q: %+v, want %t by %+v", n, key, tag, got, want, rules)
		}
	}
	twice := purge.Patterns{Tags: []string{"twice"}}
	table.Add(purge.Rule{Number: 30_000}, twice)
	table.Add(purge.Rule{Number: 30_001}, twice)
	if got := table.Match("c", []string{"twice"}, time.Unix(1_800_000_000, 0)); got.Number != 30_001 {
		t.Errorf("of two rules, %d counts", got.Number)
	}
}

// TestJournal checks a reader that repeatedly merges the changes since its own place. In the end, it must have the same
// journal as the writer, however many changes it merges at once. It also checks that each place is larger than the one
// before.
func TestJournal(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var writer, reader purge.Journal
	for i := range 200 {
		before := writer.Head
		now = now.Add(time.Duration(i%3) * time.Millisecond) // some changes are made in the same millisecond
		r := writer.Add(now, purge.Rule{UID: fmt.Sprint(i), Target: purge.Target{Everything: true}})
		if writer.Head <= before || r.Number != writer.Head || r.Number < now.UnixMilli() {
			t.Fatalf("place %d after %d", r.Number, before)
		}
		if i%2 == 0 {
			writer.Seal(now, writer.Rules[i/2].Number, now)
			writer.Seal(now, writer.Rules[i/2].Number, now.Add(time.Hour)) // no effect: the rule has an end
		}
		if i%5 == 0 {
			reader.Merge(writer.Floor, writer.Head, writer.Since(reader.Head))
		}
	}
	reader.Merge(writer.Floor, writer.Head, writer.Since(reader.Head))
	if diff := cmp.Diff(writer, reader); diff != "" {
		t.Error(diff)
	}
	text, err := writer.Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := purge.Decode(text)
	if err != nil || decoded.Head != writer.Head || len(decoded.Rules) != len(writer.Rules) {
		t.Errorf("decoded %d rules to %d (%v)", len(decoded.Rules), decoded.Head, err)
	}
	for _, damaged := range [][]byte{nil, text[:len(text)/2], []byte("x")} {
		if _, err := purge.Decode(damaged); err == nil {
			t.Errorf("%.10q was decoded", damaged)
		}
	}
}

// TestCompact checks that a journal removes old rules, and further rules if it is too large. It must never remove rules
// without an end. Its floor must not be lower than the place of any removed rule.
func TestCompact(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	make := func(open int) (j purge.Journal) {
		for i := range 100 {
			j.Add(now.Add(time.Duration(i)*time.Second), purge.Rule{Target: purge.Target{Everything: true}})
		}
		for i, r := range slices.Clone(j.Rules) {
			if i != open {
				j.Seal(now.Add(time.Hour), r.Number, now.Add(time.Duration(i)*time.Second))
			}
		}
		return j
	}
	const all = int64(1) << 60
	for name, test := range map[string]struct {
		open    int
		before  time.Time
		most    int
		applied int64
		want    int // the number of rules that stay
	}{
		"nothing":                            {-1, now, 1 << 20, all, 100},
		"old ones":                           {-1, now.Add(10 * time.Second), 1 << 20, all, 90},
		"too many":                           {-1, now, 4 * 1024, all, 24},
		"all":                                {-1, now.Add(time.Hour), 1 << 20, all, 0},
		"nothing that pods have not applied": {-1, now.Add(time.Hour), 1, 0, 100},
		"one without end":                    {0, now.Add(time.Hour), 1, all, 100},
		"the last one too":                   {99, now.Add(time.Hour), 1, all, 100}, // all rules were sealed after it
	} {
		j := make(test.open)
		before := j
		j.Compact(test.before, test.most, test.applied)
		if len(j.Rules) != test.want {
			t.Errorf("%s: %d rules stay, want %d", name, len(j.Rules), test.want)
		}
		for _, r := range before.Rules {
			stays := slices.ContainsFunc(j.Rules, func(o purge.Rule) bool { return o.Number == r.Number })
			if stays == (r.Changed <= j.Floor) {
				t.Errorf("%s: the floor is %d, and rule %d, changed at %d, stays: %t", name, j.Floor, r.Number, r.Changed, stays)
			}
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	done := func(applied int64, reason string) purge.Done {
		return purge.Done{Applied: applied, Stores: []purge.StoreDone{{
			Name: "disk1", Reason: reason, Counts: map[int64]purge.Count{5: {Files: 2, Bytes: 10}},
		}}}
	}
	two := func(a, b int64) []purge.Pod {
		return []purge.Pod{{Name: "a", Done: done(a, "")}, {Name: "b", Done: done(b, "")}}
	}
	open := purge.Rule{Number: 5, Changed: 5}
	ended := purge.Rule{Number: 5, Changed: 8, Until: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		rule    purge.Rule
		pods    []purge.Pod
		phase   v1alpha1.PurgePhase
		message string
	}{
		"no pods":       {open, nil, v1alpha1.PurgeApplied, ""},
		"applied":       {open, two(5, 6), v1alpha1.PurgeApplied, ""},
		"not yet ended": {ended, two(8, 7), v1alpha1.PurgeApplied, ""},
		"settled":       {ended, two(8, 9), v1alpha1.PurgeSettled, ""},
		"a pod is behind": {
			open,
			[]purge.Pod{{Name: "a", Done: done(5, "")}, {Name: "b", Done: done(4, "the index is read")}},
			v1alpha1.PurgePending, "waits for b: disk1: the index is read",
		},
		"a pod is silent": {
			open,
			[]purge.Pod{{Name: "a", Done: done(5, "")}, {Name: "b", Problem: "no answer"}},
			v1alpha1.PurgePending,
			"waits for b: no answer",
		},
	} {
		s := purge.Progress(test.rule, test.pods, v1alpha1.CachePurgeStatus{})
		if s.Phase != test.phase || s.Message != test.message || len(s.Pods) != len(test.pods) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestProgressOfDisks(t *testing.T) {
	t.Parallel()
	at := func(second int64) *metav1.MicroTime { return new(metav1.NewMicroTime(time.Unix(second, 0))) }
	counts := map[int64]purge.Count{5: {Files: 2, Bytes: 10}}
	rule := purge.Rule{Number: 5, Changed: 5}
	pods := []purge.Pod{
		{Name: "a", Answered: time.Unix(30, 0), Done: purge.Done{Applied: 6, Stores: []purge.StoreDone{
			{Name: "disk1", Applied: 6, Counts: counts}, {Name: "disk2", Applied: 6},
		}}},
		{Name: "b", Answered: time.Unix(20, 0), Done: purge.Done{Applied: 5}},
		{Name: "c", Answered: time.Unix(10, 0), Done: purge.Done{Applied: 4, Stores: []purge.StoreDone{
			{Name: "disk1", Applied: 5, Counts: counts}, {Name: "disk2", Applied: 4, Reason: "the index is read"},
		}}},
	}
	before := v1alpha1.CachePurgeStatus{
		Phase: v1alpha1.PurgePending,
		Pods:  []v1alpha1.PurgePodStatus{{Name: "a", Phase: v1alpha1.PurgeApplied, AppliedAt: at(3)}},
	}
	applied := []v1alpha1.PurgeDiskStatus{{Name: "disk1", Phase: v1alpha1.PurgeApplied, Files: 2, Bytes: 10}}
	want := v1alpha1.CachePurgeStatus{
		Number: 5, Phase: v1alpha1.PurgePending, Message: "waits for c: disk2: the index is read", Files: 4, Bytes: 20,
		SlowestPod: "c", Pods: []v1alpha1.PurgePodStatus{
			{
				Name: "c", Phase: v1alpha1.PurgePending, Message: "disk2: the index is read",
				Disks: []v1alpha1.PurgeDiskStatus{
					{Name: "disk1", Phase: v1alpha1.PurgeApplied, Files: 2, Bytes: 10},
					{Name: "disk2", Phase: v1alpha1.PurgePending, Message: "the index is read"},
				},
			},
			{Name: "a", Phase: v1alpha1.PurgeApplied, AppliedAt: at(3), Disks: applied}, // the time in the earlier status stays
			{Name: "b", Phase: v1alpha1.PurgeApplied, AppliedAt: at(20)},
		},
	}
	if diff := cmp.Diff(want, purge.Progress(rule, pods, before)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	pods[2].Done.Applied, pods[2].Done.Stores = 5, nil
	s := purge.Progress(rule, pods, before)
	if s.Phase != v1alpha1.PurgeApplied || s.SlowestPod != "b" {
		t.Errorf("once all have applied it, the phase is %s and the slowest pod %s", s.Phase, s.SlowestPod)
	}
	joined := purge.Pod{Name: "d", Answered: time.Unix(90, 0), Done: purge.Done{Applied: 5}}
	if s = purge.Progress(rule, append(pods, joined), s); s.SlowestPod != "b" {
		t.Errorf("a pod that has joined, %s, counts as the slowest", s.SlowestPod)
	}
	unknown := []purge.Pod{{Name: "a", IsUnknown: true}}
	if s = purge.Progress(rule, unknown, s); s.Pods[0].AppliedAt == nil {
		t.Error("a new operator forgets when a pod applied the purge")
	}
}

func TestSanitize(t *testing.T) {
	t.Parallel()
	d := purge.Done{Head: -1, Applied: -5, Stores: []purge.StoreDone{
		{Name: "disk1", Reason: "a\x1b[31mb" + strings.Repeat("c", 300), Counts: map[int64]purge.Count{1: {Files: -1}}},
		{Name: "../x"},
	}}
	for range 100 {
		d.Stores = append(d.Stores, purge.StoreDone{Name: "disk2"})
	}
	clean := purge.Sanitize(d)
	if clean.Head != 0 || clean.Applied != 0 || len(clean.Stores) > 33 || clean.Stores[0].Counts[1].Files != 0 ||
		strings.Contains(clean.Stores[0].Reason, "\x1b") || len(clean.Stores[0].Reason) > 256 {
		t.Errorf("%+v", clean.Stores[0])
	}
}

// TestUnion compares the union of patterns with the patterns themselves.
func TestUnion(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		return []string{"", "a", "ab", "abc", "b", "ba", "c"}[r.IntN(7)]
	}
	texts := func(n int) (list []string) {
		for range r.IntN(n) {
			list = append(list, text())
		}
		return list
	}
	for range 1000 {
		list := []purge.Patterns{
			{Keys: texts(4), Prefixes: slices.DeleteFunc(texts(3), func(p string) bool { return p == "" }), Tags: texts(3)},
			{Keys: texts(4), Prefixes: texts(2), Tags: texts(3)},
		}
		union := purge.Union(list)
		for _, key := range []string{"", "a", "ab", "abc", "abd", "b", "bab", "c", "d"} {
			want := slices.ContainsFunc(list, func(p purge.Patterns) bool {
				return slices.Contains(p.Keys, key) ||
					slices.ContainsFunc(p.Prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
			})
			if got := union.Names(key); got != want {
				t.Fatalf("%+v: %+v names %q: %t, want %t", list, union, key, got, want)
			}
			times := 0
			for _, prefix := range union.Prefixes {
				if strings.HasPrefix(key, prefix) {
					times++
				}
			}
			if slices.Contains(union.Keys, key) {
				times++
			}
			if want && times != 1 {
				t.Fatalf("%+v: %+v has %q %d times", list, union, key, times)
			}
		}
	}
}

// TestProgressIsBounded checks that a status stays short, whatever the agents report.
func TestProgressIsBounded(t *testing.T) {
	t.Parallel()
	var pods []purge.Pod
	for i := range 1000 {
		pod := purge.Pod{Name: fmt.Sprintf("edge-%04d", i), Problem: strings.Repeat("p", 1000)}
		for d := range 33 {
			pod.Done.Stores = append(pod.Done.Stores, purge.StoreDone{
				Name: fmt.Sprintf("disk%d", d), Reason: strings.Repeat("r", 256),
				Counts: map[int64]purge.Count{7: {Files: 1, Bytes: 1}},
			})
		}
		pods = append(pods, pod)
	}
	s := purge.Progress(purge.Rule{Number: 7, Changed: 7}, pods, v1alpha1.CachePurgeStatus{})
	text, err := json.Marshal(s)
	must(t, err)
	if len(text) > 64<<10 {
		t.Errorf("the status has %d bytes", len(text))
	}
	if len(s.Pods) != 100 || s.Pods[0].Message == "" || len(s.Pods[0].Disks) != 33 || s.Files != 33_000 {
		t.Errorf("%d pods, the first with %d disks and %q; %d files",
			len(s.Pods), len(s.Pods[0].Disks), s.Pods[0].Message, s.Files)
	}
}
