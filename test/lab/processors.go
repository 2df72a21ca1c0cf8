package lab

import "fmt"

// processors returns two lists of processors, in the format of taskset: one for measured servers, and one for clients
// and origins. "" means all processors. If the machine has four or more processors, servers get two of their own.
func processors(count int) (servers, others string) {
	if count < 4 {
		return "", ""
	}
	return "0-1", fmt.Sprintf("2-%d", count-1)
}

// on returns a command that runs on some processors only.
func on(processors string, command ...string) []string {
	if processors == "" {
		return command
	}
	return append([]string{"taskset", "--cpu-list", processors}, command...)
}
