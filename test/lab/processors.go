package lab

import "fmt"

// processors returns the processors of measured servers, and those of clients and origins, as taskset takes them; ""
// for all. Servers have two of their own where the machine has four or more.
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
