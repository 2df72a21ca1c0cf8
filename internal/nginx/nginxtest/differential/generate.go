package differential

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// Shape contains the limits and settings for all generated cases.
type Shape struct {
	// Pods is the number of pods to which clients send requests.
	Pods int
	// Sizes are the possible sizes of bodies, in bytes.
	Sizes []int
	// Protocols are the protocols that clients speak.
	Protocols []Protocol
	// Steps is the number of steps in a case.
	Steps int
	// Strict is true if the test can reliably expire or remove every copy. Such a copy must not be served afterwards.
	Strict bool
}

// Action is the kind of a step.
type Action string

// The actions. Ask sends a request. Expire makes all copies of the object expire, and Purge removes them. Change
// makes the origin switch to its next resource. Fail makes the origin fail, and Mend ends the failure.
const (
	Ask    Action = "ask"
	Expire Action = "all copies expire"
	Purge  Action = "all copies are removed"
	Change Action = "the object changes at the origin"
	Fail   Action = "the origin begins to fail"
	Mend   Action = "the origin answers again"
)

// Step is one step of a case.
type Step struct {
	Action
	Request Request
	// Failure is the status with which the origin fails; 0 closes the connection.
	Failure int
}

// String returns the step in one line.
func (s Step) String() string {
	if s.Action == Fail {
		return fmt.Sprintf("%s with %d", s.Action, s.Failure)
	}
	return string(s.Action)
}

// Case describes the resources of one URL and the steps of a test with this URL.
type Case struct {
	Seed uint64
	// Resources are the resources that the origin serves under the URL, one after another.
	Resources []Resource
	Steps     []Step
}

// Resource describes the content of a URL until the origin changes it.
type Resource struct {
	Representation
	// size is the size of the body in bytes. The body itself depends on the headers in Vary.
	size int
}

// String returns the resource in one line.
func (r Resource) String() string { return fmt.Sprintf("%s, size %d", &r.Representation, r.size) }

// generator generates a case.
type generator struct {
	*rand.Rand
	shape Shape
}

// Generate returns a generated case. The case is always the same for the same seed and shape.
func Generate(seed uint64, shape Shape) Case {
	g := generator{rand.New(rand.NewPCG(seed, 0)), shape}
	c := Case{Seed: seed}
	for i := range 3 {
		c.Resources = append(c.Resources, g.resource(seed, i))
	}
	changes, failing, asked := 0, false, 0
	for i := range shape.Steps {
		step := Step{Action: g.action(i, failing)}
		switch step.Action {
		case Ask:
			asked++
			step.Request = g.request(asked, c.Resources, c.Resources[changes])
		case Change:
			changes = min(changes+1, len(c.Resources)-1)
		case Fail:
			step.Failure = pick(g, 0, 500, 502, 503, 504)
			failing = true
		case Mend:
			failing = false
		case Expire, Purge:
		}
		c.Steps = append(c.Steps, step)
	}
	return c
}

// action returns the action of a step. The first steps fill the caches.
func (g generator) action(i int, failing bool) Action {
	if i < 2 {
		return Ask
	}
	switch n := g.IntN(40); {
	case n < 3:
		return Expire
	case n < 5 && g.shape.Strict:
		return Purge
	case n < 7:
		return Change
	case n < 9 && failing, failing && g.IntN(3) == 0:
		return Mend
	case n < 9:
		return Fail
	}
	return Ask
}

// pick returns one of the values at random.
func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// often returns true in n of ten cases.
func (g generator) often(n int) bool { return g.IntN(10) < n }

// A resource is cut if its number modulo cutEach is cutRest. The number is the sum of the seed and the position of the
// resource. This does not apply to a resource whose framing is Close, or whose body has at most one byte. The tests of
// nginx/cache contain the seeds of some cases; none of these cases has a resource that is cut.
const cutEach, cutRest = 17, 7

// resource generates a resource of the origin.
func (g generator) resource(seed uint64, i int) Resource {
	r := Resource{size: pick(g, g.shape.Sizes...)}
	r.Version = fmt.Sprintf("%d-%d", seed, i)
	r.Status = g.status()
	r.Framing = pick(g, Length, Length, Length, Length, Chunked, Close)
	r.Ranges = g.often(6)
	r.IsCut = (seed+uint64(i))%cutEach == cutRest && r.Framing != Close && r.size > 1
	r.Header = http.Header{}
	set := func(name string, values ...string) { r.Header[http.CanonicalHeaderKey(name)] = values }
	set("Content-Type", pick(g, "text/plain", "video/mp4", "application/json"))
	set("Date", "Mon, 23 Nov 2026 12:00:0"+fmt.Sprint(i)+" GMT")
	g.validators(set, i)
	g.freshness(set)
	if g.often(2) {
		set("Vary", pick(g, "X-Color", "Accept-Encoding", "X-Color, Accept-Encoding", "*", "Accept-Encoding"))
	}
	if g.often(1) {
		set("Set-Cookie", "session=a", "theme=b")
	}
	switch r.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, 307, 308, http.StatusCreated:
		set("Location", "http://www.example.com/elsewhere")
	case http.StatusUnauthorized:
		set("Www-Authenticate", `Basic realm="a"`)
	case http.StatusMethodNotAllowed:
		set("Allow", "GET, HEAD")
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		set("Retry-After", "7")
	}
	for name, value := range map[string]string{
		"Content-Language": "de", "Content-Location": "/there", "Content-Disposition": "inline", "Link": "</a>; rel=next",
		"X-Custom": "a, b",
	} {
		if (seed+uint64(len(name)+i))%3 == 0 {
			set(name, value)
		}
	}
	return r
}

// status generates a status. About half of them are 200.
func (g generator) status() int {
	switch n := g.IntN(20); {
	case n < 10:
		return http.StatusOK
	case n < 16:
		return pick(g, 203, 204, 205, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 404, 404, 405, 410, 410, 410, 412,
			414, 416, 418, 421, 429, 451, 500, 501, 502, 503, 504)
	}
	for {
		// The statuses 206 and 304 have a special meaning, so they are left out.
		if status := 200 + g.IntN(400); status != http.StatusPartialContent && status != http.StatusNotModified {
			return status
		}
	}
}

func (g generator) validators(set func(string, ...string), i int) {
	switch g.IntN(6) {
	case 0, 1, 2:
		set("ETag", strongTag(i))
	case 3:
		set("ETag", "W/"+strongTag(i))
	}
	if g.often(6) {
		set("Last-Modified", modified(i))
	}
}

func strongTag(i int) string { return fmt.Sprintf(`"tag%d"`, i) }

// modified returns the date on which resource i was last modified.
func modified(i int) string { return fmt.Sprintf("Mon, 23 Nov 2026 10:00:0%d GMT", i) }

// freshness generates the headers that define how long an answer is fresh.
func (g generator) freshness(set func(string, ...string)) {
	if g.often(6) {
		set("Cache-Control", pick(g, "max-age=3600", "public, max-age=3600", "max-age=3600, must-revalidate",
			"max-age=0, s-maxage=3600", "max-age=3600, s-maxage=0", "max-age=0", "no-store", "no-cache", "private",
			"private, max-age=3600", "max-age=3600, proxy-revalidate", "s-maxage=3600", "max-age=3600, immutable",
			"max-age=3600, stale-if-error=0", "max-age=3600, stale-if-error=60, stale-while-revalidate=60", "public",
			"must-revalidate", "no-transform, max-age=3600"))
	}
	if g.often(2) {
		set("Expires", pick(g, "Thu, 01 Jan 2037 00:00:00 GMT", "Thu, 01 Jan 2037 00:00:00 GMT",
			"Sun, 01 Nov 2026 00:00:00 GMT", "0"))
	}
}

// Represent returns the representation that the origin serves for a request with these headers. The result depends on
// the headers that Vary names.
func (r Resource) Represent(header http.Header) *Representation {
	of := r.Representation
	if vary := names(of.Header, "Vary"); !slices.Contains(vary, "*") {
		for _, name := range vary {
			of.Version += "-" + strings.ReplaceAll(header.Get(name), ", ", "+")
		}
	}
	of.Header = of.Header.Clone()
	if tag := of.Header.Get("ETag"); tag != "" && of.Version != r.Version {
		of.Header.Set("ETag", strings.TrimSuffix(tag, `"`)+of.Version[len(r.Version):]+`"`)
	}
	of.Header.Set(versionHeader, of.Version)
	if hasBody(of.Status) && of.Status != http.StatusResetContent {
		of.Body = text(of.Version, r.size)
	}
	of.IsCut = of.IsCut && len(of.Body) > 1 // otherwise there is nothing to cut
	return &of
}

// Failure returns the answer that the origin sends while it fails with a status.
func Failure(status int) *Representation {
	version := fmt.Sprintf("failure-%d", status)
	return &Representation{
		Version: version, Status: status, Framing: Length, Body: text(version, 300),
		Header: http.Header{"Content-Type": {"text/plain"}, versionHeader: {version}, "Date": {modified(9)}},
	}
}
