// Command layers prints the packages of the project by layer. For each package, it lists the packages of the project
// that the package imports. It fails in three cases: an import points to a layer above, a package is in no layer, or
// a package below internal matches no rule of depguard. The layers are the rows of the table in
// docs/concepts/architecture.md.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	module = "github.com/cachenode/cachenode-operator/"
	page   = "docs/concepts/architecture.md"
	config = ".golangci.yml"
)

func main() {
	log.SetFlags(0)
	packages, err := list()
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		log.Fatal(err)
	}
	globs, err := rules()
	if err != nil {
		log.Fatal(err)
	}
	rows := layers(string(text))
	arrows := 0
	for i, row := range rows {
		fmt.Printf("%d  %s\n", len(rows)-i, strings.Join(row, ", "))
		for _, p := range packages {
			if layerOf(rows, p.name) == i {
				fmt.Println("     ", p)
				arrows += len(p.imports)
			}
		}
	}
	problems := check(rows, globs, packages)
	fmt.Printf("%d packages, %d imports, %d problems\n", len(packages), arrows, len(problems))
	if len(problems) > 0 {
		log.Fatal(strings.Join(problems, "\n"))
	}
}

// goPackage is a package of the project, with the packages of the project that it imports.
type goPackage struct {
	name    string
	imports []string
}

// String returns the name of the package and the names of the packages that it imports.
func (p goPackage) String() string {
	if len(p.imports) == 0 {
		return p.name
	}
	return p.name + " → " + strings.Join(p.imports, " ")
}

// list returns all packages of the project, as the go command lists them.
func list() (packages []goPackage, err error) {
	command := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		own := goPackage{name: strings.TrimPrefix(p.ImportPath, module)}
		for _, path := range p.Imports {
			if name, ok := strings.CutPrefix(path, module); ok {
				own.imports = append(own.imports, name)
			}
		}
		packages = append(packages, own)
	}
}

// rules returns the globs of the files to which the rules of depguard apply. It skips each rule whose first denied
// package is not part of the project, and the glob that matches all of internal.
func rules() (globs []string, err error) {
	text, err := os.ReadFile(config)
	if err != nil {
		return nil, err
	}
	var c struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string
						Deny  []struct{ Pkg string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", config, err)
	}
	for _, rule := range c.Linters.Settings.Depguard.Rules {
		if len(rule.Deny) == 0 || !strings.HasPrefix(rule.Deny[0].Pkg, module) {
			continue
		}
		for _, glob := range rule.Files {
			if glob != "**/internal/**" {
				globs = append(globs, glob)
			}
		}
	}
	return globs, nil
}
