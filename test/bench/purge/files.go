package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// fileBytes is the size of a file that writeFiles writes.
const fileBytes = 700

// fileHeader is the number of bytes before the key in a cache file.
const fileHeader = 336

// writeFiles writes cache files in the format of nginx. Each object has a key of about 45 bytes and two tags.
func writeFiles(folder string, disk, count int) error {
	for f := range cachekey.Folder(cachekey.Folders) {
		if err := os.MkdirAll(filepath.Join(folder, f.Path()), 0o755); err != nil {
			return err
		}
	}
	for i := range count {
		key := fmt.Sprintf("http://www.example.com/articles/%d-%07d.html", disk, i)
		text := cacheFile(key, fmt.Sprintf("article-%d section-%d", i, i%100), time.Now())
		if i == 0 {
			if h, err := cachefile.Read(bytes.NewReader(text)); err != nil || h.Key != key || len(text) != fileBytes {
				return fmt.Errorf("a file of %d bytes with the key %q is not as nginx writes it: %w", len(text), h.Key, err)
			}
		}
		if err := os.WriteFile(cachekey.Path(folder, key), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// cacheFile returns the content of a file in the format that nginx writes. Package cachefile describes the layout.
func cacheFile(key, tags string, received time.Time) []byte {
	file := make([]byte, fileHeader, fileBytes)
	binary.LittleEndian.PutUint64(file, cachefile.Version)
	binary.LittleEndian.PutUint64(file[8:], uint64(received.Add(time.Hour).Unix()))
	binary.LittleEndian.PutUint64(file[40:], uint64(received.Unix()))
	file = append(file, "\nKEY: "+key+"\n"...)
	binary.LittleEndian.PutUint16(file[54:], uint16(len(file)))
	file = append(file, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSurrogate-Key: "+tags+"\r\n\r\n"...)
	binary.LittleEndian.PutUint16(file[56:], uint16(len(file)))
	return append(file, bytes.Repeat([]byte("x"), max(fileBytes-len(file), 0))...)
}
