// Package e2e tests the operator on a real cluster with real disks. The script test/e2e/run runs these tests.
package e2e
