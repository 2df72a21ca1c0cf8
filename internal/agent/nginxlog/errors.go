package nginxlog

import (
	"regexp"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// Error is a line of the error log.
type Error struct {
	// Level is nginx's log level: emerg, alert, crit, error, warn or notice.
	Level string
	// Text is the message: the part of the line after the level, the process and the connection.
	Text string
	// Disk is the name of the disk on which the event happened; "" for an event without a disk. The pod may have no disk
	// with this name.
	Disk string
	// Event is what happened.
	Event Event
}

// Event is the kind of event that a line of the error log reports.
type Event string

// The events that have an effect in the agent. NoEvent stands for any other line.
const (
	NoEvent Event = ""
	// QueueOverflow means that a task found the queue of the disk's thread pool full.
	QueueOverflow Event = "QueueOverflow"
	// Failure means that a system call on a file of the disk failed with an error that does not occur on a healthy disk.
	Failure Event = "Failure"
	// Exhausted means that all connections of a worker are in use, so the worker closes new connections at once.
	Exhausted Event = "Exhausted"
	// IndexLoaded means that nginx's cache loader has read all of the disk's cache files.
	IndexLoaded Event = "IndexLoaded"
)

// disk matches the name of a disk. file matches a path that nginx itself forms on a disk: a folder of a cache, a
// cache file or a temporary file. Such a path contains no text from a client or an origin.
const disk = `([a-z][a-z0-9]{0,15})`

var file = regexp.QuoteMeta(layout.DiskDir("")) + disk +
	`(?:/` + layout.OwnFolder + `(?:/(?:cache|refresh)(?:/[0-9a-f]+)*(?:\.[0-9]+)?)?)?`

// The patterns for nginx's messages (nginx 1.30). Many lines contain text from clients or origins: the request line,
// headers, a broken PROXY header, or a URI from X-Accel-Redirect. No message of nginx begins with such text, so each
// pattern matches from the first character of the message up to the last character that matters.
var (
	line      = regexp.MustCompile(`(?s)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[([a-z]+)\] \d+#\d+: (?:\*\d+ )?(.*)$`)
	overflow  = regexp.MustCompile(`^thread pool "` + naming.Pool("") + disk + `" queue overflow: \d+ tasks waiting`)
	exhausted = regexp.MustCompile(`^\d+ worker_connections are not enough`)
	loaded    = regexp.MustCompile(`^http file cache: ` + file + ` \d+\.\d{3}M, bsize: \d+$`)
	// failed matches messages such as `pread() "FILE" failed (5: Input/output error)`. It also matches chown, the only
	// call that nginx's messages show with arguments, and rename, which names two files.
	failed = regexp.MustCompile(`^(?:[a-z_]+\([A-Z_]*\) "|chown\(")` + file + `"(?:, \d+\)| to "[^"]*")? failed \((\d+): `)
	// diskErrors are the error numbers of a Failure: EIO, ENODEV, ENOSPC, EROFS, ESHUTDOWN, EUCLEAN and EDQUOT.
	diskErrors = map[string]bool{"5": true, "19": true, "28": true, "30": true, "108": true, "117": true, "122": true}
)

// ParseError parses a line of the error log. ok is false if the line does not have the format of the error log.
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

// FailedDisk parses the message of one line. If the message says that a system call on a file of a disk failed,
// FailedDisk returns the disk, whatever the error was. It returns "" for any other message.
func FailedDisk(message string) string {
	if call := failed.FindStringSubmatch(message); call != nil {
		return call[1]
	}
	return ""
}
