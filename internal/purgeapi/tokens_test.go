package purgeapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestTokenOf checks which requests have a token that must be checked.
func TestTokenOf(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                     "",
		"Bearer":                               "",
		"Bearer ":                              "",
		"Bearer a b":                           "",
		"Bearer a\x01":                         "",
		"Basic YTpi":                           "",
		"Bearer " + strings.Repeat("a", 8193):  "",
		"Bearer " + strings.Repeat("a", 8192):  strings.Repeat("a", 8192),
		"Bearer a.b-c_d.e":                     "a.b-c_d.e",
		"bearer abc==":                         "abc==",
		"Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln": "eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
	} {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		if got := tokenOf(r); got != want {
			t.Errorf("%.40q: %.40q, want %.40q", header, got, want)
		}
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:80":             "192.0.2.1",
		"[::ffff:192.0.2.1]:80":    "192.0.2.1",
		"[2001:db8:1:2:3::4]:80":   "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":        "fe80::/64",
		"":                         "",
		"the client's name:80":     "",
		"[2001:db8:1:2:ffff::]:81": "2001:db8:1:2::/64",
	} {
		if got := network(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// TestStrangers checks how many wrong tokens are checked for one address, and for all addresses together.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s := newStrangers()
	begun := time.Unix(1_800_000_000, 0)
	token := 0
	send := func(address string, tokens int, at time.Duration) (looked int) {
		for range tokens {
			token++
			if found, may := s.may(address, fmt.Sprint("wrong-", token), begun.Add(at)); may {
				looked++
				found(wrong)
			}
		}
		return looked
	}
	for range 5 * wrongBurst { // a valid token costs nothing
		found, may := s.may("192.0.2.1:1", "right", begun)
		if !may {
			t.Fatal("a valid token is not looked at")
		}
		found(valid)
	}
	for i, step := range []struct {
		address string
		tokens  int
		at      time.Duration
		want    int
	}{
		{"192.0.2.1:1", 100, 0, wrongBurst},
		{"192.0.2.1:2", 100, 0, 0}, // another port
		{"192.0.2.2:1", 10, 0, 10},
		{"192.0.2.1:1", 100, 3 * time.Second, 3 * wrongPerSecond},
		{"192.0.2.1:1", 100, time.Hour, wrongBurst},
	} {
		if got := send(step.address, step.tokens, step.at); got != step.want {
			t.Errorf("step %d: %d tokens are looked at, want %d", i, got, step.want)
		}
	}
	looked := 0
	for i := range 100 {
		looked += send(fmt.Sprintf("198.51.100.%d:1", i), 100, 2*time.Hour)
	}
	if looked != allBurst {
		t.Errorf("%d tokens of many addresses are looked at, want %d", looked, allBurst)
	}
	if _, may := s.may("192.0.2.1:1", "right", begun.Add(2*time.Hour)); !may {
		t.Error("a token that was valid is not looked at any more")
	}
	if found, may := s.may("192.0.2.1:1", "new", begun.Add(2*time.Hour)); may {
		found(wrong)
		t.Error("a new token is looked at though too many were wrong")
	}
}

// TestTokenOfManyRequests checks requests that arrive at the same time with the same unknown token. Together they count
// as one wrong token. If the token is valid, they do not count at all.
func TestTokenOfManyRequests(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		is   verdict
		left int // the number of further wrong tokens that are checked
	}{
		"valid": {valid, wrongBurst}, "wrong": {wrong, wrongBurst - 1}, "nobody knows": {unknown, wrongBurst - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStrangers()
			var looks []func(verdict)
			for range 2 * wrongBurst {
				found, may := s.may("192.0.2.1:1", "new", now)
				if !may {
					t.Fatalf("request %d is refused", len(looks))
				}
				looks = append(looks, found)
			}
			for _, found := range looks {
				found(tt.is)
			}
			left := 0
			for i := range 2 * wrongBurst {
				if found, may := s.may("192.0.2.1:1", fmt.Sprint("wrong-", i), now); may {
					left++
					found(wrong)
				}
			}
			if left != tt.left || len(s.looking) > 0 {
				t.Errorf("%d more tokens are looked at, want %d; %d are still being looked at", left, tt.left, len(s.looking))
			}
		})
	}
}

// counter counts TokenReviews.
type counter struct {
	next    http.RoundTripper
	reviews atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		c.reviews.Add(1)
	}
	return c.next.RoundTrip(r)
}

// asksRarely checks how many TokenReviews are caused by requests without a valid token.
func asksRarely(t *testing.T, s *suite) {
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken = s.token(t, "endpoint")
	count := &counter{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		count.next = next
		return count
	})
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	a, err := newAccess(config, client, nil)
	must(t, err)
	now := time.Unix(1_800_000_000, 0)
	send := func(header, value string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://purges/v1/purges", http.NoBody)
		must(t, err)
		r.RemoteAddr = "192.0.2.1:1"
		r.Header.Set(header, value)
		_, err = a.requester(r, now)
		return codeOfError(err)
	}
	for name, tt := range map[string]struct {
		header, value string
	}{
		"no token":            {"Accept", "*/*"},
		"a password":          {"Authorization", "Basic YTpi"},
		"a token of spaces":   {"Authorization", "Bearer  "},
		"a WebSocket's token": {"Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.YQ, a"},
	} {
		for range 10 {
			if code := send(tt.header, tt.value); code != http.StatusUnauthorized {
				t.Errorf("%s: status %d", name, code)
			}
		}
		if n := count.reviews.Swap(0); n != 0 {
			t.Errorf("%s: %d TokenReviews for 10 requests", name, n)
		}
	}
	for range 10 {
		if code := send("Authorization", "Bearer a.b.c"); code != http.StatusUnauthorized {
			t.Errorf("a wrong token: status %d", code)
		}
	}
	if n := count.reviews.Swap(0); n != 1 {
		t.Errorf("%d TokenReviews for one wrong token, sent 10 times", n)
	}
	codes := map[int]int{}
	for i := range 100 {
		codes[send("Authorization", fmt.Sprintf("Bearer a.b.%d", i))]++
	}
	if n := count.reviews.Swap(0); n > wrongBurst || codes[http.StatusTooManyRequests] != 100-int(n) {
		t.Errorf("%d TokenReviews for 100 wrong tokens, answered with %v", n, codes)
	}
	now = now.Add(time.Second)
	if code := send("Authorization", "Bearer "+s.cms); code != 0 {
		t.Errorf("a valid token: status %d", code)
	}
}
