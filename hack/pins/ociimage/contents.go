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

// contents lists the files of an image. root is a tar file with a root file system; "" for none. programs and texts
// are single files, each in the form SOURCE:TARGET.
type contents struct {
	root            string
	programs, texts list
}

// of returns the contents with {arch} in the names of the programs replaced by the name of a processor architecture.
func (c contents) of(arch string) contents {
	programs := make(list, len(c.programs))
	for i, program := range c.programs {
		programs[i] = strings.ReplaceAll(program, "{arch}", arch)
	}
	c.programs = programs
	return c
}

// layers returns the layers of an image that contains the files, the lowest layer first.
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

// fileLayer returns a tar file with the programs and texts. Owner and time are fixed, so that the digest of the layer
// depends only on the content of the files.
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

// add adds a file to a tar file.
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
