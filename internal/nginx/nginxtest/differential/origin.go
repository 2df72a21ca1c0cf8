package differential

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Origin answers for the URLs of all cases. Each URL has its own path.
type Origin struct {
	mutex sync.Mutex
	urls  map[string]*URL
}

// URL is one URL of the origin.
type URL struct {
	mutex sync.Mutex
	c     Case
	// now is the index of the resource that the origin serves. represented contains the representations that the origin
	// has served so far, by version.
	now         int
	represented map[string]*Representation
	failing     bool
	failure     int
	exchanges   []Exchange
}

// Add adds the URL of a case.
func (o *Origin) Add(path string, c Case) *URL {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.urls == nil {
		o.urls = map[string]*URL{}
	}
	u := &URL{c: c, represented: map[string]*Representation{}}
	o.urls[path] = u
	return u
}

// Exchanges returns the requests to the origin and its answers so far.
func (u *URL) Exchanges() []Exchange {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return append([]Exchange(nil), u.exchanges...)
}

// Do carries out the part of a step that changes the origin.
func (u *URL) Do(step Step) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	switch step.Action {
	case Change:
		u.now = min(u.now+1, len(u.c.Resources)-1)
	case Fail:
		u.failing, u.failure = true, step.Failure
	case Mend:
		u.failing = false
	case Ask, Expire, Purge:
	}
}

// ServeHTTP answers all requests of a connection. It writes the answers itself, so that it can also send bytes that
// net/http would not send.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	connection, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = connection.Close() }()
	for o.answer(connection, r) {
		if r, err = http.ReadRequest(buffered.Reader); err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// answer answers a request. It returns false if the connection must be closed.
func (o *Origin) answer(connection net.Conn, r *http.Request) bool {
	o.mutex.Lock()
	u := o.urls[r.URL.Path]
	o.mutex.Unlock()
	if u == nil {
		_, err := io.WriteString(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	}
	e, spans := u.exchange(r)
	if e.Of == nil {
		return false
	}
	writer := bufio.NewWriter(connection)
	stays := write(writer, e, spans)
	return writer.Flush() == nil && stays
}

// exchange chooses the answer to a request, and records the request and the answer.
func (u *URL) exchange(r *http.Request) (e Exchange, spans []span) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	number, _ := strconv.Atoi(r.Header.Get(requestHeader))
	e = Exchange{Request: number, Method: r.Method, Header: r.Header.Clone(), Answer: len(u.exchanges)}
	if r.ContentLength > 0 {
		e.Header.Set("Content-Length", fmt.Sprint(r.ContentLength))
	}
	e.Of = u.represent(r.Header)
	if e.Of != nil {
		header := r.Header
		if !e.Of.Ranges {
			header = without(header, "Range")
		}
		o := evaluate(e.Of, r.Method, header)
		e.Status, spans = o.status, o.spans
		if len(spans) > 1 { // this origin ignores a Range with several ranges
			e.Status, spans = e.Of.Status, nil
		}
	}
	u.exchanges = append(u.exchanges, e)
	return e, spans
}

// represent returns the representation for a request; nil means that the origin closes the connection.
func (u *URL) represent(header http.Header) *Representation {
	if u.failing && u.failure == 0 {
		return nil
	}
	of := u.c.Resources[u.now].Represent(header)
	if u.failing {
		of = Failure(u.failure)
	}
	if before, ok := u.represented[of.Version]; ok {
		return before
	}
	u.represented[of.Version] = of
	return of
}

// write writes the answer of an exchange. It returns false if the origin must close the connection after the answer.
// This is so if the end of the connection marks the end of the body, or if the body is cut.
func write(w io.Writer, e Exchange, spans []span) (stays bool) {
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n%s: %d\r\n", e.Status, http.StatusText(e.Status), AnswerHeader, e.Answer)
	header, content := e.Of.Header, e.Of.Body
	switch {
	case e.Status == http.StatusPartialContent && len(spans) == 1:
		header = header.Clone()
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", spans[0].first, spans[0].last, len(content)))
		content = content[spans[0].first : spans[0].last+1]
	case e.Status == http.StatusRequestedRangeNotSatisfiable && e.Status != e.Of.Status:
		header = without(header, "Content-Type", "ETag", "Last-Modified")
		header.Set("Content-Range", fmt.Sprintf("bytes */%d", len(content)))
		content = nil
	case e.Status != e.Of.Status:
		header = without(header, "Content-Type")
		content = nil
	}
	for name, values := range header {
		for _, value := range values {
			fmt.Fprintf(&head, "%s: %s\r\n", name, value)
		}
	}
	framing := e.Of.Framing
	if !hasBody(e.Status) {
		framing = ""
	}
	switch framing {
	case Length:
		fmt.Fprintf(&head, "Content-Length: %d\r\n", len(content))
	case Chunked:
		head.WriteString("Transfer-Encoding: chunked\r\n")
	case Close:
		head.WriteString("Connection: close\r\n")
	}
	head.WriteString("\r\n")
	_, _ = w.Write(head.Bytes()) // the caller notices a failure when it flushes the writer
	if e.Method == http.MethodHead || framing == "" {
		return framing != Close
	}
	isCut := e.Of.IsCut && len(content) > 1
	if isCut {
		content = content[:len(content)/2]
	}
	if framing == Chunked {
		text := chunks(content)
		if isCut {
			text = strings.TrimSuffix(text, lastChunk)
		}
		_, _ = io.WriteString(w, text)
	} else {
		_, _ = w.Write(content)
	}
	return framing != Close && !isCut
}

const lastChunk = "0\r\n\r\n"

// chunks returns a body in chunks.
func chunks(content []byte) string {
	var b strings.Builder
	for len(content) > 0 {
		n := min(len(content), 9000)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, content[:n])
		content = content[n:]
	}
	return b.String() + lastChunk
}
