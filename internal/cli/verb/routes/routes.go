// Package routes implements the plugin's verb that lists the routes of a CacheNode's Gateways, in the order in which
// nginx compares them with a request.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package routes

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/served"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// options are the flags of the verb.
type options struct {
	files []string
	url   string
}

// New returns the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "routes CACHENODE",
		Short: "List the routes that a CacheNode serves, or the one that answers a URL",
		Long: `List the routes of a CacheNode's Gateways, in the order in which nginx compares them with a request.
The first row whose host, path and conditions match answers the request.

Without -f, the routes come from the configuration that the operator gives to the pods.
With -f, they come from files, and the command needs no cluster.

It needs the right to get ConfigMaps.`,
		Example: `  kubectl cachenode routes edge
  kubectl cachenode routes edge --url 'http://shop.example.com/api/items?page=1'
  kubectl cachenode routes edge -f edge.yaml -f routes/`,
		Args: cobra.ExactArgs(1),
	}
	flags := connect.Add(command)
	command.Flags().StringSliceVarP(&o.files, "filename", "f", nil,
		"a file with the CacheNode and its Gateways and routes, or a folder of such files; may be given more than once")
	command.Flags().StringVar(&o.url, "url", "", "list only the route that answers a GET of this URL")
	form := output.Add(command, "")
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := form.Check(); err != nil {
			return err
		}
		read := func() (of routes.Table, err error) {
			cluster, err := flags.Connect()
			if err != nil {
				return of, err
			}
			return served.Routes(command.Context(), cluster, args[0])
		}
		if len(o.files) > 0 {
			read = func() (routes.Table, error) {
				return o.fromFiles(args[0], command.InOrStdin(), command.ErrOrStderr())
			}
		}
		of, err := read()
		if err != nil {
			return err
		}
		rows := list(of)
		if o.url != "" {
			if rows, err = answering(of, o.url); err != nil {
				return err
			}
		}
		if form.IsForPrograms() {
			if err := form.Write(command.OutOrStdout(), rows); err != nil {
				return err
			}
			if len(rows) == 0 {
				return output.Exit(1)
			}
			return nil
		}
		return o.write(command.OutOrStdout(), rows)
	}
	return command
}

// fromFiles returns the routes that the operator would make of the objects in files.
func (o options) fromFiles(name string, in io.Reader, warnings io.Writer) (of routes.Table, err error) {
	objects, err := file.ReadAll(o.files, metav1.NamespaceDefault, in)
	if err != nil {
		return of, err
	}
	cacheNode, err := objects.Named(name)
	if err != nil {
		return of, err
	}
	return objects.Table(cacheNode, "cluster.local", warnings), nil
}

// write prints rows for people.
func (o options) write(out io.Writer, rows []row) error {
	switch {
	case len(rows) > 0:
	case o.url != "":
		return fmt.Errorf("no route answers a GET of %q without headers: without --url, the command lists all routes", o.url)
	case len(o.files) > 0:
		return errors.New("no route: kubectl cachenode validate says what is wrong with the files")
	default:
		return errors.New("no route: see the conditions of the Gateways and HTTPRoutes")
	}
	t := table.New(out, -1, "GATEWAY", "PORT", "HOST", "PATH", "CONDITIONS", "ROUTE", "RULE", "TO")
	for _, r := range rows {
		t.Row(r.Gateway, strconv.Itoa(int(r.Port)), r.Host, r.Path, r.Conditions, r.Route, strconv.Itoa(r.Rule), r.To)
	}
	t.Write()
	return nil
}
