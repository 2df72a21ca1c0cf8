// Package server provides the three HTTP servers of the agent. The first serves health and metrics without TLS. The
// second serves reports, only to the operator: client and server authenticate by certificates. The third serves
// programs in the pod.
//
// It may import agentapi, objects, purge and naming. A new request needs a route with its limits. The code that
// answers it is a parameter of Plain, Reports or Local.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// Plain serves health and metrics. started reports whether nginx may start, and ready reports whether nginx serves.
func Plain(metrics http.Handler, started func() bool, ready func(context.Context) bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /started", func(w http.ResponseWriter, _ *http.Request) {
		if !started() {
			http.Error(w, "there is no configuration for nginx yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if !ready(r.Context()) {
			http.Error(w, "nginx does not answer", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", metrics)
	return mux
}

// maxUpdate is the maximum size in bytes of a request with purges.
const maxUpdate = 64 << 20

// purgeWait is the longest time for which an answer waits until the purges are applied.
const purgeWait = time.Second

// Purger receives and applies purges, see package purge of the agent.
type Purger interface {
	Receive(purge.Update) error
	Wait(ctx context.Context, place int64)
	Done(after int64) purge.Done
}

// maxAddresses is the maximum size in bytes of a request with addresses.
const maxAddresses = 256 << 10

// Reports serves the agent's report. It receives purges and the addresses of the other pods.
func Reports(report func() agentapi.Report, purger Purger, tell func(agentapi.Addresses)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.ReportPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report()) // the client went away
	})
	mux.HandleFunc("PUT "+purge.Path, func(w http.ResponseWriter, r *http.Request) {
		var update purge.Update
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxUpdate)).Decode(&update); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if purger.Receive(update) == nil {
			ctx, cancel := context.WithTimeout(r.Context(), purgeWait)
			defer cancel()
			purger.Wait(ctx, update.Head)
		} // otherwise, the head in the answer shows which rules are missing
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(purger.Done(update.After)) // the client went away
	})
	mux.HandleFunc("PUT "+agentapi.AddressesPath, func(w http.ResponseWriter, r *http.Request) {
		var addresses agentapi.Addresses
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAddresses)).Decode(&addresses); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		tell(addresses)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// maxQuery is the maximum size in bytes of a query. After listTimeout, the agent answers without the objects that a
// disk has not returned yet, because the plugin waits for two minutes only. After copyTimeout, the agent stops
// looking for a copy, because the plugin waits for ten seconds only.
const (
	maxQuery    = 8 << 20
	listTimeout = 100 * time.Second
	copyTimeout = 8 * time.Second
)

// Caches finds cached objects, see package purge of the agent.
type Caches interface {
	List(context.Context, objects.Query) (objects.Answer, error)
	Copy(context.Context, objects.Lookup) (objects.Copy, error)
}

// Local tells programs in the pod which objects are cached.
func Local(caches Caches) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+objects.Path, answers(caches.List, listTimeout))
	mux.HandleFunc("POST "+objects.CopyPath, answers(caches.Copy, copyTimeout))
	return mux
}

// answers returns a handler that reads a query as JSON, and answers it within the given time.
func answers[Q, A any](ask func(context.Context, Q) (A, error), within time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var question Q
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuery))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&question); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		answer, err := ask(ctx, question)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client went away
	}
}

// TLS returns a configuration that reads the key, the certificate and the authority from the folder for each
// connection. There are few connections, and the kubelet replaces the files when the operator rotates them.
func TLS(dir string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			certificate, err := tls.LoadX509KeyPair(
				filepath.Join(dir, naming.ServerCertificateKey), filepath.Join(dir, naming.ServerKeyKey))
			if err != nil {
				return nil, err
			}
			authority, err := os.ReadFile(filepath.Join(dir, naming.AuthorityKey)) //nolint:gosec // the path is ours
			if err != nil {
				return nil, err
			}
			clients := x509.NewCertPool()
			if !clients.AppendCertsFromPEM(authority) {
				return nil, errors.New("no certificate in " + naming.AuthorityKey)
			}
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				Certificates: []tls.Certificate{certificate},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    clients,
				// The authority also signs certificates for agents.
				VerifyConnection: isOperator,
			}, nil
		},
	}
}

// ListenLocal listens on a socket in the file system that only this user can open. It replaces the socket of an agent
// that has ended.
func ListenLocal(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Limits are the limits that a server sets for its clients.
type Limits struct {
	// Connections is the largest number of connections at a time.
	Connections int
	// Read is how long a client may take to send a request. Write is how long the answer may take.
	Read, Write time.Duration
}

// The limits of the agent's servers. Health and metrics are open to everyone who reaches the pod. The server for
// reports gets requests of up to maxUpdate bytes. The local server answers after up to listTimeout.
var (
	PlainLimits  = Limits{Connections: 128, Read: 10 * time.Second, Write: 30 * time.Second}
	ReportLimits = Limits{Connections: 32, Read: time.Minute, Write: 90 * time.Second}
	LocalLimits  = Limits{Connections: 16, Read: time.Minute, Write: 5 * time.Minute}
)

// headerTimeout is how long a client may take to send the header of a request, and to agree on TLS. idleTimeout is how
// long a connection stays open without a request.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Serve serves on a TCP address until the context ends. tlsConfig is nil for plain text.
func Serve(
	ctx context.Context, address string, handler http.Handler, tlsConfig *tls.Config, limits Limits,
) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return ServeOn(ctx, listener, handler, tlsConfig, limits)
}

// ServeOn does the same as Serve on an existing listener. It closes the listener at the end.
func ServeOn(
	ctx context.Context, on net.Listener, handler http.Handler, tlsConfig *tls.Config, limits Limits,
) error {
	crowd := newCrowd(limits.Connections)
	on = listener{on, crowd}
	if tlsConfig != nil {
		on = tls.NewListener(on, tlsConfig)
	}
	server := newServer(crowd.handler(handler), limits)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func newServer(handler http.Handler, limits Limits) *http.Server {
	return &http.Server{
		Handler: handler, ConnContext: withMember, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: min(headerTimeout, limits.Read), ReadTimeout: limits.Read, WriteTimeout: limits.Write,
		IdleTimeout: idleTimeout,
	}
}

// isOperator refuses certificates that the operator's authority has signed for anybody but the operator.
func isOperator(state tls.ConnectionState) error {
	if name := state.PeerCertificates[0].Subject.CommonName; !strings.HasPrefix(name, naming.OperatorSubject+" ") {
		return fmt.Errorf("%q is not the operator", name)
	}
	return nil
}
