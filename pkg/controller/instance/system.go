// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose/preflight"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// bootTimeTolerance is by how much the boot time of a host that was not restarted
// may differ from one look to the next: it is worked out from a clock that is being corrected.
const bootTimeTolerance = 2 * time.Minute

// newReport keeps of the facts what the status needs.
func newReport(facts *api.Facts, asked, received time.Time) *report {
	return &report{
		system:        systemStatus(facts),
		findings:      preflight.Evaluate(facts, asked, received),
		rebootPending: facts.PendingReboot.Pending,
		rebootReasons: facts.PendingReboot.Reasons,
		machineID:     facts.Agent.MachineID,
		kubelet:       facts.MayHaveService(wmco.KubeletService),
		wicd:          facts.Service(wmco.WICDService) != nil,
		exporter:      hasOurExporter(facts),
		agentVersion:  facts.Agent.Version,
		agentDigest:   strings.ToLower(facts.Agent.SHA256),
		configuration: facts.Configuration,
		blank:         facts.Unconfigured(),
		unattended:    isUnattended(facts),
		updates:       updatesStatus(facts.Updates),
	}
}

// updatesStatus is what a host says of updates of Windows, nil if it says nothing. Who searches only now and then says
// when, so that an unchanged host causes two writes a day for it.
func updatesStatus(u *api.WindowsUpdates) *v1alpha1.WindowsUpdatesStatus {
	if u == nil {
		return nil
	}
	s := &v1alpha1.WindowsUpdatesStatus{Pending: int32(u.Total), Security: int32(u.Security), Message: message.Shorten(u.Error, maxCause)}
	if !u.SearchedAt.IsZero() {
		s.SearchedAt = &metav1.Time{Time: u.SearchedAt.UTC().Truncate(time.Minute)}
	}
	for _, f := range u.Failures[:min(len(u.Failures), maxFailedUpdates)] {
		s.Failed = append(s.Failed, v1alpha1.FailedUpdate{
			Name: f.Name, Security: f.Security, RetryAt: metav1.Time{Time: f.RetryAt.UTC().Truncate(time.Second)}, Step: updateSteps[f.Action],
			Interactive: f.Interactive, Message: message.Shorten(f.Error, maxCause),
		})
	}
	return s
}

// updateSteps are the steps of operations that have a host do something about updates.
var updateSteps = map[api.UpdateAction]string{
	api.ActionDownload: v1alpha1.StepDownloadUpdates, api.ActionInstall: v1alpha1.StepInstallUpdates, api.ActionVerify: v1alpha1.StepVerifyUpdates,
}

// maxFailedUpdates is the limit of status.windowsUpdates.failed.
const maxFailedUpdates = 16

func systemStatus(facts *api.Facts) v1alpha1.SystemStatus {
	s := v1alpha1.SystemStatus{
		Product:      facts.System.Product,
		Build:        facts.System.Version,
		Architecture: facts.System.Architecture,
		Hostname:     facts.Name.Hostname,
		NodeName:     facts.Configuration.NodeName,
		CPUs:         int32(min(facts.CPUs, math.MaxInt32)),
	}
	if !strings.EqualFold(facts.Name.FQDN, facts.Name.Hostname) {
		s.FQDN = facts.Name.FQDN
	}
	if total := facts.Memory.TotalBytes; total > 0 {
		// Whole mebibytes: how much the firmware takes may differ by some pages.
		s.Memory = resource.NewQuantity(int64(min(total, math.MaxInt64)>>20<<20), resource.BinarySI)
	}
	if boot := facts.Boot.Time; !boot.IsZero() {
		s.BootTime = &metav1.Time{Time: boot.UTC().Truncate(time.Minute)}
	}
	return s
}

// mergeSystem returns what to record: the new status, but the recorded boot time
// where the new one does not mean that the host was restarted.
func mergeSystem(recorded *v1alpha1.SystemStatus, now v1alpha1.SystemStatus) *v1alpha1.SystemStatus {
	merged := now.DeepCopy()
	if recorded == nil || recorded.BootTime == nil {
		return merged
	}
	if merged.BootTime == nil || merged.BootTime.Sub(recorded.BootTime.Time).Abs() <= bootTimeTolerance {
		merged.BootTime = recorded.BootTime.DeepCopy()
	}
	return merged
}

// mergeMachine returns what to record of which machine a host is: the new identity, but the
// recorded one where the new one has less, as something of it cannot be read any more.
func mergeMachine(recorded, now string) string {
	firmware, installed, _ := strings.Cut(now, "/")
	if recorded != "" && (firmware == "" || installed == "") {
		return recorded
	}
	return now
}

// isUnattended says whether the service of our agent does not run on a host that was configured, so that nothing keeps the host as it is. One that was
// adopted, and not updated since, does not have it. What could not be read may run.
func isUnattended(facts *api.Facts) bool {
	c := facts.Configuration
	if c.AppliedRevision == "" || c.ApplyingRevision != "" || wmco.IsAdoptedRevision(c.AppliedRevision) || facts.Service(wmco.KubeletService) == nil {
		return false
	}
	if s := facts.Service(api.ServiceName); s != nil {
		return s.State == "Stopped"
	}
	return !facts.Unread(api.AreaServices) && !facts.Unread(api.AreaServices+"/"+api.ServiceName)
}

// hasOurExporter says whether the service windows_exporter runs the program that a payload, or WMCO, has put on the host. Sites may have
// their own, with the same name.
func hasOurExporter(facts *api.Facts) bool {
	return slices.ContainsFunc(facts.Services, func(s api.Service) bool {
		return strings.EqualFold(s.Name, wmco.WindowsExporterService) && strings.HasPrefix(strings.ToLower(strings.TrimPrefix(s.Path, `"`)), strings.ToLower(wmco.KubernetesDir+`\`))
	})
}
