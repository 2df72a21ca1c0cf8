// Package render implements the plugin's verb that shows the nginx.conf or the objects that the operator would create
// for a CacheNode. The verb needs no cluster.
//
// It may import the packages of the plugin and all pure packages. It may also import package apply, which defines what
// the operator would send to the API server. New flags of the verb belong here.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	nginxcache "github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// options are the command's flags.
type options struct {
	files                                      []string
	output, namespace, caBundle, clusterDomain string
	images                                     manifest.Images
}

// New returns the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "render -f FILE...",
		Short: "Print the nginx.conf, or the objects, that the operator makes of a CacheNode",
		Long: `Print the nginx.conf, or the objects, that the operator makes of a CacheNode. The command needs no cluster:
defaults, schema and CEL rules come from the CustomResourceDefinition built into this program. It omits what only a
cluster can provide: the Secret, whose certificates the operator makes when it runs, the Services of Gateways, and the
disks' volumes and claims.

For a CacheNode with spec.gateways, give the files or folders with its Gateways, HTTPRoutes and ReferenceGrants too, and
with their namespaces and Services if you have them. A warning says what is assumed about objects that are missing.

If anything in the CacheNode is wrong, every error goes to standard error with the path of its field, nothing goes to
standard output, and the exit code is 1. A problem of a route is a warning.`,
		Example: `  kubectl cachenode render -f edge.yaml
  kubectl cachenode render -f - -o yaml <edge.yaml
  kubectl cachenode render -f edge.yaml -f routes/`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var out bytes.Buffer // so that everything or nothing is printed
			if err := o.run(command.InOrStdin(), &out, command.ErrOrStderr()); err != nil {
				return err
			}
			_, err := out.WriteTo(command.OutOrStdout())
			return err
		},
	}
	flags := command.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil,
		"a file with the CacheNode, as YAML or JSON, or a folder of such files; - reads standard input; "+
			"may be given more than once")
	flags.StringVarP(&o.output, "output", "o", "conf", "conf: the nginx.conf; yaml: the objects")
	flags.StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault,
		"the namespace of objects that name none")
	flags.StringVar(&o.caBundle, "ca-bundle", "",
		"a file that stands for the Secret or ConfigMap in spec.origin.tls.caBundle")
	flags.StringVar(&o.clusterDomain, "cluster-domain", "cluster.local", "the operator's flag of this name")
	flags.StringVar(&o.images.Agent, "agent-image", "ghcr.io/cachenode/cachenode-operator:latest",
		"the operator's flag of this name")
	flags.StringVar(&o.images.Nginx, "nginx-image", v1alpha1.DefaultImage, "the operator's flag of this name")
	_ = command.MarkFlagRequired("filename") // fails only for a flag that does not exist
	_ = command.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{"conf", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (o options) run(in io.Reader, out, warnings io.Writer) error {
	if o.output != "conf" && o.output != "yaml" {
		return fmt.Errorf("--output %s: want conf or yaml", o.output)
	}
	objects, err := file.ReadAll(o.files, o.namespace, in)
	if err != nil {
		return err
	}
	for _, cacheNode := range objects.CacheNodes {
		for _, warning := range validation.Warnings(cacheNode) {
			output.Remark(warnings, "warning", warning)
		}
		if err := o.render(cacheNode, objects, out, warnings); err != nil {
			return err
		}
	}
	return nil
}

func (o options) render(cacheNode *v1alpha1.CacheNode, objects file.Objects, out, warnings io.Writer) error {
	table := objects.Table(cacheNode, o.clusterDomain, warnings)
	bundle, err := o.readCABundle(cacheNode, warnings)
	if err != nil {
		return err
	}
	chosen := effective.Of(cacheNode, effective.Before{}) // as for a new CacheNode
	wanted, err := revision.Of(chosen, revision.Outside{
		CABundle: bundle, ClusterDomain: o.clusterDomain, Routes: table,
	})
	if err != nil {
		return err
	}
	config, err := nginxcache.Render(nginxcache.Input{Revision: wanted, Facts: nginxcache.Facts{
		Cores:  effective.Cores(chosen.Spec.Pod.Resources.Limits.Cpu()),
		Memory: chosen.Spec.Pod.Resources.Limits.Memory().Value(), Fleet: nginxcache.NominalFleet(chosen.Spec),
	}})
	if err != nil {
		return err
	}
	if o.output == "conf" {
		_, err := io.WriteString(out, config.Text)
		return err
	}
	return o.writeObjects(chosen, wanted, out)
}

// writeObjects writes all objects except the Secret, whose certificates the operator creates when it runs.
func (o options) writeObjects(cacheNode effective.CacheNode, wanted agentapi.Revision, out io.Writer) error {
	stable, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	template, _, err := manifest.NewTemplate(manifest.NewPodInput(cacheNode), "", nil, o.images, wanted.ID)
	if err != nil {
		return err
	}
	input := manifest.Input{
		CacheNode: cacheNode, Config: manifest.ConfigMap{Stable: string(stable)}, Template: template,
	}
	for _, object := range manifest.Build(input) {
		if _, ok := object.(*corev1.Secret); ok {
			continue
		}
		object.SetOwnerReferences(nil) // owner references need the UID that a cluster assigns
		content, err := apply.Content(object)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// readCABundle reads the file that takes the place of spec.origin.tls.caBundle. Without this file, only the revision in
// the configuration differs from the real one, because the revision's hash includes the bundle.
func (o options) readCABundle(cacheNode *v1alpha1.CacheNode, warnings io.Writer) (string, error) {
	tls := cacheNode.Spec.Origin.TLS
	if tls == nil || tls.CABundle == nil {
		return "", nil
	}
	if o.caBundle == "" {
		_, _ = fmt.Fprintln(warnings, "warning: spec.origin.tls.caBundle: its content is not known here, "+
			"so the revision is not the real one: give --ca-bundle")
		return "# the content of spec.origin.tls.caBundle\n", nil
	}
	content, err := os.ReadFile(o.caBundle)
	return string(content), err
}
