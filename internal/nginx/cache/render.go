// Package cache turns a CacheNode into nginx's configuration. It is pure: operator, agent and kubectl plugin render the
// same bytes from the same input.
package cache

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// Input is all that the configuration depends on.
type Input struct {
	// Namespace is the CacheNode's; Services without a namespace are looked for there.
	Namespace string
	// Spec is valid and has the CRD's defaults.
	Spec v1alpha1.CacheNodeSpec
	// Plan says which disk owns which keys.
	Plan shard.Plan
	// CABundle is the PEM text with which the origin's certificate is checked; empty for the image's own authorities.
	CABundle string
	Facts    Facts
}

// Facts are what the spec does not say but the place where nginx runs.
type Facts struct {
	// Workers is the number of worker processes; 0 means one for each core ("auto").
	Workers int32
	// Resolvers are the addresses of the DNS servers that nginx asks.
	Resolvers []string
	// ClusterDomain is the domain of the cluster's Services, usually cluster.local.
	ClusterDomain string
}

// Config is a rendered configuration.
type Config struct {
	// Text is the content of nginx.conf.
	Text string
	// Revision is a hash of all that nginx reads. The running nginx answers with it on the private port.
	Revision string
}

// Render renders the configuration. An error means that a string got past validation which must not stand in a
// configuration; its text names the directive.
func Render(in Input) (Config, error) {
	text, err := conf.Write(file(in, ""))
	if err != nil {
		return Config{}, err
	}
	sum := sha256.Sum256([]byte(text + "\x00" + in.CABundle))
	revision := hex.EncodeToString(sum[:])[:12]
	text, err = conf.Write(file(in, revision))
	return Config{Text: text, Revision: revision}, err
}

// file is the whole of nginx.conf. Everything that an image could have set otherwise is set here.
func file(in Input, revision string) conf.Block {
	workers := conf.Argument(conf.Literal("auto"))
	if in.Facts.Workers > 0 {
		workers = conf.Int(in.Facts.Workers)
	}
	block := conf.Block{
		conf.D("daemon", conf.OnOff(false)),
		conf.D("pid", conf.Literal(naming.PIDFile)),
		conf.D("error_log", conf.Literal("stderr"), conf.Literal(logLevels[in.Spec.Logs.Level])),
		conf.D("worker_processes", workers),
		conf.D("worker_rlimit_nofile", conf.Int(4*workerConnections)),
	}
	block = append(block, threadPools(in.Spec.Disks)...)
	return append(block,
		conf.B("events", nil,
			conf.D("worker_connections", conf.Int(workerConnections)),
			conf.D("accept_mutex", conf.OnOff(false)),
		),
		conf.B("http", nil, http(in, revision)...),
	)
}

// workerConnections bounds client and origin connections of a worker. Each may need a socket to the client, one to the
// origin and a cache file.
const workerConnections = 16384

var logLevels = map[string]string{
	"Debug": "debug", "Info": "info", "Notice": "notice", "Warn": "warn", "Error": "error", "Crit": "crit",
}

func http(in Input, revision string) conf.Block {
	accessLog := conf.D("access_log", conf.OnOff(false))
	if in.Spec.Logs.Access == "Stdout" {
		accessLog = conf.D("access_log", conf.Literal("/dev/stdout"), conf.Literal("combined"))
	}
	block := conf.Block{
		accessLog,
		conf.D("server_tokens", conf.OnOff(false)),
		// A reload or a stop closes idle connections; without this time a client that sends just then loses its request.
		conf.D("keepalive_min_timeout", conf.Literal("5s")),
		// Room for 64 names of 253 characters: with less, nginx refuses to start.
		conf.D("server_names_hash_bucket_size", conf.Literal("512")),
		conf.D("server_names_hash_max_size", conf.Literal("4096")),
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		block = append(block, conf.D(kind+"_temp_path", conf.Literal(naming.RunDir+"/"+kind)))
	}
	block = append(block, cachePaths(in.Spec.Disks)...)
	block = append(block, upstream(in)...)
	block = append(block, publicServers(in)...)
	block = append(block, privateServer(revision))
	return append(block, shards(in)...)
}

// privateServer is for probes and monitoring; the client Service does not lead to it.
func privateServer(revision string) conf.Directive {
	plain := func(path, text string) conf.Directive {
		return conf.B("location", conf.Literals("=", path),
			conf.D("default_type", conf.Literal("text/plain")),
			conf.D("return", conf.Literal("200"), conf.Literal(text)))
	}
	return conf.B("server", nil,
		conf.D("listen", conf.Int(naming.PrivatePort)),
		conf.D("access_log", conf.OnOff(false)),
		plain("/healthz", "ok"),
		plain("/version", revision),
		conf.B("location", conf.Literals("=", "/stub_status"), conf.D("stub_status")),
		conf.B("location", conf.Literals("/"), conf.D("return", conf.Literal("404"))),
	)
}
