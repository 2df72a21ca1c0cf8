package cache_test

import (
	"regexp"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// nginx waits a second or less for its own servers, for other pods, and for the renewal that another request has begun.
// A busy machine then looks like a pod that hangs. So tests that are not about that edit what is rendered.
var (
	waitsForPods     = regexp.MustCompile(`(proxy_read_timeout) [123]s;`)
	waitsForRenewals = regexp.MustCompile(`(proxy_cache_lock_timeout) [12]s;`)
	keepsRenewals    = regexp.MustCompile(`(proxy_cache_valid [0-9 ]*) 1s;`)
)

// asRendered edits nothing.
func asRendered(text string) string { return text }

// patient makes nginx wait for its own servers and for pods as long as a test does.
func patient(text string) string { return nginxtest.Patient(text) }

// silentAddress is where a hasty nginx closes a connection that says nothing.
const silentAddress = "127.0.0.1:8099"

// hasty makes nginx wait three seconds for an answer of a pod, and longer at silentAddress.
func hasty(text string) string {
	const silent = "http {\n    server { listen " + silentAddress + "; client_header_timeout 4500ms; }\n"
	return patient(waitsForPods.ReplaceAllString(strings.Replace(text, "http {\n", silent, 1), "$1 3000ms;"))
}

// promotions are the limits on how often one object is copied to memory.
var promotions = regexp.MustCompile(`(zone=(?:promoted|renewed)_\w+:1m rate=)\d+r/m`)

// oftenRenewed makes nginx wait as patient does, and an object be copied to memory as often as a test expires it.
// Requests beyond the limit are answered from the disk.
func oftenRenewed(text string) string {
	return promotions.ReplaceAllString(patient(text), "${1}60000r/m")
}

// patientRenewals makes nginx wait as patient does, requests wait as long for the renewal of an expired object, and
// nginx for requests. Files of renewals stay until a test looks at them.
func patientRenewals(text string) string {
	text = strings.ReplaceAll(text, "inactive=10s", "inactive=10h")
	text = strings.ReplaceAll(text, "client_header_timeout 10s;", "client_header_timeout 60s;")
	return waitsForRenewals.ReplaceAllString(patient(text), "$1 60s;")
}

// keptRenewals makes nginx wait as patientRenewals does, and keep a renewal for those who wait for it as long.
func keptRenewals(text string) string {
	return keepsRenewals.ReplaceAllString(patientRenewals(text), "$1 60s;")
}
