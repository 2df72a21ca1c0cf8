// Command ociimage writes a container image archive from files and a root file system, without a daemon or a registry.
//
//	ociimage -name localhost/pause:1 -entrypoint /pause -file bin/pause:/pause -o pause.tar
//
// The archive is in the format of "docker save", which containerd, kind and docker load. Equal input gives equal bytes.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	log.SetFlags(0)
	log.SetPrefix("ociimage: ")
	var names, files, args list
	flag.Var(&names, "name", "a name and tag of the image (repeatable)")
	out := flag.String("o", "", "the archive to write")
	root := flag.String("root", "", "a tar file that becomes the first layer")
	entrypoint := flag.String("entrypoint", "", "the program to run")
	user := flag.String("user", "65532:65532", "user and group id")
	flag.Var(&files, "file", "SOURCE:TARGET, an executable to add (repeatable)")
	flag.Var(&args, "arg", "an argument for it, unless a pod gives others (repeatable)")
	flag.Parse()
	if err := build(names, *out, *root, *user, files, append(list{*entrypoint}, args...)); err != nil {
		log.Fatal(err)
	}
}

func build(names []string, out, root, user string, files, command []string) error {
	img := empty.Image
	var err error
	if root != "" {
		if img, err = appendLayer(img, func() (io.ReadCloser, error) { return os.Open(root) }); err != nil {
			return err
		}
	}
	if len(files) > 0 {
		layer, err := fileLayer(files)
		if err != nil {
			return err
		}
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }
		if img, err = appendLayer(img, open); err != nil {
			return err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.User = user
	config.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if command[0] != "" {
		config.Config.Entrypoint, config.Config.Cmd = command[:1], command[1:]
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	tagged := map[name.Tag]v1.Image{}
	for _, n := range names {
		tag, err := name.NewTag(n)
		if err != nil {
			return err
		}
		tagged[tag] = img
	}
	return tarball.MultiWriteToFile(out, tagged)
}

func appendLayer(img v1.Image, open tarball.Opener) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(open)
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(img, layer)
}

// fileLayer packs executables, with fixed owner and time, so that the digest depends on their content alone.
func fileLayer(files []string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, file := range files {
		source, target, ok := strings.Cut(file, ":")
		if !ok {
			return nil, fmt.Errorf("-file %s: want SOURCE:TARGET", file)
		}
		content, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Name: strings.TrimPrefix(path.Clean(target), "/"), Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.Close()
}
