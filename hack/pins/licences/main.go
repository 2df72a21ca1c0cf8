// Command licences lists the licences of all modules from which the programs are built. It fails if a licence is
// unknown, or is not one of the wanted licences. With -notices, it writes the texts of the licences and notices
// instead. These texts must be distributed together with the programs.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// wanted lists the SPDX identifiers of the allowed licences. A module with one of these licences may be linked into a
// program under Apache-2.0.
var wanted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

// enough is the minimum share of a file's text, in percent, that must match the texts of licences. Files below this
// share are skipped.
const enough = 75

// module contains the fields of a module that go list prints.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("licences: ")
	texts := flag.Bool("notices", false, "write the texts of the licences and notices")
	flag.Parse()
	modules := map[string]module{}
	for _, system := range []string{"linux", "darwin", "windows"} { // a release has programs for these systems
		if err := linked(modules, system, "./cmd/..."); err != nil {
			log.Fatal(err)
		}
	}
	if *texts {
		if err := notices(os.Stdout, modules); err != nil {
			log.Fatal(err)
		}
		return
	}
	unknown := 0
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		name := licence(m.Dir)
		if name == "" {
			unknown++
			name = "UNKNOWN"
		}
		fmt.Printf("%-25s %s %s\n", name, m.Path, m.Version)
	}
	if len(modules) < 20 || unknown > 0 {
		log.Fatalf("%d of %d modules have a licence that is not known here", unknown, len(modules))
	}
}

// linked finds the modules that contain the given packages and their dependencies on an operating system. It adds
// these modules to the map modules, by path.
func linked(modules map[string]module, system, packages string) error {
	command := exec.Command("go", "list", "-e", "-deps", "-json=Module", packages)
	command.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	for decoder := json.NewDecoder(out); ; {
		var p struct{ Module *module }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if m := p.Module; m != nil && !m.Main {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = *m
		}
	}
	return command.Wait()
}

// licence returns the identifiers of the licences in a module's folder, separated by commas. It returns "" if one of
// the licences is not wanted, or if it recognises none.
func licence(dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "[LlCc][IiOo][CcPp][EeYy]*")) // LICENSE, licence, COPYING and the like
	if err != nil {
		return ""
	}
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, ".docs") { // a licence for documents only
			continue
		}
		covered := licensecheck.Scan(text)
		if covered.Percent < enough {
			continue
		}
		for _, match := range covered.Match {
			if !slices.Contains(wanted, match.ID) {
				return ""
			}
			found[match.ID] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ",")
}
