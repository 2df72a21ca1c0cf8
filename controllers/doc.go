// Package controllers has the thin reconcilers: they gather facts, call the pure packages, apply what comes out and
// report. Nothing imports it but cmd/manager.
package controllers
