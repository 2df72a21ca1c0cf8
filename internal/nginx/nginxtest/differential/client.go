package differential

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/test/await"
)

// The errors of a message. ErrCut means that a response ends early. ErrHangs means that a response does not end.
var (
	ErrCut   = errors.New("the response ends early")
	ErrHangs = errors.New("the response never ends")
	// errClosed means that the server closed a kept connection before it sent a byte of the response.
	errClosed = errors.New("the kept connection has closed")
)

// Client sends the requests of a case over HTTP/1. For HTTP/1.1, it uses one connection to each pod for as long as the
// server keeps the connection open.
type Client struct {
	// Dial connects to a pod.
	Dial func(pod int) (net.Conn, error)
	// Host is the value of the header Host in all requests.
	Host        string
	connections map[int]*connection
}

type connection struct {
	net.Conn
	reader *bufio.Reader
	// mayClose is true after a response that did not contain the whole body. nginx still fetches the body in this case. It
	// closes the client's connection if the origin cuts the body short, and also after its own 412. After any other
	// response, nginx must keep the connection open.
	mayClose bool
}

// Close closes all connections.
func (c *Client) Close() {
	for _, connection := range c.connections {
		_ = connection.Close()
	}
	c.connections = nil
}

// Do sends a request and reads the response to its last byte.
func (c *Client) Do(path string, q Request) Response {
	if q.Protocol == HTTP10 {
		return c.once(path, q)
	}
	if c.connections == nil {
		c.connections = map[int]*connection{}
	}
	connection := c.connections[q.Pod]
	if connection == nil {
		var err error
		if connection, err = c.connect(q.Pod); err != nil {
			return Response{Err: err}
		}
		c.connections[q.Pod] = connection
	}
	mayClose := connection.mayClose
	r, stays := connection.exchange(c.Host, path, q)
	if !stays {
		_ = connection.Close()
		delete(c.connections, q.Pod)
	}
	if mayClose && errors.Is(r.Err, errClosed) {
		return c.Do(path, q) // RFC 9112, section 9.3.1
	}
	return r
}

// once sends a request on a new connection, and closes the connection after the response.
func (c *Client) once(path string, q Request) Response {
	connection, err := c.connect(q.Pod)
	if err != nil {
		return Response{Err: err}
	}
	defer func() { _ = connection.Close() }()
	r, _ := connection.exchange(c.Host, path, q)
	return r
}

func (c *Client) connect(pod int) (*connection, error) {
	plain, err := c.Dial(pod)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: plain, reader: bufio.NewReaderSize(plain, 32<<10)}, nil
}

// exchange sends a request and reads the response. stays is true if the connection can be used for another request.
func (c *connection) exchange(host, path string, q Request) (r Response, stays bool) {
	if err := c.SetDeadline(await.Deadline()); err != nil {
		return Response{Err: err}, false
	}
	if _, err := c.Write(message(host, path, q)); err != nil {
		return Response{Err: fmt.Errorf("%w: %w", errClosed, err)}, false
	}
	if _, err := c.reader.Peek(1); err != nil && !errors.Is(problem(err), ErrHangs) {
		return Response{Err: fmt.Errorf("no response: %w: %w", errClosed, ErrCut)}, false
	}
	response, err := http.ReadResponse(c.reader, &http.Request{Method: q.Method})
	if err != nil {
		return Response{Err: fmt.Errorf("no response: %w", problem(err))}, false
	}
	r = read(response)
	if q.Protocol == HTTP10 && len(response.TransferEncoding) > 0 {
		r.Err = errors.New("HTTP/1.0 knows no Transfer-Encoding")
	}
	if r.Err == nil && !response.Close && c.reader.Buffered() > 0 {
		r.Err = fmt.Errorf("%d bytes come after the end of the response", c.reader.Buffered())
	}
	c.mayClose = q.Method == http.MethodHead || slices.Contains([]int{206, 304, 412, 416}, r.Status)
	return r, r.Err == nil && !response.Close
}

// message returns the bytes of a request.
func message(host, path string, q Request) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\n", q.Method, path, q.Protocol, host)
	for name, values := range q.Header {
		for _, value := range values {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	if q.Body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(q.Body))
	}
	b.WriteString("\r\n" + q.Body)
	return b.Bytes()
}

// DoWith sends a request with a client of net/http. It is for protocols that this package does not read byte by byte.
func DoWith(ctx context.Context, client *http.Client, url string, q Request) Response {
	ctx, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, q.Method, url, strings.NewReader(q.Body))
	if err != nil {
		return Response{Err: err}
	}
	if q.Body == "" {
		request.Body, request.ContentLength = http.NoBody, 0
	}
	request.Header = q.Header.Clone()
	response, err := client.Do(request)
	if err != nil {
		if err = problem(err); !errors.Is(err, ErrHangs) {
			err = fmt.Errorf("%w: %w", ErrCut, err)
		}
		return Response{Err: fmt.Errorf("no response: %w", err)}
	}
	r := read(response)
	if want := strings.TrimPrefix(string(q.Protocol), "HTTP/"); r.Err == nil && fmt.Sprint(response.ProtoMajor) != want {
		r.Err = fmt.Errorf("the response is %s", response.Proto)
	}
	return r
}

// read reads the body of a response.
func read(response *http.Response) Response {
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	header := response.Header
	if err != nil {
		if err = problem(err); !errors.Is(err, ErrHangs) {
			err = fmt.Errorf("%w: %w", ErrCut, err) // over HTTP/2 and HTTP/3, the server resets the stream
		}
		err = fmt.Errorf("%w: %d of %d bytes came", err, len(content), response.ContentLength)
	}
	return Response{Status: response.StatusCode, Header: header, Body: content, Err: err}
}

// problem returns ErrHangs or ErrCut for errors with one of these meanings. It returns any other error unchanged.
func problem(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return ErrHangs
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ErrCut
	}
	return err
}
