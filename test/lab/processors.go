package lab

import "fmt"

// processors returns two lists of processors, in the format of taskset: servers for measured servers, and others for
// clients and origins. "" means all processors. If the machine has four or more processors, servers contains two
// processors that others does not contain.
func processors(count int) (servers, others string) {
	if count < 4 {
		return "", ""
	}
	return "0-1", fmt.Sprintf("2-%d", count-1)
}

// on returns a command that runs only on the given processors.
func on(processors string, command ...string) []string {
	if processors == "" {
		return command
	}
	return append([]string{"taskset", "--cpu-list", processors}, command...)
}
