package agentapi

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Limits of a report. An attacker may control a pod, and its report appears in a status, in events and on terminals.
// The limits leave room for what newer agents may report.
const (
	// MaxDisks is the maximum number of disks in a report, as in a spec.
	MaxDisks   = 32
	maxVersion = 64
	maxMessage = 512
	maxProblem = 1024
	maxRefusal = 2048
	maxBytes   = int64(1) << 60
	// maxRefused is the maximum number of routes in a refusal.
	maxRefused = 24
	// maxFeatures is the maximum number of features in a report.
	maxFeatures = 16
	// maxSkew is the longest time by which the clock of a node may be ahead.
	maxSkew = 24 * time.Hour
)

var (
	diskName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)
	status   = regexp.MustCompile(`^[A-Za-z]{1,16}$`)
	word     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]{0,31}$`)
	routeID  = regexp.MustCompile(`^[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}$`)
	hash     = regexp.MustCompile(`^[0-9a-f]{1,64}$`)
	owner    = regexp.MustCompile(`^[-a-z0-9]{1,63}/[-a-z0-9.]{1,253}$`)
)

// Sanitize returns the valid parts of a report, and omits all others. In the result, texts are printable and limited in
// length, words match their patterns, and numbers are in range. Times are at most maxSkew in the future, and no disk
// appears twice. Sanitize does not verify that the report is true.
func Sanitize(r Report, now time.Time) Report {
	clean := Report{
		AgentVersion: Printable(r.AgentVersion, maxVersion), NginxVersion: Printable(r.NginxVersion, maxVersion),
		Renderer: max(r.Renderer, 0),
		Revision: matching(hash, r.Revision), Since: past(r.Since, now),
		FleetSerial: max(r.FleetSerial, 0),
		Purged:      place(r.Purged, now), PurgeHead: place(r.PurgeHead, now),
		Problem: Printable(r.Problem, maxProblem), Lowered: Printable(r.Lowered, maxProblem),
		OpenFiles: max(r.OpenFiles, 0),
	}
	if r.Refusal != nil && matching(hash, r.Refusal.Revision) != "" {
		clean.Refusal = &Refusal{
			Revision: r.Refusal.Revision, Message: Printable(r.Refusal.Message, maxRefusal),
			Retry: bounded(r.Refusal.Retry, maxMessage),
		}
		for _, id := range r.Refusal.Routes[:min(len(r.Refusal.Routes), maxRefused)] {
			if matching(routeID, id) != "" {
				clean.Refusal.Routes = append(clean.Refusal.Routes, id)
			}
		}
	}
	bytes := 0
	for _, u := range r.Unsafe[:min(len(r.Unsafe), MaxUnsafe)] {
		if bytes += len(u.URL); bytes <= MaxUnsafeBytes { // package agents checks that the text is a URL
			clean.Unsafe = append(clean.Unsafe, u)
		}
	}
	for _, f := range r.Features[:min(len(r.Features), maxFeatures)] {
		if matching(word, f) != "" {
			clean.Features = append(clean.Features, f)
		}
	}
	known := map[string]bool{}
	for _, d := range r.Disks {
		if !diskName.MatchString(d.Name) || known[d.Name] || !status.MatchString(string(d.State)) || len(known) == MaxDisks {
			continue
		}
		known[d.Name] = true
		clean.Disks = append(clean.Disks, sanitizeDisk(d, now))
	}
	return clean
}

func sanitizeDisk(d DiskReport, now time.Time) DiskReport {
	clean := DiskReport{
		Name: d.Name, State: d.State, Reason: matching(word, d.Reason),
		Message: Printable(d.Message, maxMessage), Since: past(d.Since, now),
		Share: clamp(d.Share, 10000), ForeignOwner: matching(owner, d.ForeignOwner),
		Size: clamp(d.Size, maxBytes), UsedPercent: clamp(d.UsedPercent, 100), NeedsNewPod: d.NeedsNewPod,
	}
	if d.CacheBytes != nil {
		clean.CacheBytes = new(clamp(*d.CacheBytes, clean.Size))
	}
	if f := d.FileSystem; f != nil {
		clean.FileSystem = &effective.FileSystem{
			Type: matching(word, f.Type), BlockSize: clamp(f.BlockSize, 1<<30), ReadAhead: clamp(f.ReadAhead, 1<<40),
			Options: Printable(f.Options, maxMessage),
		}
	}
	return clean
}

// Printable returns a text as one line of at most length bytes. It removes the characters that terminals interpret:
// control characters and changes of the writing direction.
func Printable(text string, length int) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsSpace(r) {
			r = ' '
		}
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > length {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// bounded returns a text unchanged, or "" if it is longer than length bytes. It is for texts that are compared and
// not shown.
func bounded(text string, length int) string {
	if len(text) > length {
		return ""
	}
	return text
}

func matching[T ~string](form *regexp.Regexp, text T) T {
	if form.MatchString(string(text)) {
		return text
	}
	return ""
}

func clamp[T int | int64](n, most T) T { return min(max(n, 0), most) }

// place returns a place in the journal of purges, or 0 for a place that cannot have been given yet. A place is at
// least the Unix time in milliseconds at which it was given.
func place(n int64, now time.Time) int64 {
	if n < 0 || n > now.Add(maxSkew).UnixMilli() {
		return 0
	}
	return n
}

// past returns the time t if t is not before the year 2000 and at most maxSkew in the future. For any other time, it
// returns the zero time.
func past(t, now time.Time) time.Time {
	if t.Year() < 2000 || t.After(now.Add(maxSkew)) {
		return time.Time{}
	}
	return t
}
