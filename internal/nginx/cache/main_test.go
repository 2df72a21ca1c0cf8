package cache_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs eight tests at a time by default: each has its own nginx, and they mostly wait for it.
func TestMain(m *testing.M) {
	flag.Parse()
	isGiven := false
	flag.Visit(func(f *flag.Flag) { isGiven = isGiven || f.Name == "test.parallel" })
	if !isGiven {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
