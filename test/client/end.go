package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// endLoads sends SIGTERM to all processes that run "client load". It returns an error if there is no such process.
func endLoads(proc string) error {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "cmdline"))
	if err != nil {
		return err
	}
	ended := 0
	for _, file := range files {
		words, err := os.ReadFile(file)
		if err != nil { // the process has ended since the list was read
			continue
		}
		if args := bytes.Split(words, []byte{0}); len(args) < 2 || string(args[1]) != "load" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return err
		}
		ended++
	}
	if ended == 0 {
		return fmt.Errorf("no load is under way")
	}
	return nil
}
