package crash

import "os"

// Boot returns the ID of the node's current boot. The ID is different after each start of the node.
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id), err
}
