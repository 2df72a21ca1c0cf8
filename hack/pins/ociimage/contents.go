package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// contents lists the files of an image: the files of a tar file, and single files, each given as SOURCE:TARGET.
type contents struct {
	root            string
	programs, texts list
}

// of returns the contents for a processor architecture.
func (c contents) of(arch string) contents {
	programs := make(list, len(c.programs))
	for i, program := range c.programs {
		programs[i] = strings.ReplaceAll(program, "{arch}", arch)
	}
	c.programs = programs
	return c
}

// layers returns the layers of an image with the contents, the lowest first.
func (c contents) layers() ([]opener, error) {
	var layers []opener
	if c.root != "" {
		layers = append(layers, func() (io.ReadCloser, error) { return os.Open(c.root) })
	}
	if len(c.programs)+len(c.texts) > 0 {
		layer, err := c.fileLayer()
		if err != nil {
			return nil, err
		}
		layers = append(layers, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	}
	return layers, nil
}

// fileLayer packs the files, with fixed owner and time, so that the digest depends on their content alone.
func (c contents) fileLayer() ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, program := range c.programs {
		if err := add(w, program, 0o755); err != nil {
			return nil, fmt.Errorf("-file %s: %w", program, err)
		}
	}
	for _, text := range c.texts {
		if err := add(w, text, 0o644); err != nil {
			return nil, fmt.Errorf("-text %s: %w", text, err)
		}
	}
	return buf.Bytes(), w.Close()
}

// add packs a file.
func add(w *tar.Writer, file string, mode int64) error {
	source, target, ok := strings.Cut(file, ":")
	if !ok {
		return fmt.Errorf("want SOURCE:TARGET")
	}
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: strings.TrimPrefix(path.Clean(target), "/"), Mode: mode, Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
