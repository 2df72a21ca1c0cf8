package nginxlog

import (
	"context"
	"net"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// receiveBuffer is the requested size of the socket's receive buffer in bytes, for lines that arrive while the agent
// is busy. The kernel may choose a smaller buffer. Lines that exceed the buffer are lost: nginx never waits.
const receiveBuffer = 4 << 20

// pause is how long lines may wait in the socket before the agent reads them. Without the pause, each line would wake
// the agent, which costs more than reading the line.
const pause = 50 * time.Millisecond

// Handler receives the lines that nginx sends, after they were parsed. Its methods are called from one goroutine.
type Handler interface {
	Request(Request)
	Error(Error)
	// Unsafe is called with the URL of a request that has changed something at the origin.
	Unsafe(url string)
}

// Listen opens the UDP socket to which nginx sends its logs. With a Unix socket, bursts of requests would be lost,
// because the kernel queues at most 10 datagrams of such a socket (net.unix.max_dgram_qlen).
func Listen(ctx context.Context, address string) (net.PacketConn, error) {
	socket, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	if udp, ok := socket.(*net.UDPConn); ok {
		_ = udp.SetReadBuffer(receiveBuffer)
	}
	return socket, nil
}

// Serve reads the socket until the context ends. Lines in an unknown format are skipped.
func Serve(ctx context.Context, socket net.PacketConn, handler Handler) {
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	buffer := make([]byte, 64<<10)
	for {
		begun := time.Now()
		size, _, err := socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		waited := time.Since(begun) > time.Millisecond // the socket was empty
		tag, text, ok := Split(string(buffer[:size]))
		if !ok {
			continue
		}
		switch tag {
		case agentapi.TagUnsafe:
			handler.Unsafe(text)
		case agentapi.TagError:
			if e, ok := ParseError(text); ok {
				handler.Error(e)
			}
		default:
			if r, ok := ParseRequest(tag, text); ok {
				handler.Request(r)
			}
		}
		if waited {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}
