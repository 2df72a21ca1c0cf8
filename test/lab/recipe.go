package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Recipe runs a script of the folder hack, such as hack/nginx-root. Such a script creates a file or folder if it does
// not exist yet, and prints the path of this file or folder. Recipe returns this path.
func Recipe(script string, args ...string) (string, error) {
	command := exec.Command(script, args...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w (run it from the top folder)", script, err)
	}
	return strings.TrimSpace(string(output)), nil
}
