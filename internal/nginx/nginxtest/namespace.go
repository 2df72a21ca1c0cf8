package nginxtest

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace creates the network namespace, with the loopback device up. The open file keeps the namespace alive.
func (n *Nginx) namespace() {
	n.t.Helper()
	if n.network != nil {
		return
	}
	inThread(func() {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			n.t.Errorf("create a network namespace: %v", err)
			return
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			n.network = file
			err = loopbackUp()
		}
		if err != nil {
			n.t.Errorf("the network namespace: %v", err)
		}
	})
	if n.t.Failed() {
		n.t.FailNow()
	}
	n.t.Cleanup(func() {
		n.networkMutex.Lock()
		defer n.networkMutex.Unlock()
		_ = n.network.Close()
		n.network = nil
	})
}

// loopbackUp sets the loopback device up.
func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	device, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, device)
}

// netns returns the path of the network namespace, for other programs.
func (n *Nginx) netns() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.network.Fd()) }

// inside runs f on a thread in the network namespace. A socket stays in the namespace in which it was created. A new
// process starts in the namespace of the thread that starts it.
func (n *Nginx) inside(f func() error) (err error) {
	inThread(func() {
		if err = n.enter(); err == nil {
			err = f()
		}
	})
	return err
}

// enter moves the current thread into the network namespace.
func (n *Nginx) enter() error {
	n.networkMutex.Lock()
	defer n.networkMutex.Unlock()
	if n.network == nil { // a client of the test may still dial
		return errors.New("enter the network namespace: the test is over")
	}
	if err := unix.Setns(int(n.network.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	return nil
}

// inThread runs f on a separate thread.
func inThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		f()
	}()
	<-done
}
