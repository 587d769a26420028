// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/scheme"
)

// acceptTable asks the server for what kubectl prints: columns and cells.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// outputFlags are -o and what belongs to it, as of kubectl get.
type outputFlags struct {
	print      *genericclioptions.PrintFlags
	noHeaders  bool
	showLabels bool
	labels     []string
}

func (o *outputFlags) addFlags(cmd *cobra.Command) {
	o.print = genericclioptions.NewPrintFlags("").WithTypeSetter(scheme.Scheme)
	o.print.AddFlags(cmd)
	output := cmd.Flags().Lookup("output")
	output.Usage = strings.Replace(output.Usage, "One of: (", "One of: (wide, ", 1)
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print no line with the names of the columns.")
	completeWords(cmd, "output", append([]string{"wide"}, o.print.AllowedFormats()...)...)
}

// asTable says whether the server's table is to be printed.
func (o *outputFlags) asTable() bool {
	template := o.print.TemplatePrinterFlags.TemplateArgument
	return (*o.print.OutputFormat == "" && *template == "") || *o.print.OutputFormat == "wide"
}

// tablePrinter prints the server's tables. A column for the namespace is added when
// they are of several.
func (o *outputFlags) tablePrinter(withNamespace bool) printers.ResourcePrinter {
	return printers.NewTablePrinter(printers.PrintOptions{
		NoHeaders: o.noHeaders, WithNamespace: withNamespace, Wide: *o.print.OutputFormat == "wide",
		ShowLabels: o.showLabels, ColumnLabels: o.labels,
	})
}

type getOptions struct {
	outputFlags
	selection
	watch, watchOnly bool
	ignoreNotFound   bool
}

func newGet(e *env) *cobra.Command {
	o := &getOptions{}
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list", "ls"},
		Short:   "List hosts",
		Long: `List the Windows hosts of a namespace, of all (-A) or of a pool, with the columns of the
server. A host is named by its WindowsInstance or by its Node.`,
		Example: `  # All hosts of the cluster, with pool, Windows version and host key
  kubectl windows get -A -o wide

  # Those of a pool, and what becomes of them
  kubectl windows get -A --pool windows-instances --watch

  # The host of a node, as YAML
  kubectl windows get win-6 -o yaml

  # The names of the hosts that need somebody to act
  kubectl windows get -A --field-selector status.phase=Failed -o name`,
		ValidArgsFunction: e.completeHosts,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args) },
	}
	o.outputFlags.addFlags(cmd)
	o.selection.addFlags(e, cmd)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "After listing, print every change, until Ctrl-C.")
	cmd.Flags().BoolVar(&o.watchOnly, "watch-only", false, "Print every change, without listing first.")
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "It is no error when a host that is named is not there.")
	cmd.Flags().BoolVar(&o.showLabels, "show-labels", false, "Show the labels in a column of their own.")
	cmd.Flags().StringSliceVarP(&o.labels, "label-columns", "L", nil, "Labels that become a column, separated by commas.")
	return cmd
}

func (o *getOptions) run(ctx context.Context, e *env, args []string) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	if len(args) > 0 && o.selects() {
		return errors.New("name hosts or select them with -l, --field-selector, --pool or -A, not both")
	}
	follow := o.watch || o.watchOnly
	if follow && len(args) > 1 {
		return errors.New("only one host can be watched by name; select several with -l, --field-selector or --pool")
	}
	printer := o.tablePrinter(o.allNamespaces)
	if !o.asTable() {
		if printer, err = o.print.ToPrinter(); err != nil {
			return err
		}
	}
	show := func(obj runtime.Object) error { return printer.PrintObj(obj, e.Out) }
	if follow && o.asTable() {
		// It remembers how wide the columns are from one change to the next.
		w := printers.GetNewTabWriter(e.Out)
		show = func(obj runtime.Object) error { return errors.Join(printer.PrintObj(obj, w), w.Flush()) }
	}
	if len(args) > 0 {
		return o.named(ctx, e, c, show, args)
	}
	options, err := o.listOptions()
	if err != nil {
		return err
	}
	g := getter{c, o.namespace(c), o.asTable()}
	list, version, err := g.list(ctx, options)
	if err != nil {
		return err
	}
	switch {
	case o.watchOnly:
	case isEmpty(list) && o.asTable():
		where := " in namespace " + c.namespace
		if o.allNamespaces {
			where = ""
		}
		e.note("No hosts found%s.", where)
	default:
		if err := show(list); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	return g.watch(ctx, options, version, show)
}

// named prints hosts by their names, and goes on when one is not there.
func (o *getOptions) named(ctx context.Context, e *env, c *client, show func(runtime.Object) error, args []string) error {
	var (
		objects []runtime.Object
		failed  error
		g       = getter{c, c.namespace, o.asTable()}
		name    string
		version string
	)
	for _, arg := range args {
		t, err := c.get(ctx, arg)
		if err == nil {
			var obj runtime.Object
			one := getter{c, t.Namespace, o.asTable()}
			if obj, err = one.get(ctx, t.Name); err == nil {
				g, name, version = one, t.Name, t.ResourceVersion
				objects = append(objects, obj)
				continue
			}
		}
		switch {
		case o.ignoreNotFound && (apierrors.IsNotFound(err) || !errors.As(err, new(apierrors.APIStatus))):
		case len(args) == 1:
			return err
		default:
			e.note("%s", explain(err))
			failed = &ExitError{Code: ExitFailure}
		}
	}
	if len(objects) > 0 && !o.watchOnly {
		if err := show(merge(objects)); err != nil {
			return err
		}
	}
	if (o.watch || o.watchOnly) && failed == nil && name != "" {
		return g.watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name}, version, show)
	}
	return failed
}

// merge makes one list, or one table, of several objects.
func merge(objects []runtime.Object) runtime.Object {
	if len(objects) == 1 {
		return objects[0]
	}
	if table, ok := objects[0].(*metav1.Table); ok {
		for _, other := range objects[1:] {
			table.Rows = append(table.Rows, other.(*metav1.Table).Rows...)
		}
		return table
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, obj := range objects {
		list.Items = append(list.Items, *obj.(*unstructured.Unstructured))
	}
	return list
}

func isEmpty(obj runtime.Object) bool {
	table, ok := obj.(*metav1.Table)
	return ok && len(table.Rows) == 0
}

// getter reads instances as they are to be printed: as a table, or as the server has them.
type getter struct {
	c         *client
	namespace string
	table     bool
}

func (g getter) request(options metav1.ListOptions) *rest.Request {
	r := g.c.windows.RESTClient().Get().Namespace(g.namespace).Resource(instancesResource).VersionedParams(&options, metav1.ParameterCodec)
	if g.table {
		r.SetHeader("Accept", acceptTable)
	}
	return r
}

func (g getter) get(ctx context.Context, name string) (runtime.Object, error) {
	raw, err := g.request(metav1.ListOptions{}).Name(name).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	return g.decode(raw)
}

// list reads all instances, in chunks, and the version from which changes of them
// can be watched.
func (g getter) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, string, error) {
	options.Limit = listChunk
	var all runtime.Object
	for {
		raw, err := g.request(options).Do(ctx).Raw()
		if err != nil {
			return nil, "", err
		}
		obj, err := g.decode(raw)
		if err != nil {
			return nil, "", err
		}
		list, ok := obj.(metav1.ListInterface)
		if !ok {
			return nil, "", fmt.Errorf("the server answered with a %T where a list was expected", obj)
		}
		switch chunk := obj.(type) {
		case *metav1.Table:
			if table, ok := all.(*metav1.Table); ok {
				table.Rows = append(table.Rows, chunk.Rows...)
			} else {
				all = chunk
			}
		case *unstructured.UnstructuredList:
			if so, ok := all.(*unstructured.UnstructuredList); ok {
				so.Items = append(so.Items, chunk.Items...)
			} else {
				all = chunk
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return all, list.GetResourceVersion(), nil
		}
	}
}

// watch hands on every change from a version on, until ctx ends. A watch that the
// server ends is begun again where it was.
func (g getter) watch(ctx context.Context, options metav1.ListOptions, version string, handle func(runtime.Object) error) error {
	for {
		options.ResourceVersion, options.Watch, options.AllowWatchBookmarks = version, true, true
		body, err := g.request(options).Stream(ctx)
		if err != nil {
			return err
		}
		version, err = g.events(body, version, handle)
		body.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// events reads the events of one watch to its end, and returns the last version.
func (g getter) events(body io.Reader, version string, handle func(runtime.Object) error) (string, error) {
	decoder := json.NewDecoder(body)
	for {
		var event struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil {
			// However it ended, it goes on at the version.
			return version, nil //nolint:nilerr // see above
		}
		if event.Type == watch.Error {
			status := &metav1.Status{}
			if err := json.Unmarshal(event.Object, status); err != nil {
				return version, fmt.Errorf("reading the end of the watch: %w", err)
			}
			return version, &apierrors.StatusError{ErrStatus: *status}
		}
		obj, err := g.decode(event.Object)
		if err != nil {
			return version, err
		}
		if v := versionOf(obj); v != "" {
			version = v
		}
		if event.Type == watch.Bookmark {
			continue
		}
		if err := handle(obj); err != nil {
			return version, err
		}
	}
}

// versionOf is the version of an object, or of the newest row of a table.
func versionOf(obj runtime.Object) string {
	if table, ok := obj.(*metav1.Table); ok {
		if n := len(table.Rows); n > 0 {
			obj = table.Rows[n-1].Object.Object
		}
	}
	if m, ok := obj.(metav1.Object); ok {
		return m.GetResourceVersion()
	}
	return ""
}

// decode reads an answer: a table, an object or a list.
func (g getter) decode(raw []byte) (runtime.Object, error) {
	obj, err := runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the server: %w", err)
	}
	if !g.table {
		return obj, nil
	}
	if kind := obj.GetObjectKind().GroupVersionKind(); kind.Kind != "Table" {
		return nil, fmt.Errorf("the server answered with a %s where a Table was expected", kind.Kind)
	}
	return decodeTable(raw)
}

// decodeTable reads a table together with the objects of its rows, which printers take
// namespace and labels from.
func decodeTable(raw []byte) (*metav1.Table, error) {
	table := &metav1.Table{}
	if err := json.Unmarshal(raw, table); err != nil {
		return nil, fmt.Errorf("reading the table of the server: %w", err)
	}
	for i := range table.Rows {
		row := &table.Rows[i].Object
		if len(row.Raw) == 0 {
			continue
		}
		obj, err := runtime.Decode(unstructured.UnstructuredJSONScheme, row.Raw)
		if err != nil {
			return nil, fmt.Errorf("reading row %d of the table of the server: %w", i+1, err)
		}
		row.Object = obj
	}
	return table, nil
}

// printTyped prints an object of the API in the format that was asked for.
func (o *outputFlags) printTyped(e *env, obj runtime.Object) error {
	printer, err := o.print.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(obj, e.Out)
}
