// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
	kubectlget "k8s.io/kubectl/pkg/cmd/get"
)

// sorted returns a printer that sorts lists and tables by a field, as kubectl get does.
func sorted(printer printers.ResourcePrinter, field string) printers.ResourcePrinter {
	sorting := &kubectlget.SortingPrinter{SortField: field, Delegate: printer}
	return printers.ResourcePrinterFunc(func(obj runtime.Object, w io.Writer) error {
		if err := checkSortable(obj, field); err != nil {
			return fmt.Errorf("--sort-by=%s: %w", field, err)
		}
		return sorting.PrintObj(obj, w)
	})
}

// checkSortable refuses values that have no order among each other: the sorter of kubectl ends the
// program when it meets them.
func checkSortable(obj runtime.Object, field string) error {
	path, err := kubectlget.RelaxedJSONPathExpression(field)
	if err != nil {
		return err
	}
	parser := jsonpath.New("sort-by").AllowMissingKeys(true)
	if err := parser.Parse(path); err != nil {
		return err
	}
	var objects []runtime.Object
	switch list := obj.(type) {
	case *metav1.Table:
		for i := range list.Rows {
			objects = append(objects, list.Rows[i].Object.Object)
		}
	case *unstructured.UnstructuredList:
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	var first any
	for _, object := range objects {
		whole, ok := object.(*unstructured.Unstructured)
		if !ok {
			return errors.New("the server sent a table without its objects")
		}
		found, err := parser.FindResults(whole.Object)
		if err != nil {
			return err
		}
		if len(found) == 0 || len(found[0]) == 0 {
			continue
		}
		value := found[0][0].Interface()
		switch value.(type) {
		case string, int64, float64:
		default:
			return fmt.Errorf("%v is neither a text nor a number", value)
		}
		if first == nil {
			first = value
		}
		if reflect.TypeOf(value) != reflect.TypeOf(first) {
			return fmt.Errorf("%v and %v cannot be compared", first, value)
		}
	}
	return nil
}
