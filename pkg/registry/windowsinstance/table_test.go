// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

func TestTableRow(t *testing.T) {
	created := metav1.NewTime(time.Now().Add(-3 * time.Hour))
	deleted := metav1.Now()
	condition := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Reachable", Status: "True", Reason: "x"}, {Type: "Ready", Status: status, Reason: reason}}
	}
	for _, test := range []struct {
		name     string
		instance windows.WindowsInstance
		want     []any // without the age
	}{
		{
			"nothing known",
			windows.WindowsInstance{Spec: windows.WindowsInstanceSpec{Address: "10.0.0.1", Port: 22}},
			[]any{"win-1", "10.0.0.1", "<none>", "<none>", "Unknown", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>"},
		},
		{
			"everything known",
			windows.WindowsInstance{
				Spec: windows.WindowsInstanceSpec{Address: "10.0.0.1", Port: 2222, PoolRef: &windows.PoolReference{Name: "pool-a"}},
				Status: windows.WindowsInstanceStatus{
					Phase: "Ready", Node: &windows.NodeReference{Name: "node-1"}, Version: "0.1.0", CurrentRevision: "0123456789abcdef",
					Conditions:     condition(metav1.ConditionTrue, "NodeReady"),
					System:         &windows.SystemStatus{Product: "Windows Server 2022 Datacenter", Build: "10.0.20348.2700"},
					HostKeys:       []windows.HostKeyStatus{{Fingerprint: "SHA256:a"}, {Fingerprint: "SHA256:b"}},
					WindowsUpdates: &windows.WindowsUpdatesStatus{SearchedAt: &created, Pending: 3, Security: 2},
					Operation:      &windows.Operation{Type: "Drain", Phase: windows.OperationRunning, Progress: &windows.OperationProgress{Done: 3, Total: 250, Unit: "pods"}},
				},
			},
			[]any{"win-1", "10.0.0.1:2222", "node-1", "Ready", "True", "0.1.0", "pool-a", "Windows Server 2022 Datacenter 10.0.20348.2700", "0123456789ab", "SHA256:a,SHA256:b", "3 (2 security)", "Drain Running (3/250 pods)"},
		},
		{
			"IPv6",
			windows.WindowsInstance{Spec: windows.WindowsInstanceSpec{Address: "fd00::1", Port: 22}},
			[]any{"win-1", "fd00::1", "<none>", "<none>", "Unknown", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>"},
		},
		{
			"IPv6 with a port",
			windows.WindowsInstance{Spec: windows.WindowsInstanceSpec{Address: "fd00::1", Port: 23}},
			[]any{"win-1", "[fd00::1]:23", "<none>", "<none>", "Unknown", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>"},
		},
		{
			"not ready, and why",
			windows.WindowsInstance{
				Spec:   windows.WindowsInstanceSpec{Address: "win-1"},
				Status: windows.WindowsInstanceStatus{Phase: "Unreachable", Conditions: condition(metav1.ConditionFalse, "ConnectionRefused")},
			},
			[]any{"win-1", "win-1", "<none>", "Unreachable", "False (ConnectionRefused)", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>"},
		},
		{
			"being deleted",
			windows.WindowsInstance{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted},
				Spec:       windows.WindowsInstanceSpec{Address: "win-1"},
				Status:     windows.WindowsInstanceStatus{Phase: "Ready", System: &windows.SystemStatus{Build: "10.0"}},
			},
			[]any{"win-1", "win-1", "<none>", "Removing", "Unknown", "<none>", "<none>", "10.0", "<none>", "<none>", "<none>", "<none>"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.instance.Name, test.instance.CreationTimestamp = "win-1", created
			table, err := tableConvertor{}.ConvertToTable(t.Context(), &test.instance, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
				t.Fatalf("got rows %v for columns %v", table.Rows, table.ColumnDefinitions)
			}
			age := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Age" })
			cells := table.Rows[0].Cells
			if cells[age] != "3h" {
				t.Errorf("the age is %v", cells[age])
			}
			if diff := cmp.Diff(test.want, slices.Delete(slices.Clone(cells), age, age+1)); diff != "" {
				t.Errorf("cells differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdatesCell(t *testing.T) {
	searched := metav1.Now()
	failed := []windows.FailedUpdate{{Name: "KB5044281"}}
	for _, tt := range []struct {
		updates *windows.WindowsUpdatesStatus
		want    string
	}{
		{nil, "<none>"},
		{&windows.WindowsUpdatesStatus{Message: "no network"}, "<none>"},
		{&windows.WindowsUpdatesStatus{SearchedAt: &searched}, "0"},
		{&windows.WindowsUpdatesStatus{SearchedAt: &searched, Pending: 3}, "3"},
		{&windows.WindowsUpdatesStatus{SearchedAt: &searched, Pending: 3, Security: 2}, "3 (2 security)"},
		{&windows.WindowsUpdatesStatus{SearchedAt: &searched, Pending: 3, Security: 2, Failed: failed}, "3 (2 security, 1 failed)"},
		{&windows.WindowsUpdatesStatus{SearchedAt: &searched, Pending: 1, Failed: failed}, "1 (1 failed)"},
		{&windows.WindowsUpdatesStatus{SearchedAt: &searched, Pending: 2, Failed: append(failed, windows.FailedUpdate{Name: "KB2", Interactive: true})}, "2 (1 failed, 1 interactive)"},
	} {
		if got := updatesCell(tt.updates); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.updates, got, tt.want)
		}
	}
}

func TestTableColumns(t *testing.T) {
	var narrow, wide []string
	for _, c := range columns {
		if c.Priority == 0 {
			narrow = append(narrow, c.Name)
		} else {
			wide = append(wide, c.Name)
		}
		if c.Description == "" || c.Type != "string" || c.Priority > 1 || (c.Format == "name") != (c.Name == "Name") {
			t.Errorf("column %+v", c)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Address", "Node", "Phase", "Ready", "Version", "Age"}, narrow); diff != "" {
		t.Errorf("columns differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Pool", "OS", "Revision", "HostKey", "Updates", "Operation"}, wide); diff != "" {
		t.Errorf("wide columns differ (-want +got):\n%s", diff)
	}
}

func TestTableOfList(t *testing.T) {
	left := int64(5)
	list := &windows.WindowsInstanceList{
		ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more", RemainingItemCount: &left},
		Items:    []windows.WindowsInstance{*validInstance(), *validInstance()},
	}
	table, err := tableConvertor{}.ConvertToTable(t.Context(), list, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 2 || table.ColumnDefinitions != nil {
		t.Errorf("got %d rows and columns %v", len(table.Rows), table.ColumnDefinitions)
	}
	if diff := cmp.Diff(list.ListMeta, table.ListMeta); diff != "" {
		t.Errorf("list metadata differs (-want +got):\n%s", diff)
	}
	if _, err := (tableConvertor{}).ConvertToTable(t.Context(), &windows.WindowsNodePool{}, nil); err == nil {
		t.Error("a pool was taken for an instance")
	}
}
