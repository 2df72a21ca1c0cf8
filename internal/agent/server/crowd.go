package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// crowd limits the number of connections of a server. If a new connection exceeds the limit, crowd closes the
// connection that has waited longest for a complete request. So clients that send nothing cannot keep the kubelet out.
// If all connections are being answered, crowd closes the new connection. The type is safe for concurrent use.
type crowd struct {
	most int

	mutex sync.Mutex
	// waiting contains a number for each connection. The numbers grow, so the connection with the lowest number has
	// waited longest. A connection that is being answered has the number answering.
	waiting map[*member]int64
	last    int64
}

// answering is the number of a connection whose request is being answered.
const answering = -1

// member is a connection of a crowd.
type member struct {
	net.Conn
	crowd *crowd
}

// Close implements net.Conn.
func (m *member) Close() error {
	m.crowd.mutex.Lock()
	delete(m.crowd.waiting, m)
	m.crowd.mutex.Unlock()
	return m.Conn.Close()
}

func newCrowd(most int) *crowd { return &crowd{most: most, waiting: map[*member]int64{}} }

// add adds a connection. If there are then too many connections, add closes one of them.
func (c *crowd) add(connection net.Conn) net.Conn {
	m := &member{connection, c}
	c.mutex.Lock()
	var ends *member
	if len(c.waiting) >= c.most {
		ends = c.longest(m)
	}
	if ends != m {
		c.last++
		c.waiting[m] = c.last
	}
	c.mutex.Unlock()
	if ends != nil {
		_ = ends.Close()
	}
	return m
}

// longest returns the connection that has waited longest for a request. If no connection waits, it returns the
// parameter other. The caller holds the mutex.
func (c *crowd) longest(other *member) *member {
	found, lowest := other, c.last+1
	for m, number := range c.waiting {
		if number != answering && number < lowest {
			found, lowest = m, number
		}
	}
	return found
}

// set records whether a request of a connection is being answered. If not, the connection waits for its next request.
func (c *crowd) set(m *member, isAnswered bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if _, known := c.waiting[m]; !known {
		return // the connection was closed
	}
	c.last++
	c.waiting[m] = c.last
	if isAnswered {
		c.waiting[m] = answering
	}
}

// listener is a listener that adds its connections to a crowd.
type listener struct {
	net.Listener
	crowd *crowd
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.crowd.add(connection), nil
}

// memberKey is the key under which the context of a request stores the connection.
type memberKey struct{}

// withMember returns a context with the connection. It is the ConnContext of a server whose connections are in a crowd.
func withMember(ctx context.Context, connection net.Conn) context.Context {
	if encrypted, ok := connection.(*tls.Conn); ok {
		connection = encrypted.NetConn()
	}
	return context.WithValue(ctx, memberKey{}, connection)
}

// handler tells the crowd which connections are being answered.
func (c *crowd) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m, ok := r.Context().Value(memberKey{}).(*member); ok {
			c.set(m, true)
			defer c.set(m, false)
		}
		next.ServeHTTP(w, r)
	})
}
