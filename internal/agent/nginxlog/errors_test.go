package nginxlog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseError(t *testing.T) {
	const prefix = "2026/11/21 14:06:34 "
	tests := map[string]struct {
		text string
		want Error
	}{
		"an I/O error": {
			prefix + `[crit] 26397#26397: *38 stat() "/var/cache/cachenode/disk2/cachenode/cache" failed ` +
				`(5: Input/output error), client: 127.0.0.1`,
			Error{
				Level: "crit", Text: `stat() "/var/cache/cachenode/disk2/cachenode/cache" failed ` +
					`(5: Input/output error), client: 127.0.0.1`,
				Disk: "disk2", Event: Failure,
			},
		},
		"a file that is not there": {
			prefix + `[error] 1#1: *2 open() "/var/cache/cachenode/disk2/cachenode/cache/a" failed ` +
				`(2: No such file or directory)`,
			Error{
				Level: "error", Text: `open() "/var/cache/cachenode/disk2/cachenode/cache/a" failed ` +
					`(2: No such file or directory)`,
			},
		},
		"an eviction of a file that the agent has removed": {
			prefix + `[crit] 31#31: unlink() "/var/cache/cachenode/disk2/cachenode/cache/a/bc/0123" failed ` +
				`(2: No such file or directory)`,
			Error{
				Level: "crit", Text: `unlink() "/var/cache/cachenode/disk2/cachenode/cache/a/bc/0123" failed ` +
					`(2: No such file or directory)`,
			},
		},
		"an overflow": {
			prefix + `[error] 1#1: *2 thread pool "pool_disk1" queue overflow: 4 tasks waiting while sending response to client`,
			Error{
				Level: "error",
				Text:  `thread pool "pool_disk1" queue overflow: 4 tasks waiting while sending response to client`,
				Disk:  "disk1", Event: QueueOverflow,
			},
		},
		"what a client makes up": {
			prefix + `[error] 1#1: *2 limiting connections by zone "uncached", client: 10.0.0.1, server: _, ` +
				`request: "GET / HTTP/1.1", referrer: "/var/cache/cachenode/disk1/ failed (5: "`,
			Error{
				Level: "error", Text: `limiting connections by zone "uncached", client: 10.0.0.1, server: _, ` +
					`request: "GET / HTTP/1.1", referrer: "/var/cache/cachenode/disk1/ failed (5: "`,
			},
		},
		"the loader": {
			prefix + `[notice] 1#1: http file cache: /var/cache/cachenode/disk3/cachenode/cache 12.345M, bsize: 4096`,
			Error{
				Level: "notice", Text: `http file cache: /var/cache/cachenode/disk3/cachenode/cache 12.345M, bsize: 4096`,
				Disk: "disk3", Event: IndexLoaded,
			},
		},
		"a file that is renamed": {
			prefix + `[crit] 1#1: *2 rename() "/var/cache/cachenode/disk2/cachenode/cache/a/bc/0abc.0000000012" to ` +
				`"/var/cache/cachenode/disk2/cachenode/cache/a/bc/0abc" failed (28: No space left on device)`,
			Error{
				Level: "crit", Text: `rename() "/var/cache/cachenode/disk2/cachenode/cache/a/bc/0abc.0000000012" to ` +
					`"/var/cache/cachenode/disk2/cachenode/cache/a/bc/0abc" failed (28: No space left on device)`,
				Disk: "disk2", Event: Failure,
			},
		},
		"a file of the refresh cache": {
			prefix + `[crit] 1#1: *2 pwritev() "/var/cache/cachenode/sda/cachenode/refresh/0abc.0000000012" failed ` +
				`(30: Read-only file system) while reading upstream, client: 10.0.0.1`,
			Error{
				Level: "crit", Text: `pwritev() "/var/cache/cachenode/sda/cachenode/refresh/0abc.0000000012" failed ` +
					`(30: Read-only file system) while reading upstream, client: 10.0.0.1`,
				Disk: "sda", Event: Failure,
			},
		},
		"advice to the kernel": {
			prefix + `[alert] 1#1: *2 posix_fadvise(POSIX_FADV_SEQUENTIAL) "/var/cache/cachenode/sda/cachenode/cache/a/bc/0a" ` +
				`failed (5: Input/output error)`,
			Error{
				Level: "alert", Text: `posix_fadvise(POSIX_FADV_SEQUENTIAL) "/var/cache/cachenode/sda/cachenode/cache/a/bc/0a" ` +
					`failed (5: Input/output error)`,
				Disk: "sda", Event: Failure,
			},
		},
		"a line feed in what a client sent": {
			prefix + "[crit] 1#1: *2 pread() \"/var/cache/cachenode/sda/cachenode/cache/a/bc/0abc\" failed " +
				"(5: Input/output error), client: 10.0.0.1, request: \"GET /\n\"",
			Error{
				Level: "crit", Text: "pread() \"/var/cache/cachenode/sda/cachenode/cache/a/bc/0abc\" failed " +
					"(5: Input/output error), client: 10.0.0.1, request: \"GET /\n\"",
				Disk: "sda", Event: Failure,
			},
		},
		"a file below a disk that is none of nginx's": {
			prefix + `[crit] 1#1: *2 open() "/var/cache/cachenode/sda/cachenode/cache/a b" failed (5: Input/output error)`,
			Error{
				Level: "crit",
				Text:  `open() "/var/cache/cachenode/sda/cachenode/cache/a b" failed (5: Input/output error)`,
			},
		},
		"no connection is left": {
			prefix + `[alert] 1#1: *2 512 worker_connections are not enough, client: 10.0.0.1`,
			Error{
				Level: "alert", Text: `512 worker_connections are not enough, client: 10.0.0.1`, Event: Exhausted,
			},
		},
		"a refusal": {
			prefix + `[emerg] 1#1: cache "cache_disk1" had previously different levels`,
			Error{Level: "emerg", Text: `cache "cache_disk1" had previously different levels`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseError(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" || !ok {
				t.Errorf("ok %t (-want +got)\n%s", ok, diff)
			}
		})
	}
	if _, ok := ParseError("nonsense"); ok {
		t.Error("nonsense is a line")
	}
}

// places lists all messages of nginx 1.30 that contain text from a client, an origin or another pod. TEXT stands for
// this text.
var places = []string{
	`broken header: "TEXT" while reading PROXY protocol, client: 10.0.0.1, server: 0.0.0.0:8080`,
	`client sent invalid header line: "TEXT" while reading client request headers, client: 10.0.0.1, server: _`,
	`client sent invalid host header while reading client request headers, client: 10.0.0.1, host: "TEXT"`,
	`client sent invalid method while reading client request line, client: 10.0.0.1, server: _, request: "TEXT"`,
	`client sent duplicate host header: "TEXT", previous value: "host: TEXT" while reading client request headers`,
	`client sent invalid "Content-Length" header: "TEXT"`,
	`client sent unknown "Transfer-Encoding": "TEXT" while reading client request headers, client: 10.0.0.1`,
	`client sent invalid :path header: "TEXT" while processing HTTP/2 connection, client: 10.0.0.1`,
	`client sent invalid header: "TEXT" while reading client request headers, client: 10.0.0.1`,
	`upstream sent invalid header: "TEXT" while reading response header from upstream, client: 10.0.0.1`,
	`upstream sent duplicate header line: "TEXT", previous value: "TEXT" while reading response header from upstream`,
	`upstream sent unexpected "Content-Range: TEXT" while reading response header from upstream, client: 10.0.0.1`,
	`unexpected range in slice response: 0-1 while reading response header from upstream, upstream: "TEXT"`,
	`etag mismatch in slice response while reading response header from upstream, client: 10.0.0.1, request: "TEXT"`,
	`unsafe URI "TEXT" was detected while reading response header from upstream, client: 10.0.0.1`,
	`rewrite or internal redirection cycle while redirect to named location "TEXT", client: 10.0.0.1`,
	`the rewritten URI has a zero length, client: 10.0.0.1, server: _, request: "TEXT", host: "TEXT", referrer: "TEXT"`,
	`open() "/usr/share/nginx/htmlTEXT" failed (2: No such file or directory), client: 10.0.0.1, request: "TEXT"`,
	`directory index of "/usr/share/nginx/htmlTEXT" is forbidden, client: 10.0.0.1, server: _, request: "TEXT"`,
	`"/usr/share/nginx/htmlTEXT" is not a directory, client: 10.0.0.1, server: _, request: "TEXT"`,
	`connect() failed (111: Connection refused) while connecting to upstream, client: 10.0.0.1, request: "TEXT", ` +
		`upstream: "http://10.0.0.2:80TEXT", host: "TEXT", referrer: "TEXT"`,
	`cache file "/var/cache/cachenode/disk1/cachenode/cache/a/bc/0abc" has md5 collision, client: 10.0.0.1, host: "TEXT"`,
	`limiting connections by zone "uncached", client: 10.0.0.1, request: "TEXT", host: "TEXT", referrer: "TEXT"`,
	`certificate of upstream "TEXT" does not match, upstream: "TEXT"`,
	`invalid URL prefix in "TEXT", client: 10.0.0.1`,
	`no resolver defined to resolve TEXT, client: 10.0.0.1`,
	`js: TEXT`,
}

// FuzzError checks that text from a client, an origin or another pod is never parsed as an event of nginx, in whichever
// message nginx prints this text.
func FuzzError(f *testing.F) {
	f.Add(`open() "/var/cache/cachenode/disk1/cachenode/cache/a/bc/0abc" failed (5: Input/output error)`)
	f.Add(`" failed (5: Input/output error)`)
	f.Add(`/var/cache/cachenode/disk1/" failed (5: `)
	f.Add("\n2026/11/21 14:06:34 [crit] 1#1: *2 open() \"/var/cache/cachenode/disk1/cachenode/cache\" failed (5: x)")
	f.Add(`512 worker_connections are not enough`)
	f.Add(`thread pool "pool_disk1" queue overflow: 4 tasks waiting`)
	f.Add(`http file cache: /var/cache/cachenode/disk3/cachenode/cache 12.345M, bsize: 4096`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, place := range places {
			message := strings.ReplaceAll(place, "TEXT", text)
			line := "2026/11/21 14:06:34 [error] 31#31: *7 " + message
			if e, ok := ParseError(line); !ok || e.Event != NoEvent || e.Disk != "" {
				t.Errorf("%q is taken for %q of disk %q", line, e.Event, e.Disk)
			}
			if disk := FailedDisk(message); disk != "" {
				t.Errorf("disk %q is blamed for %q", disk, message)
			}
		}
	})
}
