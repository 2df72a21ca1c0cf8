// Command licences lists the licences of all modules from which the programs are built, and fails if one of the
// licences is not known or not wanted.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// wanted are the licences with which a program under Apache-2.0 may be linked, by words of their text. The more
// specific come first.
var wanted = []struct {
	name  string
	words []string
}{
	{"Apache-2.0", []string{"Apache License", "Version 2.0"}},
	{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "contributors may be used to endorse"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms"}},
	{"ISC", []string{"Permission to use, copy, modify, and/or distribute this software for any"}},
	{"ISC", []string{"Permission to use, copy, modify, and distribute this software for any"}},
	{"MIT", []string{"Permission is hereby granted, free of charge, to any person obtaining a copy"}},
}

// module is a module as go list prints it.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

func main() {
	modules := map[string]module{}
	for _, system := range []string{"linux", "darwin", "windows"} { // the systems of a release
		if err := linked(modules, system, "./cmd/..."); err != nil {
			log.Fatal(err)
		}
	}
	unknown := 0
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		name := licence(m.Dir)
		if name == "" {
			unknown++
			name = "UNKNOWN"
		}
		fmt.Printf("%-14s %s %s\n", name, m.Path, m.Version)
	}
	if len(modules) < 20 || unknown > 0 {
		fmt.Fprintf(os.Stderr, "licences: %d of %d modules have a licence that is not known here\n", unknown, len(modules))
		os.Exit(1)
	}
}

// linked adds the modules of the programs' packages, by path.
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

// licence returns the licence of a module's folder; "" if no known one is there.
func licence(dir string) string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		if !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "LICENCE") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			continue
		}
		plain := strings.Join(strings.Fields(string(text)), " ")
		for _, w := range wanted {
			if !slices.ContainsFunc(w.words, func(words string) bool { return !strings.Contains(plain, words) }) {
				return w.name
			}
		}
	}
	return ""
}
