package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/test/bench/cachepod"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// bench contains the state of a running case.
type bench struct {
	*lab.Lab
	options
	nginxRoot string
	// certificates contains the certificates of the operator and of all agents.
	certificates map[string][]byte
}

// withLab creates a lab, prepares a bench in the lab, calls f, and closes the lab. All disks of the bench are in
// memory, and mebibytes is their total size.
func withLab(o options, mebibytes int64, f func(*bench) error) (err error) {
	b := bench{options: o}
	if b.Lab, err = lab.New(""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if b.nginxRoot, err = lab.Recipe("hack/nginx-root"); err != nil {
		return err
	}
	if b.certificates, err = cachepod.Certificates(); err != nil {
		return err
	}
	if err := cachepod.Build(b.Dir + "/bin"); err != nil {
		return err
	}
	if err := b.InMemory(mebibytes); err != nil {
		return err
	}
	return f(&b)
}

// chosen returns true if the flag -systems selects the system for the measurement.
func (o options) chosen(system string) bool {
	return o.systems == "" || slices.Contains(strings.Split(o.systems, ","), system)
}

// ask runs a job as a separate process in the clients' network namespace. It decodes the result of the job into
// measured.
func (b *bench) ask(j job, measured any) error {
	j.Certificates = b.certificates
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	command := b.Client(b.self, "probe")
	var output, problem bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(text), &output, &problem
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", j.Case, err, &problem)
	}
	return json.Unmarshal(output.Bytes(), measured)
}

// sizes are the sizes of the bodies that the origin can send, in bytes.
var sizes = []int{1 << 10, 16 << 10, 64 << 10}

// startOrigin starts an nginx that answers a request for /TAG/SIZE/NAME with a body of SIZE bytes. The response header
// Surrogate-Key contains the tag, and X-Made contains the time of the answer.
func (b *bench) startOrigin(name string, site lab.Site) error {
	files := map[string]string{"/tmp/nginx.conf": fmt.Sprintf(`daemon off; user root; pid /run/origin.pid;
worker_processes 1;
events { worker_connections 4096; }
http {
  access_log off; sendfile on; keepalive_requests 1000000; etag off;
  server {
    listen 127.0.0.1:%d; root /run/files;
    location ~ ^/(?<tag>[a-z]+)/(?<size>[0-9]+)/ {
      add_header Surrogate-Key $tag; add_header Cache-Control max-age=86400; add_header X-Made $msec;
      rewrite ^ /$size break;
    }
  }
}`, lab.OriginPort)}
	for _, size := range sizes {
		files[fmt.Sprintf("/run/files/%d", size)] = strings.Repeat("x", size-1) // a line feed follows
	}
	root := lab.Root{Dir: b.nginxRoot, Tmpfs: []string{"/run", "/tmp"}, Files: files}
	_, err := b.Start("origin-"+name, site, nil, root, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
	return err
}

// object returns the path of an object.
func object(tag string, size int, name any) string { return fmt.Sprintf("/%s/%d/%v", tag, size, name) }

// diskBytes returns how many bytes the files in a folder take.
func diskBytes(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
