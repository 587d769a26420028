// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// tableConvertor renders the table that kubectl prints. Columns with a priority
// above 0 are shown with -o wide only.
type tableConvertor struct{}

var _ rest.TableConvertor = tableConvertor{}

// none is what an empty cell shows, as elsewhere in kubectl.
const none = "<none>"

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the instance."},
	{Name: "Address", Type: "string", Description: "Address under which the host answers SSH, with the port when it is not 22."},
	{Name: "Node", Type: "string", Description: "Node of the host."},
	{Name: "Phase", Type: "string", Description: "One word about the host."},
	{Name: "Ready", Type: "string", Description: "Whether the host is ready, and if not, why."},
	{Name: "Version", Type: "string", Description: "Version of this project's software on the host."},
	{Name: "Age", Type: "string", Description: "Time since the instance was created."},
	{Name: "Pool", Type: "string", Priority: 1, Description: "Pool the host belongs to."},
	{Name: "OS", Type: "string", Priority: 1, Description: "Windows product and build."},
	{Name: "Revision", Type: "string", Priority: 1, Description: "Revision that the host is configured with."},
	{Name: "HostKey", Type: "string", Priority: 1, Description: "Fingerprint of the trusted host key."},
	{Name: "Updates", Type: "string", Priority: 1, Description: "Updates of Windows that wait to be installed, and how many of them are for security, could not be installed, or may ask questions."},
	{Name: "Operation", Type: "string", Priority: 1, Description: "Operation that runs, or the last one."},
}

// ConvertToTable implements [rest.TableConvertor].
func (tableConvertor) ConvertToTable(_ context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	return base.Table(obj, options, columns, cells)
}

// cells returns the cells of a row.
func cells(instance *windows.WindowsInstance, name, age string) []any {
	phase := string(instance.Status.Phase)
	if instance.DeletionTimestamp != nil {
		phase = "Removing"
	}
	return []any{
		name,
		addressCell(&instance.Spec),
		orNone(nodeName(instance)),
		orNone(phase),
		readyCell(instance.Status.Conditions),
		orNone(instance.Status.Version),
		age,
		orNone(poolName(instance)),
		osCell(instance.Status.System),
		orNone(v1alpha1.ShortRevision(instance.Status.CurrentRevision)),
		hostKeyCell(instance.Status.HostKeys),
		updatesCell(instance.Status.WindowsUpdates),
		operationCell(instance.Status.Operation),
	}
}

func addressCell(spec *windows.WindowsInstanceSpec) string {
	if spec.Port == 0 || spec.Port == v1alpha1.DefaultPort {
		return spec.Address
	}
	return net.JoinHostPort(spec.Address, strconv.Itoa(int(spec.Port)))
}

// readyCell is True, or names what is wrong: a bare False would make describe
// necessary.
func readyCell(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return "Unknown"
	case ready.Status == metav1.ConditionTrue || ready.Reason == "":
		return string(ready.Status)
	}
	return fmt.Sprintf("%s (%s)", ready.Status, ready.Reason)
}

func osCell(system *windows.SystemStatus) string {
	if system == nil {
		return none
	}
	return orNone(strings.TrimSpace(system.Product + " " + system.Build))
}

func hostKeyCell(keys []windows.HostKeyStatus) string {
	fingerprints := make([]string, 0, len(keys))
	for _, key := range keys {
		fingerprints = append(fingerprints, key.Fingerprint)
	}
	return orNone(strings.Join(fingerprints, ","))
}

// updatesCell counts updates that wait. It tells those that were never searched for from none.
func updatesCell(u *windows.WindowsUpdatesStatus) string {
	if u == nil || u.SearchedAt == nil {
		return none
	}
	var of []string
	if u.Security > 0 {
		of = append(of, fmt.Sprintf("%d security", u.Security))
	}
	failed, interactive := 0, 0
	for _, f := range u.Failed {
		if f.Interactive {
			interactive++
		} else {
			failed++
		}
	}
	if failed > 0 {
		of = append(of, fmt.Sprintf("%d failed", failed))
	}
	if interactive > 0 {
		of = append(of, fmt.Sprintf("%d interactive", interactive))
	}
	text := strconv.Itoa(int(u.Pending))
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return text
}

// operationCell is the operation, and how far it is where that can be counted.
func operationCell(o *windows.Operation) string {
	switch {
	case o == nil:
		return none
	case o.Phase == windows.OperationRunning && o.Progress != nil:
		return fmt.Sprintf("%s %s (%d/%d %s)", o.Type, o.Phase, o.Progress.Done, o.Progress.Total, o.Progress.Unit)
	}
	return fmt.Sprintf("%s %s", o.Type, o.Phase)
}

func orNone(s string) string { return cmp.Or(s, none) }
