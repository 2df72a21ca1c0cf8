// Package cachepod starts nginx and an agent together, in the same way as in a pod of a CacheNode.
package cachepod

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/test/lab"
)

const (
	// Server is the server name in the agents' certificate.
	Server = "agents.bench"
	// Agent is the path of the agent's program, as processes in the pod see it.
	Agent = programs + "/agent"

	programs = "/tmp/bin"
)

// Pod describes an agent and its nginx.
type Pod struct {
	// CacheNode is the custom resource as YAML.
	CacheNode string
	// NginxRoot is the folder with nginx's root file system. Programs is the folder that contains the agent's program.
	NginxRoot, Programs string
	// Certificates contains the certificates of the operator and the agent.
	Certificates map[string][]byte
	// Memory is the memory limit of nginx in bytes. Tier is the size of the memory tier in bytes; 0 without a memory
	// tier.
	Memory, Tier int64
}

// Start starts an agent. As soon as the agent has written a configuration, Start also starts nginx. The pod has the
// disks disk1, disk2, and so on.
func (p Pod) Start(l *lab.Lab, name string, site lab.Site, cgroup *lab.Cgroup, disks []lab.Disk) (*lab.Server, error) {
	root, err := p.root(disks)
	if err != nil {
		return nil, err
	}
	// A process that changes its user does not end when its parent ends. The shell remains root, so it ends together with
	// its parent. Then the kernel ends all other processes of the shell's PID namespace.
	const as = "setpriv --reuid 101 --regid 101 --clear-groups "
	return l.Start(name, site, cgroup, root, "sh", "-euc",
		as+"env "+strings.Join(AgentEnv(len(disks)), " ")+" "+Agent+" run &\n"+
			"until [ -e "+layout.ConfigFile+" ]; do sleep 0.05; done\n"+
			as+"nginx -c "+layout.ConfigFile+" -e stderr\nexit")
}

// AgentEnv returns the environment variables that the operator sets for the agent of a pod with the given number of
// disks, each in the form NAME=VALUE.
func AgentEnv(disks int) (list []string) {
	for _, v := range manifest.AgentEnv(disks) {
		list = append(list, v.Name+"="+v.Value)
	}
	return list
}

// root returns the root file system of the agent and nginx.
func (p Pod) root(disks []lab.Disk) (root lab.Root, err error) {
	stable, err := p.revision()
	if err != nil {
		return root, err
	}
	root = lab.Root{
		Dir: p.NginxRoot, Tmpfs: []string{"/run", "/run/cachenode", "/tmp", "/var/cache", "/etc/cachenode"}, Owner: "101:101",
		Binds: map[string]string{programs: p.Programs},
		Files: map[string]string{
			layout.ConfigDir + "/" + naming.StableKey:        stable,
			layout.PodInfoDir + "/" + layout.AnnotationsFile: "",
			layout.PodInfoDir + "/" + layout.CPULimitFile:    "2000",
			layout.PodInfoDir + "/" + layout.MemoryLimitFile: strconv.FormatInt(p.Memory, 10),
		},
	}
	if p.Tier > 0 {
		root.Tmpfs = append(root.Tmpfs, layout.MemoryTierDir)
		root.TmpfsOptions = map[string]string{layout.MemoryTierDir: fmt.Sprintf("size=%d", p.Tier)}
	}
	for i, d := range disks {
		root.Binds[layout.DiskDir(fmt.Sprintf("disk%d", i+1))] = d.Dir
	}
	for _, key := range []string{naming.ServerCertificateKey, naming.ServerKeyKey, naming.AuthorityKey} {
		root.Files[layout.CertificateDir+"/"+key] = string(p.Certificates[key])
	}
	return root, nil
}

// revision returns, as JSON, the revision that the operator gives to the pods of the CacheNode.
func (p Pod) revision() (string, error) {
	cacheNode, err := file.One("-", strings.NewReader(p.CacheNode))
	if err != nil {
		return "", err
	}
	r, err := revision.Of(effective.Of(cacheNode, effective.Before{}), revision.Outside{ClusterDomain: "cluster.local"})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// Build builds the agent into a folder.
func Build(folder string) error {
	build := exec.Command("go", "build", "-o", filepath.Clean(folder)+"/", "./cmd/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	return nil
}

// Certificates returns new certificates for operator and agents.
func Certificates() (map[string][]byte, error) {
	all, _, err := pki.Renew(nil, Server, time.Now())
	return all, err
}
