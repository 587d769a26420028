// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	kubectlget "k8s.io/kubectl/pkg/cmd/get"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/scheme"
)

// acceptTable asks the server for what kubectl prints: columns and cells.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// outputFlags are -o and what belongs to it, as of kubectl get.
type outputFlags struct {
	print *kubectlget.PrintFlags
}

func (o *outputFlags) addFlags(cmd *cobra.Command) {
	o.print = kubectlget.NewGetPrintFlags()
	o.print.HumanReadableFlags = &kubectlget.HumanPrintFlags{} // only get has flags about its columns
	o.print.AddFlags(cmd)
}

// asTable says whether the server's table is to be printed.
func (o *outputFlags) asTable() bool {
	template := o.print.TemplateFlags.TemplateArgument
	return (*o.print.OutputFormat == "" && *template == "") || *o.print.OutputFormat == "wide"
}

// printer prints the server's tables, or objects in the requested format.
func (o *outputFlags) printer() (printers.ResourcePrinter, error) {
	printer, err := o.print.ToPrinter()
	if err != nil {
		return nil, err
	}
	return printers.NewTypeSetter(scheme.Scheme).WrapToPrinter(printer, nil)
}

// printTyped prints an object of the API in the requested format.
func (o *outputFlags) printTyped(e *env, obj runtime.Object) error {
	if e.collect != nil {
		return e.collect(obj)
	}
	printer, err := o.printer()
	if err != nil {
		return err
	}
	return printer.PrintObj(obj, e.Out)
}

// reader returns a client of the API that decodes what is printed: tables, or objects with
// all fields that the server has.
func (o *outputFlags) reader(c *client) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.APIPath, config.GroupVersion = "/apis", &v1alpha1.SchemeGroupVersion
	config.NegotiatedSerializer = resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer
	if o.asTable() {
		config.AcceptContentTypes = acceptTable
	}
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())
	return rest.RESTClientFor(config)
}

// decodeTable decodes a table together with the objects of its rows, which printers take
// namespace and labels from. Other objects are returned as they are.
func decodeTable(obj runtime.Object) (runtime.Object, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok || object.GetKind() != "Table" {
		return obj, nil
	}
	table := &metav1.Table{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, table); err != nil {
		return nil, fmt.Errorf("decoding the table of the server: %w", err)
	}
	for i := range table.Rows {
		row := &table.Rows[i].Object
		if len(row.Raw) == 0 {
			continue
		}
		var err error
		if row.Object, err = runtime.Decode(unstructured.UnstructuredJSONScheme, row.Raw); err != nil {
			return nil, fmt.Errorf("decoding row %d of the table of the server: %w", i+1, err)
		}
	}
	return table, nil
}

type getOptions struct {
	outputFlags
	selection
	columns          *kubectlget.HumanPrintFlags
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

  # Those of a pool, and their changes
  kubectl windows get -A --pool windows-instances --watch

  # The host of a node, as YAML
  kubectl windows get win-6 -o yaml

  # Which host has which address, by their pools
  kubectl windows get -A --sort-by=.spec.poolRef.name -o custom-columns=NAME:.metadata.name,ADDRESS:.spec.address

  # The names of the hosts that need a person to act
  kubectl windows get -A --field-selector status.phase=Failed -o name`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args) },
	}
	o.outputFlags.addFlags(cmd)
	o.columns = kubectlget.NewHumanPrintFlags()
	o.columns.SetKind(v1alpha1.SchemeGroupVersion.WithKind("WindowsInstance").GroupKind())
	o.columns.AddFlags(cmd)
	o.print.HumanReadableFlags = o.columns
	completeWords(cmd, "sort-by", ".metadata.creationTimestamp", ".spec.address", ".spec.poolRef.name", ".status.node.name", ".status.phase", ".status.system.build")
	o.selection.addFlags(e, cmd)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "After listing, print every change, until Ctrl-C.")
	cmd.Flags().BoolVar(&o.watchOnly, "watch-only", false, "Print every change, without listing first.")
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "Do not fail when a named host does not exist.")
	return cmd
}

func (o *getOptions) run(ctx context.Context, e *env, args []string) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	if len(args) > 0 && o.selects() {
		return errNamesAndSelection
	}
	follow := o.watch || o.watchOnly
	if follow && len(args) > 1 {
		return errors.New("only one host can be watched by name; select several with -l, --field-selector or --pool")
	}
	show, err := o.display(e)
	if err != nil {
		return err
	}
	reader, err := o.reader(c)
	if err != nil {
		return err
	}
	g := &getter{reader: reader, namespace: o.namespace(c), whole: *o.columns.SortBy != "", show: show, note: e.note, shown: map[types.NamespacedName]string{}}
	if len(args) > 0 {
		return o.named(ctx, e, c, g, args)
	}
	options := o.listOptions()
	list, err := g.list(ctx, options)
	if err != nil {
		return err
	}
	if follow {
		g.news(list)
	}
	table, isTable := list.(*metav1.Table)
	switch {
	case o.watchOnly:
	case isTable && len(table.Rows) == 0:
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
	return g.watch(ctx, options, versionOf(list))
}

// named prints hosts by their names, and continues when one does not exist.
func (o *getOptions) named(ctx context.Context, e *env, c *client, g *getter, args []string) error {
	var (
		objects []runtime.Object
		failed  error
		last    target
	)
	for _, arg := range args {
		t, err := c.get(ctx, arg)
		if err == nil {
			var obj runtime.Object
			g.namespace = t.Namespace
			if obj, err = read(ctx, g.request(metav1.ListOptions{}).Name(t.Name)); err == nil {
				last, objects = t, append(objects, obj)
				continue
			}
		}
		switch {
		case o.ignoreNotFound && noSuchHost(err):
		case len(args) == 1 || ctx.Err() != nil:
			return err
		default:
			e.note("%s", explain(err))
			failed = &ExitError{Code: ExitFailure}
		}
	}
	if len(objects) > 0 && !o.watchOnly {
		shown := objects[0]
		if len(args) > 1 {
			shown = merge(objects)
		}
		if err := g.show(shown); err != nil {
			return err
		}
	}
	if (o.watch || o.watchOnly) && len(objects) > 0 {
		g.isNews(last)
		return g.watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + last.Name}, last.ResourceVersion)
	}
	return failed
}

// eachItem returns a printer that prints the objects of a list one by one, as the changes that follow.
func eachItem(printer printers.ResourcePrinter) printers.ResourcePrinter {
	return printers.ResourcePrinterFunc(func(obj runtime.Object, w io.Writer) error {
		if !meta.IsListType(obj) {
			return printer.PrintObj(obj, w)
		}
		return meta.EachListItem(obj, func(item runtime.Object) error { return printer.PrintObj(item, w) })
	})
}

// display returns what prints the hosts, and then what follows.
func (o *getOptions) display(e *env) (func(runtime.Object) error, error) {
	if err := o.validateColumns(); err != nil {
		return nil, err
	}
	o.columns.WithNamespace = o.allNamespaces
	printer, err := o.printer()
	if err != nil {
		return nil, err
	}
	follow := o.watch || o.watchOnly
	if follow {
		printer = eachItem(printer)
	}
	if *o.columns.SortBy != "" {
		printer = sorted(printer, *o.columns.SortBy)
		switch {
		case o.watchOnly:
			e.note("warning: --watch-only requested, --sort-by will be ignored")
		case o.watch:
			e.note("warning: --watch requested, --sort-by will be ignored for watch events received")
		}
	}
	if !follow {
		return func(obj runtime.Object) error { return printer.PrintObj(obj, e.Out) }, nil
	}
	// It remembers how wide the columns are from one change to the next.
	w := printers.GetNewTabWriter(e.Out)
	return func(obj runtime.Object) error { return errors.Join(printer.PrintObj(obj, w), w.Flush()) }, nil
}

// validateColumns refuses flags about columns of tables with formats that have none, as kubectl get does.
func (o *getOptions) validateColumns() error {
	switch output := *o.print.OutputFormat; {
	case *o.columns.ShowLabels && !o.asTable():
		return fmt.Errorf("--show-labels option cannot be used with %s printer", output)
	case len(*o.columns.ColumnLabels) > 0 && strings.HasPrefix(output, "custom-columns"):
		return fmt.Errorf("--label-columns option cannot be used with %s printer", output)
	}
	return nil
}

// getter reads the instances of a namespace as they are printed.
type getter struct {
	reader    rest.Interface
	namespace string
	// whole says that the rows of tables need all fields of their objects.
	whole bool
	show  func(runtime.Object) error
	note  func(format string, args ...any)
	// shown has the versions of the instances that were shown, if changes are shown after that.
	shown map[types.NamespacedName]string
}

func (g *getter) request(options metav1.ListOptions) *rest.Request {
	request := g.reader.Get().Namespace(g.namespace).Resource(instancesResource).VersionedParams(&options, metav1.ParameterCodec)
	if g.whole {
		request.Param("includeObject", string(metav1.IncludeObject))
	}
	return request
}

// read returns the answer to a request: a table, an object or a list.
func read(ctx context.Context, request *rest.Request) (runtime.Object, error) {
	obj, err := request.Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	return decodeTable(obj)
}

// list reads all instances, in chunks.
func (g *getter) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.Limit = listChunk
	var chunks []runtime.Object
	err := resource.FollowContinue(&options, func(options metav1.ListOptions) (runtime.Object, error) {
		chunk, err := read(ctx, g.request(options))
		chunks = append(chunks, chunk)
		return chunk, err
	})
	if err != nil {
		return nil, err
	}
	return merge(chunks), nil
}

// versionOf is from where to watch what a list has. Empty: the server has not said it.
func versionOf(list runtime.Object) string {
	listMeta, err := meta.ListAccessor(list)
	if err != nil {
		return ""
	}
	return listMeta.GetResourceVersion()
}

// isNews says whether an instance was not shown yet, and notes that it is. Of nil nobody knows.
func (g *getter) isNews(obj any) bool {
	object, err := meta.Accessor(obj)
	if err != nil {
		return true
	}
	name, version := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, object.GetResourceVersion()
	known := version != "" && g.shown[name] == version
	g.shown[name] = version
	return !known
}

// news leaves in a list, or a table, what was not shown yet, and notes that it is. It reports false if there is nothing.
func (g *getter) news(list runtime.Object) bool {
	switch list := list.(type) {
	case *metav1.Table:
		list.Rows = slices.DeleteFunc(list.Rows, func(row metav1.TableRow) bool { return !g.isNews(row.Object.Object) })
		return len(list.Rows) > 0
	case *unstructured.UnstructuredList:
		list.Items = slices.DeleteFunc(list.Items, func(item unstructured.Unstructured) bool { return !g.isNews(&item) })
		return len(list.Items) > 0
	}
	return g.isNews(list)
}

// watch shows every change since a version, until ctx ends. A watch that the server ends is
// continued where it was, and when the server cannot be reached, it is tried again, once a second
// at most. One that was just restarted may refuse at first what it granted before, and may not know any more what has changed
// since: then all is listed again, and what is new of that is shown.
func (g *getter) watch(ctx context.Context, options metav1.ListOptions, version string) error {
	return keepLooking(ctx, func(ctx context.Context, seen func()) (over bool, err error) {
		if version == "" {
			list, err := g.list(ctx, options)
			if err != nil {
				return false, err
			}
			if g.news(list) {
				if err := g.show(list); err != nil {
					return true, err
				}
			}
			if version = versionOf(list); version == "" {
				return true, errors.New("the server did not answer with a list that can be watched")
			}
		}
		watched := options
		watched.Watch, watched.ResourceVersion, watched.AllowWatchBookmarks = true, version, true
		w, err := g.request(watched).Watch(ctx)
		if err == nil {
			defer w.Stop()
			seen()
			over, err = g.changes(w, &version)
		}
		if isTooOld(err) {
			version = ""
			return false, nil
		}
		return over, err
	}, func(err error) { g.note("The watch is interrupted and tried again: %s", describeError(err)) })
}

// changes shows what comes from a watch, and keeps the version from where to watch next.
func (g *getter) changes(w watch.Interface, version *string) (over bool, err error) {
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		if object, err := meta.CommonAccessor(event.Object); err == nil && object.GetResourceVersion() != "" {
			*version = object.GetResourceVersion()
		}
		if event.Type == watch.Bookmark {
			continue
		}
		obj, err := decodeTable(event.Object)
		if err != nil {
			return true, err
		}
		if !g.news(obj) {
			continue
		}
		if err := g.show(obj); err != nil {
			return true, err
		}
	}
	return false, nil
}
