package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Recipe runs a script of hack/ that makes something once and prints its path, such as hack/nginx-root. It returns
// this path.
func Recipe(script string, args ...string) (string, error) {
	command := exec.Command(script, args...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w (run it from the top folder)", script, err)
	}
	return strings.TrimSpace(string(output)), nil
}
