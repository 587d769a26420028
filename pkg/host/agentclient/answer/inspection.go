// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package answer

import (
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Exchange is when a request was sent to the agent and answered, by our clock.
type Exchange struct{ Asked, Answered time.Time }

// clockSkew is the clock of the host less ours, as NTP works it out: the way there and the
// way back are taken to be equally long, so that what it may be wrong by is half of both.
func clockSkew(theirs api.TimeFacts, ours Exchange) time.Duration {
	answered := theirs.Answered
	if answered.IsZero() {
		answered = theirs.Now
	}
	// Halved before they are added: each is as long as a duration can be when a clock is off by centuries.
	return (theirs.Now.Sub(ours.Asked)/2 + answered.Sub(ours.Answered)/2).Round(time.Millisecond)
}

// Inspection is what the agent found on a host, in the words of the API.
func Inspection(f *api.Facts, times Exchange) *v1alpha1.WindowsInstanceInspection {
	out := &v1alpha1.WindowsInstanceInspection{
		Time:          metav1.NewTime(times.Answered),
		ClockSkew:     metav1.Duration{Duration: clockSkew(f.Time, times)},
		TimeZone:      f.Time.Zone,
		Agent:         v1alpha1.AgentInspection{Version: f.Agent.Version, SHA256: f.Agent.SHA256, User: f.User.Name, Elevated: f.User.Administrator && f.User.Elevated},
		Configuration: configurationOf(f.Configuration),
		System: v1alpha1.SystemInspection{
			Product: f.System.Product, Edition: f.System.Edition, InstallationType: f.System.InstallationType,
			Build: f.System.Version, Architecture: f.System.Architecture,
			Hostname: f.Name.Hostname, PendingHostname: f.Name.Pending,
		},
		Boot:          v1alpha1.BootInspection{Time: timeOf(f.Boot.Time), Uptime: metav1.Duration{Duration: time.Duration(f.Boot.UptimeSeconds) * time.Second}, ID: f.Boot.ID},
		PendingReboot: v1alpha1.RebootInspection{Pending: f.PendingReboot.Pending, Reasons: f.PendingReboot.Reasons},
		CPUs:          int32(min(f.CPUs, math.MaxInt32)),
		Memory:        v1alpha1.MemoryInspection{Total: bytesOf(f.Memory.TotalBytes), Available: bytesOf(f.Memory.AvailableBytes)},
	}
	if !strings.EqualFold(f.Name.FQDN, f.Name.Hostname) {
		out.System.FQDN = f.Name.FQDN
	}
	out.WindowsUpdates = updatesOf(f.Updates)
	for _, d := range f.Disks {
		out.Disks = append(out.Disks, v1alpha1.DiskInspection{Path: d.Path, System: d.System, FileSystem: d.FileSystem, Total: bytesOf(d.TotalBytes), Free: bytesOf(d.FreeBytes)})
	}
	for _, s := range f.Services {
		out.Services = append(out.Services, v1alpha1.ServiceInspection{Name: s.Name, State: s.State, StartType: s.StartType, PID: int64(s.PID), ExitCode: int64(s.ExitCode), Path: s.Path})
	}
	out.Network = networkOf(f.Network)
	for _, c := range f.Certificates {
		out.Certificates = append(out.Certificates, v1alpha1.CertificateInspection{Path: c.Path, Subject: c.Subject, Issuer: c.Issuer, NotBefore: timeOf(c.NotBefore), NotAfter: timeOf(c.NotAfter)})
	}
	for _, e := range f.RecentErrors {
		out.RecentErrors = append(out.RecentErrors, v1alpha1.ErrorInspection{Time: timeOf(e.Time), Source: e.Source, Message: e.Message})
	}
	for _, e := range f.Errors {
		out.Unknown = append(out.Unknown, v1alpha1.UnknownInspection{Area: e.Area, Message: e.Message})
	}
	return out
}

func updatesOf(u *api.WindowsUpdates) *v1alpha1.WindowsUpdatesInspection {
	if u == nil {
		return nil
	}
	out := &v1alpha1.WindowsUpdatesInspection{SearchedAt: timeOf(u.SearchedAt), Pending: int32(u.Total), Security: int32(u.Security), Message: u.Error}
	for _, p := range u.Pending {
		update := v1alpha1.UpdateInspection{Title: p.Title, Articles: p.KBs, Security: p.Security, Severity: p.Severity, Downloaded: p.Downloaded}
		for _, f := range u.Failures {
			if f.ID == p.ID && f.Revision == p.Revision {
				update.Failure = f.Error
			}
		}
		out.Updates = append(out.Updates, update)
	}
	return out
}

func configurationOf(c api.ConfigurationFacts) v1alpha1.ConfigurationInspection {
	out := v1alpha1.ConfigurationInspection{AppliedRevision: c.AppliedRevision, ApplyingRevision: c.ApplyingRevision}
	if d := c.Drift; d != nil {
		out.Drift = &v1alpha1.DriftInspection{Time: metav1.NewTime(d.Time), Repaired: driftedItems(d.Repaired), Left: driftedItems(d.Left), Message: d.Error}
	}
	return out
}

// driftedItems are items for people, with what differs.
func driftedItems(items []api.Item) []string {
	var out []string
	for _, i := range items {
		text := i.String()
		if i.Reason != "" {
			text += ": " + i.Reason
		}
		out = append(out, text)
	}
	return out
}

func networkOf(n api.NetworkFacts) v1alpha1.NetworkInspection {
	var out v1alpha1.NetworkInspection
	for _, i := range n.Interfaces {
		out.Interfaces = append(out.Interfaces, v1alpha1.InterfaceInspection{
			Name: i.Name, Up: i.Up, MAC: i.MAC, MTU: int32(min(i.MTU, math.MaxInt32)),
			Addresses: i.Addresses, Gateways: i.Gateways, DNSServers: i.DNSServers,
		})
	}
	for _, l := range n.Listening {
		out.Listeners = append(out.Listeners, v1alpha1.ListenerInspection{Port: int32(l.Port), Address: l.Address, PID: int64(l.PID)})
	}
	for _, h := range n.HNSNetworks {
		out.HNSNetworks = append(out.HNSNetworks, v1alpha1.HNSNetworkInspection{Name: h.Name, Type: h.Type, Subnets: h.Subnets})
	}
	return out
}

// timeOf is nil for a time that is not known.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

func bytesOf(n uint64) resource.Quantity {
	return *resource.NewQuantity(int64(min(n, math.MaxInt64)), resource.BinarySI)
}
