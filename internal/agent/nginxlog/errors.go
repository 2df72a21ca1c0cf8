package nginxlog

import (
	"regexp"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Error is a line of the error log.
type Error struct {
	// Level is nginx's: emerg, alert, crit, error, warn or notice.
	Level string
	// Text is the part of the line after level and process.
	Text string
	// Disk is the disk that the event is about; "" if there is none. The pod may have no disk of that name.
	Disk string
	// Event is what happened.
	Event Event
}

// Event is the kind of event that a line of the error log reports.
type Event string

// The events that have an effect in the agent. NoEvent is any other line.
const (
	NoEvent Event = ""
	// QueueOverflow means that a task found the queue of the disk's thread pool full.
	QueueOverflow Event = "QueueOverflow"
	// Failure means that a system call on a file of the disk failed with an error that a healthy disk does not give.
	Failure Event = "Failure"
	// Exhausted means that all connections of a worker are taken, so it closes new ones at once.
	Exhausted Event = "Exhausted"
	// IndexLoaded means that the cache loader has read the disk.
	IndexLoaded Event = "IndexLoaded"
)

// disk is the name of a disk, and file is a path that nginx itself makes up on a disk: a folder of a cache, a cache
// file or a temporary file. No text of a client or an origin is in such a path.
const disk = `([a-z][a-z0-9]{0,15})`

var file = regexp.QuoteMeta(layout.DiskDir("")) + disk +
	`(?:/` + layout.OwnFolder + `(?:/(?:cache|refresh)(?:/[0-9a-f]+)*(?:\.[0-9]+)?)?)?`

// The forms of nginx's messages (nginx 1.30). Clients and origins have text in many lines: in the request line, in
// headers, in a broken PROXY header, in a URI that X-Accel-Redirect names. No message of nginx begins with their text,
// so each form is matched from the message's first character up to the last one that matters.
var (
	line      = regexp.MustCompile(`(?s)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[([a-z]+)\] \d+#\d+: (?:\*\d+ )?(.*)$`)
	overflow  = regexp.MustCompile(`^thread pool "` + naming.Pool("") + disk + `" queue overflow: \d+ tasks waiting`)
	exhausted = regexp.MustCompile(`^\d+ worker_connections are not enough`)
	loaded    = regexp.MustCompile(`^http file cache: ` + file + ` \d+\.\d{3}M, bsize: \d+$`)
	// failed is for `pread() "FILE" failed (5: Input/output error)`, for the one call that takes arguments in nginx's
	// messages, and for rename.
	failed = regexp.MustCompile(`^(?:[a-z_]+\([A-Z_]*\) "|chown\(")` + file + `"(?:, \d+\)| to "[^"]*")? failed \((\d+): `)
	// diskErrors are the error numbers of a Failure: EIO, ENODEV, ENOSPC, EROFS, ESHUTDOWN, EUCLEAN and EDQUOT.
	diskErrors = map[string]bool{"5": true, "19": true, "28": true, "30": true, "108": true, "117": true, "122": true}
)

// ParseError parses a line of the error log. ok is false if it is not in the format.
func ParseError(text string) (e Error, ok bool) {
	match := line.FindStringSubmatch(text)
	if match == nil {
		return Error{}, false
	}
	e = Error{Level: match[1], Text: match[2]}
	e.Disk, e.Event = eventOf(e.Text)
	return e, true
}

func eventOf(message string) (disk string, event Event) {
	if pool := overflow.FindStringSubmatch(message); pool != nil {
		return pool[1], QueueOverflow
	}
	if cache := loaded.FindStringSubmatch(message); cache != nil {
		return cache[1], IndexLoaded
	}
	if exhausted.MatchString(message) {
		return "", Exhausted
	}
	if call := failed.FindStringSubmatch(message); call != nil && diskErrors[call[2]] {
		return call[1], Failure
	}
	return "", NoEvent
}

// FailedDisk returns the disk on which a system call failed for any reason, by the message of one line; "" if the
// message is another.
func FailedDisk(message string) string {
	if call := failed.FindStringSubmatch(message); call != nil {
		return call[1]
	}
	return ""
}
