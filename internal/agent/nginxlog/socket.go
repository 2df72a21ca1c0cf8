package nginxlog

import (
	"context"
	"net"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// receiveBuffer is how many bytes the kernel is asked to keep while the agent is busy; it may keep fewer. What exceeds
// the buffer is lost: nginx never waits.
const receiveBuffer = 4 << 20

// pause is how long lines may wait in the socket. Without it each line would wake the agent, which costs more than
// reading it.
const pause = 50 * time.Millisecond

// Handler receives what nginx reports. Its methods are called from one goroutine.
type Handler interface {
	Request(Request)
	Error(Error)
	// Unsafe is called with the URL of a request that has changed something at the origin.
	Unsafe(url string)
}

// Listen opens the socket that nginx sends its logs to. It is not a unix socket, because the kernel queues at most 10
// datagrams of a unix socket (net.unix.max_dgram_qlen), so that a burst of requests would be lost.
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
