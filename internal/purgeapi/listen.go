package purgeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// These are the limits of connections. answerTimeout includes the time to read the body, to create the CachePurge and
// to wait for MaxTimeout.
const (
	headerTimeout   = 10 * time.Second
	answerTimeout   = MaxTimeout + gatherTimeout + bodyTimeout + 10*time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = gatherTimeout + 5*time.Second
	maxHeader       = 32 << 10
)

// Listener serves a handler over TLS. It is a manager.Runnable.
type Listener struct {
	Address string
	// CertFile and KeyFile are the paths of the certificate and the key. The files are read again when they change.
	// Without files, Listener uses a new self-signed certificate, which clients cannot verify.
	CertFile, KeyFile string
	Handler           http.Handler

	isListening atomic.Bool
}

// Ready returns nil while the listener accepts connections, and an error otherwise.
func (l *Listener) Ready(*http.Request) error {
	if !l.isListening.Load() {
		return errors.New("it does not take connections yet")
	}
	return nil
}

// Start serves until the context ends. At that time, requests that wait for a purge get their answers at once.
func (l *Listener) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	config, err := l.tls(ctx, group)
	if err != nil {
		return err
	}
	plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: l.Handler, TLSConfig: config,
		ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(logr.ToSlogHandler(ctrl.Log.WithName("http").V(1)), slog.LevelInfo),
	}
	group.Go(func() error {
		if err := server.ServeTLS(plain, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		l.isListening.Store(false)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		return server.Shutdown(ending)
	})
	l.isListening.Store(true)
	return group.Wait()
}

// tls returns the configuration with the certificate of the files. It watches the files until the context ends.
// Without files, it returns the configuration with a new self-signed certificate.
func (l *Listener) tls(ctx context.Context, group *errgroup.Group) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.CertFile != "" {
		watcher, err := certwatcher.New(l.CertFile, l.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the certificate: %w", err)
		}
		group.Go(func() error { return watcher.Start(ctx) })
		config.GetCertificate = watcher.GetCertificate
		return config, nil
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}}, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}
