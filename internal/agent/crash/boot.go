package crash

import "os"

// Boot names the boot of the node. It is another one after each start.
func Boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id), err
}
