package nginxtest

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace creates the network namespace, with the loopback device up, and a process that keeps it alive.
func (n *Nginx) namespace() {
	n.t.Helper()
	if n.holder != nil {
		return
	}
	cmd := exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep 3600")
	ready, err := cmd.StdoutPipe()
	must(n.t, err)
	must(n.t, cmd.Start())
	if _, err := ready.Read(make([]byte, 8)); err != nil {
		n.t.Fatalf("the network namespace: %v", err)
	}
	n.holder = cmd
	n.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func (n *Nginx) netns() string { return fmt.Sprintf("/proc/%d/ns/net", n.holder.Process.Pid) }

// inside runs f on a thread in the network namespace. A socket stays in the namespace in which it was created.
func (n *Nginx) inside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		fd, err := unix.Open(n.netns(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			n.t.Errorf("open the network namespace: %v", err)
			return
		}
		defer func() { _ = unix.Close(fd) }()
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			n.t.Errorf("enter the network namespace: %v", err)
			return
		}
		f()
	}()
	<-done
}
