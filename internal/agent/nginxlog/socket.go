package nginxlog

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// receiveBuffer is how much the kernel keeps while the agent is busy; beyond it nginx drops lines, and never waits.
const receiveBuffer = 4 << 20

// Handler takes what nginx reports. Both methods are called from one goroutine.
type Handler interface {
	Request(Request)
	Error(Error)
}

// Listen makes the socket, in place of one that an earlier agent has left.
func Listen(path string) (*net.UnixConn, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	_ = socket.SetReadBuffer(receiveBuffer) // the kernel may allow less
	return socket, nil
}

// Serve reads the socket until the context ends. Lines that are in no known format are passed over.
func Serve(ctx context.Context, socket *net.UnixConn, handler Handler) {
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	buffer := make([]byte, 64<<10)
	for {
		size, err := socket.Read(buffer)
		if err != nil {
			return
		}
		tag, text, ok := Split(string(buffer[:size]))
		if !ok {
			continue
		}
		if tag == agentapi.TagError {
			if e, ok := ParseError(text); ok {
				handler.Error(e)
			}
		} else if r, ok := ParseRequest(tag, text); ok {
			handler.Request(r)
		}
	}
}
