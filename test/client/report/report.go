// Package report contains the types of the test client's output. The client writes them, and the tests read them.
package report

// Progress is the format of the line that a load writes to standard error. The line contains the number of requests
// that have ended. The load writes it after the first request, and then after each further group of requests. The
// constant Every is the size of such a group.
const (
	Progress = "requests ended: %d\n"
	Every    = 25
)

// Window is the length in seconds of the windows of a Summary.
const Window = 3

// Result is the outcome of one request.
type Result struct {
	Path         string  `json:"path"`
	Status       int     `json:"status"`
	Cache        string  `json:"cache"`
	Disk         string  `json:"disk"`
	Pod          string  `json:"pod"`
	Hop          string  `json:"hop"`
	Bytes        int64   `json:"bytes"`
	Milliseconds float64 `json:"ms"`
	// Certificate is the common name in the server's certificate; "" without TLS.
	Certificate string `json:"certificate,omitempty"`
	// Reused is true if the request went over a connection that an earlier request had opened.
	Reused bool `json:"reused,omitempty"`
	// Version is the number in the body of an object below /versions of the origin.
	Version int64 `json:"version,omitempty"`
	// Began is the time at which the request began, as Unix time in milliseconds.
	Began int64 `json:"began"`
	// Error is "" only if the status was 200 and every byte was right.
	Error string `json:"error,omitempty"`
}

// Summary is the outcome of a load.
type Summary struct {
	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
	Errors   []string       `json:"errors,omitempty"` // the first ten, with the time since the load began
	Cache    map[string]int `json:"cache"`
	Pods     map[string]int `json:"pods"`
	P50      float64        `json:"p50ms"`
	P99      float64        `json:"p99ms"`
	Max      float64        `json:"maxms"`
	// Windows contains the P99 of each window, in milliseconds. A window lasts Window seconds, and covers the requests
	// that ended in this time. The first window begins with the load.
	Windows []float64 `json:"windows"`
}

// Downloads is the outcome of slow downloads. Broken contains the errors of those that broke off.
type Downloads struct {
	Begun  int      `json:"begun"`
	Broken []string `json:"broken,omitempty"`
}
