package main

import (
	"fmt"
	"os"

	"github.com/prometheus/procfs"
)

// used contains the processor time of a process in seconds, and its present and maximum resident memory in MiB.
type used struct{ cpu, resident, peak float64 }

func usedBy(process procfs.Proc) (u used, err error) {
	stat, err := process.Stat()
	if err != nil {
		return u, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return u, err
	}
	const mebi = 1 << 20
	return used{stat.CPUTime(), float64(status.VmRSS) / mebi, float64(status.VmHWM) / mebi}, nil
}

// used returns the resources that a pod's agent has used so far.
func (p pod) used() (used, error) {
	agent, err := p.agent()
	if err != nil {
		return used{}, err
	}
	return usedBy(agent)
}

// watch resets the maximum of the agent's resident memory, which the kernel records. Then it returns the agent's
// resources, like the method used.
func (p pod) watch() (used, error) {
	agent, err := p.agent()
	if err != nil {
		return used{}, err
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", agent.PID), []byte("5"), 0o200); err != nil {
		return used{}, err
	}
	return usedBy(agent)
}
