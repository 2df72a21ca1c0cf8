package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// cacheNode is a CacheNode in YAML, with a %s for its name.
const cacheNode = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: %s, namespace: default}
spec:
  replicas: 3
  disks:
  - {name: disk1, size: 100Gi, storageClassName: local}
  - {name: disk2, size: 100Gi, storageClassName: local}
  - {name: disk3, size: 100Gi, storageClassName: local}
  origin: {servers: [{service: {name: origin, port: 80}}]}
`

// process is a running operator.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	began time.Time
}

// start runs the operator with a kubeconfig.
func start(binary, kubeconfig, logFile string) (*process, error) {
	out, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	p := &process{log: out, began: time.Now()}
	p.cmd = exec.Command(binary,
		"--agent-image=localhost/none", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p, p.cmd.Start()
}

// stop ends the operator. It returns an error if the operator has already ended by itself.
func (p *process) stop() error {
	defer func() { _ = p.log.Close() }()
	if _, err := p.stat(); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = p.cmd.Wait() // the process has ended, whatever its exit status
	return nil
}

// cpu returns the processor time that the operator has used.
func (p *process) cpu() (time.Duration, error) {
	stat, err := p.stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// resident returns the resident memory of the operator in MiB.
func (p *process) resident() (float64, error) {
	stat, err := p.stat()
	return float64(stat.ResidentMemory()) / (1 << 20), err
}

func (p *process) stat() (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	stat, err := proc.Stat()
	if err == nil && stat.State == "Z" {
		text, _ := os.ReadFile(p.log.Name())
		err = fmt.Errorf("it has ended by itself:\n%s", text[max(0, len(text)-2000):])
	}
	return stat, err
}

// quiet waits until the operator has been idle for 6 seconds, and returns the time at which it was last busy. The
// operator is idle if it sends no requests to the API server and uses less than a tenth of a processor.
func (p *process) quiet(ctx context.Context, auditLog string, patience time.Duration) (time.Time, error) {
	const step, calm = 250 * time.Millisecond, 6 * time.Second
	deadline := time.Now().Add(patience)
	busy := time.Now()
	before, err := p.cpu()
	asked := size(auditLog)
	for err == nil && time.Since(busy) < calm {
		if time.Now().After(deadline) {
			return busy, fmt.Errorf("it is still busy after %s", patience)
		}
		select {
		case <-ctx.Done():
			return busy, ctx.Err()
		case <-time.After(step):
		}
		var now time.Duration
		if now, err = p.cpu(); now-before >= step/10 || size(auditLog) != asked {
			busy = time.Now()
		}
		before, asked = now, size(auditLog)
	}
	return busy, err
}

// size returns the size of a file in bytes; 0 if the file does not exist.
func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}
