package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"

	"github.com/cachenode/cachenode-operator/internal/agent/metrics"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agent/server"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// Addresses are the addresses on which the agent serves: Plain for health and metrics, Reports for the operator.
type Addresses struct{ Plain, Reports string }

// Serve runs the conductor, the log reader, the resolver, the file watcher and the HTTP servers until the context ends.
func (a *Agent) Serve(ctx context.Context, addresses Addresses, certificates *tls.Config) error {
	socket, err := nginxlog.Listen(ctx, layout.LogAddress)
	if err != nil {
		return fmt.Errorf("the log socket: %w", err)
	}
	udp, tcp, err := listenForNames(ctx, layout.ResolverAddress)
	if err != nil {
		return err
	}
	watcher, err := a.watchFiles()
	if err != nil {
		return err
	}
	local, err := server.ListenLocal(ctx, a.Paths.Root+layout.AgentSocket)
	if err != nil {
		return fmt.Errorf("the agent's socket: %w", err)
	}
	a.metrics.Register(&metrics.NginxCollector{URL: a.Nginx.URL, Client: a.Nginx.Client})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { a.Run(ctx); return nil })
	group.Go(func() error { nginxlog.Serve(ctx, socket, a); return nil })
	group.Go(func() error { return a.serveNames(ctx, udp, tcp) })
	group.Go(func() error { return a.follow(ctx, watcher) })
	group.Go(func() error {
		plain := server.Plain(a.metrics.Handler(), a.Started, a.Ready)
		return server.Serve(ctx, addresses.Plain, plain, nil, server.PlainLimits)
	})
	group.Go(func() error {
		reports := server.Reports(a.Report, a.purger, a.resolver.Tell)
		return server.Serve(ctx, addresses.Reports, reports, certificates, server.ReportLimits)
	})
	group.Go(func() error { return server.ServeOn(ctx, local, server.Local(a.purger), nil, server.LocalLimits) })
	group.Go(func() error { a.purger.Run(ctx); return nil })
	return group.Wait()
}

// watchFiles watches the folders that the kubelet writes. The kubelet replaces a symbolic link in each folder, so a
// watch on a file would miss the change.
func (a *Agent) watchFiles() (*fsnotify.Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{
		a.Paths.Config, a.Paths.PodInfo, a.Paths.Listener, a.Paths.Peer, a.Paths.Purges, a.Paths.Certificates,
	} {
		if err := watcher.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	return watcher, nil
}

func (a *Agent) follow(ctx context.Context, watcher *fsnotify.Watcher) error {
	defer func() { _ = watcher.Close() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			a.Wake()
		case err := <-watcher.Errors:
			a.Log.Warn("watching files", "error", err) // the agent also reads the files every fileInterval
		}
	}
}

// askNginx asks nginx's program for its version, and whether it has the module for scripts. Once both are known, it
// does not ask again: the image does not change during the life of the pod. Only the conductor calls it.
func (c *conductor) askNginx(ctx context.Context) {
	if c.asked {
		return
	}
	version, failure := c.Nginx.ProgramVersion(ctx)
	if failure != nil {
		c.Log.Warn("nginx -v", "error", failure)
	}
	scripts, err := c.Nginx.HasScripts(ctx)
	if err != nil {
		c.Log.Warn("asking nginx whether it has its module for scripts", "error", err)
	}
	c.asked = failure == nil && err == nil
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.nginx, c.scripts, c.noScripts = version, scripts, err == nil && !scripts
}

// LocalClient returns a client for nginx's private port. The client does not keep connections open: a kept connection
// would lead to an old worker.
func LocalClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}
