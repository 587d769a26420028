// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// tableConvertor renders the table that kubectl prints.
type tableConvertor struct{}

var _ rest.TableConvertor = tableConvertor{}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the pool."},
	{Name: "Source", Type: "string", Description: "Where the hosts of the pool come from."},
	{Name: "Desired", Type: "integer", Description: "Number of hosts in the source."},
	{Name: "Ready", Type: "integer", Description: "Number of hosts that are ready."},
	{Name: "Updated", Type: "integer", Description: "Number of hosts that have the desired revision."},
	{Name: "Unavailable", Type: "integer", Description: "Number of hosts in the source that are not ready."},
	{Name: "Phase", Type: "string", Description: "One word about the pool."},
	{Name: "Age", Type: "string", Description: "Time since the pool was created."},
}

// ConvertToTable implements [rest.TableConvertor].
func (tableConvertor) ConvertToTable(_ context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	return base.Table(obj, options, columns, func(pool *windows.WindowsNodePool, name, age string) []any {
		status := &pool.Status
		return []any{
			name, sourceCell(&pool.Spec.Source),
			int64(status.DesiredReplicas), int64(status.ReadyReplicas), int64(status.UpdatedReplicas), int64(status.UnavailableReplicas),
			string(cmp.Or(status.Phase, windows.PoolPending)), age,
		}
	})
}

func sourceCell(source *windows.PoolSource) string {
	switch {
	case source.MachineSet != nil:
		return "MachineSet/" + source.MachineSet.Name
	case source.ConfigMap != nil:
		return "ConfigMap/" + source.ConfigMap.Name
	case source.Instances != nil:
		return "Instances"
	}
	return "<none>"
}
