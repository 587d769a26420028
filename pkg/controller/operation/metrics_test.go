// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestOperationsAreCountedFromZero: the first failure of a kind is an increase, for each type of operation that the API has.
func TestOperationsAreCountedFromZero(t *testing.T) {
	m := newMetrics(prometheus.NewPedanticRegistry(), &runner{})
	types := typesOfAPI(t)
	if n := testutil.CollectAndCount(m.total); n != 3*len(types) || len(types) < 8 {
		t.Errorf("there are %d counters, of %d types", n, len(types))
	}
	m.ended(&v1alpha1.Operation{Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationFailed}, time.Now())
	for _, operationType := range types {
		for _, phase := range []v1alpha1.OperationPhase{v1alpha1.OperationSucceeded, v1alpha1.OperationFailed, v1alpha1.OperationCanceled} {
			want := 0.0
			if operationType == string(v1alpha1.OperationDrain) && phase == v1alpha1.OperationFailed {
				want = 1
			}
			if got := testutil.ToFloat64(m.total.WithLabelValues(operationType, string(phase))); got != want {
				t.Errorf("%s %s: %v, want %v", operationType, phase, got, want)
			}
		}
	}
	if n := testutil.CollectAndCount(m.total); n != 3*len(types) {
		t.Errorf("a type of the API is not counted from the beginning: there are %d counters now", n)
	}
}

// typesOfAPI are the constants of type OperationType.
func typesOfAPI(t *testing.T) (types []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "apis", "windows", "v1alpha1", "types_operation.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "OperationType" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value) //nolint:forcetypeassert // else the test fails
			if err != nil {
				t.Fatal(err)
			}
			types = append(types, value)
		}
		return true
	})
	slices.Sort(types)
	return types
}
