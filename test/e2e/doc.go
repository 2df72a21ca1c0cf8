// Package e2e tests the operator on a real cluster with real disks: see test/e2e/run.
package e2e
