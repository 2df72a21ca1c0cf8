package nginxlog

import (
	"context"
	"net"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// receiveBuffer is how much the kernel is asked to keep while the agent is busy; it may allow less. What comes beyond it
// is lost: nginx never waits.
const receiveBuffer = 4 << 20

// Handler takes what nginx reports. Both methods are called from one goroutine.
type Handler interface {
	Request(Request)
	Error(Error)
}

// Listen opens the socket that nginx reports to. It is not a unix socket, as the kernel keeps no more than 10 datagrams of
// one (net.unix.max_dgram_qlen): a burst of requests would be lost.
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

// Serve reads the socket until the context ends. Lines that are in no known format are passed over.
func Serve(ctx context.Context, socket net.PacketConn, handler Handler) {
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	buffer := make([]byte, 64<<10)
	for {
		size, _, err := socket.ReadFrom(buffer)
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
