// Package record writes the results of measurements and their conditions as JSON. The benchmark pages of the docs are
// generated from these files.
package record

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Document is a result and the conditions of its measurement.
type Document[T any] struct {
	// Date is the time of the measurement in UTC. Commit is the commit of the working tree; a + follows if the tree
	// contains changes.
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	// Processor is the name of the processor, as the kernel reports it; older results do not contain it.
	Processor string `json:"processor,omitempty"`
	Result    T      `json:"result"`
}

// processor returns the name of the first processor in /proc/cpuinfo; "" if there is no name.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Write writes a result as a [Document] to NAME.json in a folder, which it creates if it is missing.
func Write(folder, name string, value any) error {
	d := Document[any]{
		Date: time.Now().UTC().Format(time.RFC3339), CPUs: runtime.NumCPU(), Processor: processor(), Result: value,
	}
	if output, err := exec.Command("git", "describe", "--always", "--dirty=+", "--abbrev=12").Output(); err == nil {
		d.Commit = strings.TrimSpace(string(output))
	}
	var system unix.Utsname
	if err := unix.Uname(&system); err != nil {
		return err
	}
	d.Kernel = unix.ByteSliceToString(system.Release[:])
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644)
}
