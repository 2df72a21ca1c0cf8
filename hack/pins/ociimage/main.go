// Command ociimage writes a container image from files and a root file system, without a daemon or a registry.
//
//	ociimage -name localhost/pause:1 -entrypoint /pause -file bin/pause:/pause -o pause.tar
//	ociimage -entrypoint /manager -arch amd64 -arch arm64 -file 'bin/{arch}/manager:/manager' -layout image
//
// With -o, it writes an archive in the format of "docker save". containerd, kind and docker can load such an archive.
// With -layout, it writes a folder in the format of the OCI image layout with an index of one image for each
// architecture. The same input always produces the same bytes.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// list is the value of a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	log.SetFlags(0)
	log.SetPrefix("ociimage: ")
	var names, architectures, command, labels list
	var c contents
	flag.Var(&names, "name", "a name and tag of the image in the archive (repeatable)")
	archive := flag.String("o", "", "the archive to write")
	folder := flag.String("layout", "", "the folder to write, instead of an archive")
	flag.Var(&architectures, "arch", "a processor architecture of the image in the folder (repeatable); default: this machine's")
	flag.StringVar(&c.root, "root", "", "a tar file that becomes the first layer")
	entrypoint := flag.String("entrypoint", "", "the program to run")
	user := flag.String("user", "65532:65532", "user and group id")
	flag.Var(&c.programs, "file", "SOURCE:TARGET, a program to add; {arch} in SOURCE is the architecture (repeatable)")
	flag.Var(&c.texts, "text", "SOURCE:TARGET, another file to add (repeatable)")
	flag.Var(&command, "arg", "an argument for it, unless a pod gives others (repeatable)")
	flag.Var(&labels, "label", "KEY=VALUE, a label of the image (repeatable)")
	created := flag.Int64("created", 0, "when the image was made, in seconds since 1970; 0: it does not say")
	flag.Parse()
	config := v1.Config{User: *user, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	if *entrypoint != "" {
		config.Entrypoint, config.Cmd = []string{*entrypoint}, command
	}
	for _, label := range labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			log.Fatalf("-label %s: want KEY=VALUE", label)
		}
		if config.Labels == nil {
			config.Labels = map[string]string{}
		}
		config.Labels[key] = value
	}
	file := v1.ConfigFile{OS: "linux", Config: config}
	if *created > 0 {
		file.Created = v1.Time{Time: time.Unix(*created, 0).UTC()}
	}
	var err error
	switch {
	case *folder != "" && *archive == "":
		if len(architectures) == 0 {
			architectures = list{runtime.GOARCH}
		}
		err = writeLayout(*folder, architectures, c, file)
	case *archive != "" && *folder == "" && len(architectures) == 0:
		err = writeArchive(*archive, names, c, file)
	default:
		err = fmt.Errorf("want either -o, for this machine's architecture, or -layout")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// writeArchive writes an archive with the image for this machine's architecture.
func writeArchive(out string, names []string, c contents, file v1.ConfigFile) error {
	file.Architecture = runtime.GOARCH
	img, err := image(empty.Image, types.DockerLayer, c, file)
	if err != nil {
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

// writeLayout writes a folder with an index of the images. It first deletes the previous content of the folder.
func writeLayout(folder string, architectures []string, c contents, file v1.ConfigFile) error {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		file.Architecture = arch
		img, err := image(base, types.OCILayer, c.of(arch), file)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: file.OS, Architecture: arch}},
		})
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index)
}

// image returns the image base with the contents added as layers, and with the configuration in file.
func image(base v1.Image, layer types.MediaType, c contents, file v1.ConfigFile) (v1.Image, error) {
	layers, err := c.layers()
	if err != nil {
		return nil, err
	}
	for _, open := range layers {
		l, err := tarball.LayerFromOpener(open, tarball.WithMediaType(layer))
		if err != nil {
			return nil, err
		}
		if base, err = mutate.AppendLayers(base, l); err != nil {
			return nil, err
		}
	}
	config, err := base.ConfigFile()
	if err != nil {
		return nil, err
	}
	file.RootFS, file.History = config.RootFS, config.History
	return mutate.ConfigFile(base, &file)
}

// opener opens a layer, which is a tar file, for reading.
type opener = func() (io.ReadCloser, error)
