// Package controllers has the reconciler: it gathers facts, calls the pure packages, applies their results and reports.
// Only cmd/manager imports it.
package controllers
