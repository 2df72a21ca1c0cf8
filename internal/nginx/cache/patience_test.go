package cache_test

import (
	"regexp"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// nginx waits only a few seconds for its own servers, for other pods, and for the renewal that another request has
// begun. So a busy machine looks like a pod that hangs. Tests that are not about these timeouts edit the rendered text.
var (
	waitsForPods     = regexp.MustCompile(`(proxy_read_timeout) [123]s;`)
	waitsForRenewals = regexp.MustCompile(`(proxy_cache_lock_timeout) [12]s;`)
	keepsRenewals    = regexp.MustCompile(`(proxy_cache_valid [0-9 ]*) 1s;`)
)

// asRendered returns the text unchanged.
func asRendered(text string) string { return text }

// patient makes nginx wait for its own servers and for pods as long as a test waits.
func patient(text string) string { return nginxtest.Patient(text) }

// silentAddress is an address of an nginx with the edits of hasty. There nginx closes a connection on which the client
// sends nothing.
const silentAddress = "127.0.0.1:8099"

// hasty makes nginx wait three seconds for a pod's answer, and 4.5 seconds for a client's request at silentAddress.
func hasty(text string) string {
	const silent = "http {\n    server { listen " + silentAddress + "; client_header_timeout 4500ms; }\n"
	return patient(waitsForPods.ReplaceAllString(strings.Replace(text, "http {\n", silent, 1), "$1 3000ms;"))
}

// promotions matches the limits on how often nginx copies one object to memory.
var promotions = regexp.MustCompile(`(zone=(?:promoted|renewed)_\w+:1m rate=)\d+r/m`)

// oftenRenewed makes the same edits as patient. It also lets nginx copy an object to memory as often as a test makes
// the object expire. Without this edit, requests beyond the limit are answered from the disk.
func oftenRenewed(text string) string {
	return promotions.ReplaceAllString(patient(text), "${1}60000r/m")
}

// patientRenewals makes the same edits as patient. Requests wait just as long for the renewal of an expired object, and
// nginx waits just as long for the header of a request. The files of renewals stay until a test looks at them.
func patientRenewals(text string) string {
	text = strings.ReplaceAll(text, "inactive=10s", "inactive=10h")
	text = strings.ReplaceAll(text, "client_header_timeout 10s;", "client_header_timeout 60s;")
	return waitsForRenewals.ReplaceAllString(patient(text), "$1 60s;")
}

// keptRenewals makes the same edits as patientRenewals. It also makes nginx keep the response of a renewal for 60
// seconds, for the requests that wait for it.
func keptRenewals(text string) string {
	return keepsRenewals.ReplaceAllString(patientRenewals(text), "$1 60s;")
}
