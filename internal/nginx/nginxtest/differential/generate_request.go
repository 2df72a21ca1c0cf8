package differential

import (
	"fmt"
	"net/http"
)

// request generates a request. now is the resource that the origin serves at that time.
func (g generator) request(number int, all []Resource, now Resource) Request {
	q := Request{
		Number: number, Method: g.method(), Header: http.Header{}, Pod: g.IntN(max(g.shape.Pods, 1)),
		Protocol: pick(g, g.shape.Protocols...),
	}
	q.Header.Set(requestHeader, fmt.Sprint(number))
	if g.often(4) {
		q.Header.Set("X-Color", pick(g, "red", "blue"))
	}
	if g.often(3) {
		q.Header.Set("Accept-Encoding", pick(g, "gzip", "identity", "gzip, br"))
	}
	if g.often(1) {
		q.Header.Set("Authorization", "Basic eA==")
	}
	if g.often(1) {
		q.Header.Set("Cookie", "session=b")
	}
	if g.often(4) {
		g.conditions(q.Header, all)
	}
	if g.often(4) {
		q.Header.Set("Range", g.ranges(now.size))
		if g.often(3) {
			q.Header.Set("If-Range", pick(g, g.tag(all), modified(g.IntN(len(all)))))
		}
	}
	if q.Method == http.MethodPost {
		q.Body = pick(g, "", "a=b")
	}
	return q
}

func (g generator) method() string {
	switch n := g.IntN(20); {
	case n < 14:
		return http.MethodGet
	case n < 18:
		return http.MethodHead
	case n < 19:
		return http.MethodPost
	}
	return http.MethodOptions
}

// tag returns an entity tag. It is one of the origin's own tags, strong or weak, or a different tag.
func (g generator) tag(all []Resource) string {
	own := all[g.IntN(len(all))].Header.Get("ETag")
	if own == "" || g.often(2) {
		return pick(g, `"other"`, `W/"other"`, `W/"tag0"`, `"tag1"`)
	}
	return own
}

// conditions adds one condition or two.
func (g generator) conditions(header http.Header, all []Resource) {
	for range 1 + g.IntN(2) {
		date := pick(g, modified(g.IntN(len(all))), "Mon, 23 Nov 2026 09:00:00 GMT", "Mon, 23 Nov 2026 11:00:00 GMT")
		switch g.IntN(6) {
		case 0, 1:
			header.Set("If-None-Match", pick(g, g.tag(all), g.tag(all), `"other", `+g.tag(all), "*"))
		case 2, 3:
			header.Set("If-Modified-Since", date)
		case 4:
			header.Set("If-Match", pick(g, g.tag(all), g.tag(all), "*"))
		default:
			header.Set("If-Unmodified-Since", date)
		}
	}
}

// ranges generates a Range for a body of the given size. The ends of the range are often the ends of a slice or of
// the body.
func (g generator) ranges(size int) string {
	const slice = 1 << 20
	at := func() int {
		return max(pick(g, 0, 1, g.IntN(size+1), g.IntN(size+1), slice-1, slice, size-1, size, size+slice), 0)
	}
	first := at()
	last := first + pick(g, 0, 1, 99, g.IntN(size+1), slice)
	switch n := g.IntN(20); {
	case n < 8:
		return fmt.Sprintf("bytes=%d-%d", first, last)
	case n < 11:
		return fmt.Sprintf("bytes=%d-", first)
	case n < 14:
		return fmt.Sprintf("bytes=-%d", at())
	case n < 17:
		return fmt.Sprintf("bytes=0-0,%d-%d", first, last)
	case n < 18:
		return "bytes=0-9,20-29,-5"
	}
	return pick(g, "bytes=5-3", "chunks=1-2", fmt.Sprintf("bytes=%d-9223372036854775807", first), "bytes=a-b")
}
