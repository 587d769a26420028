// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// Inspector inspects hosts.
type Inspector interface {
	// Inspect returns what the host reports about itself now. Errors are [apierrors.StatusError]s.
	Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error)
}

// InspectREST serves the subresource inspect: what a host reports about itself, live over
// SSH, also when its kubelet is dead or never ran. Nothing of it is stored.
type InspectREST struct {
	instances rest.Getter
	inspector Inspector
	streams   *limits.Streams
}

var (
	_ rest.Getter         = &InspectREST{}
	_ rest.TableConvertor = &InspectREST{}
)

// New implements [rest.Storage].
func (*InspectREST) New() runtime.Object { return &windows.WindowsInstanceInspection{} }

// Destroy implements [rest.Storage]. The store is shared with [REST], which destroys it.
func (*InspectREST) Destroy() {}

// Get implements [rest.Getter].
func (r *InspectREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	admitted, err := admit(ctx, r.streams, limits.Query, name, 1)
	if err != nil {
		return nil, err
	}
	defer admitted.Release()
	instance, err := getKnown(ctx, r.instances, name)
	if err != nil {
		return nil, err
	}
	inspection, err := r.inspector.Inspect(ctx, instance)
	if err != nil {
		return nil, err
	}
	out := &windows.WindowsInstanceInspection{}
	if err := v1alpha1.Convert_v1alpha1_WindowsInstanceInspection_To_windows_WindowsInstanceInspection(inspection, out, nil); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("converting the inspection: %w", err))
	}
	return out, nil
}

var inspectColumns = []metav1.TableColumnDefinition{
	{Name: "Area", Type: "string", Description: "What the line is about."},
	{Name: "Item", Type: "string", Description: "Which one of them."},
	{Name: "State", Type: "string", Description: "How it is."},
	{Name: "Detail", Type: "string", Description: "What else is worth knowing of it."},
}

// ConvertToTable implements [rest.TableConvertor]: a line for each thing that
// matters when a fault is searched.
func (*InspectREST) ConvertToTable(_ context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	inspection, err := base.As[*windows.WindowsInstanceInspection](obj)
	if err != nil {
		return nil, err
	}
	return tableOf(obj, options, inspectColumns, inspectionRows(inspection)), nil
}

// tableOf makes a table of several lines about one object.
func tableOf(obj, options runtime.Object, columns []metav1.TableColumnDefinition, rows [][]any) *metav1.Table {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = columns
	}
	for _, cells := range rows {
		// The generic code takes the metadata of each row out of its object.
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: obj}})
	}
	return table
}

// Words for states that the table tells apart by itself.
const (
	stateOK      = "OK"
	stateUnknown = "Unknown"
)

// Limits of what is fine, for the column State.
const (
	skewNoted      = time.Minute
	expiryNoted    = 24 * time.Hour
	maxTableDetail = 120
)

// lines collects the rows of the table.
type lines [][]any

func (l *lines) add(area, item, state string, detail ...string) {
	detail = slices.DeleteFunc(slices.Clone(detail), func(d string) bool { return d == "" })
	*l = append(*l, []any{area, orNone(item), orNone(state), orNone(oneLine(strings.Join(detail, ", ")))})
}

func inspectionRows(i *windows.WindowsInstanceInspection) [][]any {
	var l lines
	s := i.System
	l.add("System", s.Hostname, s.Product, s.Build, s.Architecture, s.InstallationType, prefixed("FQDN ", s.FQDN), prefixed("named after the next restart ", s.PendingHostname))
	agent := "NotElevated"
	if i.Agent.Elevated {
		agent = "Elevated"
	}
	l.add("Agent", i.Agent.Version, agent, prefixed("user ", i.Agent.User), prefixed("digest ", shortDigest(i.Agent.SHA256)))
	l.configuration(i)
	l.add("Uptime", rfc3339(i.Boot.Time), duration.HumanDuration(i.Boot.Uptime.Duration), prefixed("boot ", i.Boot.ID))
	reboot := "NotPending"
	if i.PendingReboot.Pending {
		reboot = "Pending"
	}
	l.add("Reboot", "", reboot, i.PendingReboot.Reasons...)
	l.updates(i.WindowsUpdates)
	l.clock(i)
	l.add("CPU", strconv.Itoa(int(i.CPUs)), stateOK)
	l.add("Memory", gibibytes(i.Memory.Total), stateOK, gibibytes(i.Memory.Available)+" available")
	for _, d := range i.Disks {
		system := ""
		if d.System {
			system = "system"
		}
		l.add("Disk", d.Path, gibibytes(d.Free)+" free", "of "+gibibytes(d.Total), d.FileSystem, system)
	}
	for _, s := range i.Services {
		l.add("Service", s.Name, s.State, s.StartType, numbered("PID ", s.PID), numbered("exit code ", s.ExitCode))
	}
	l.network(&i.Network)
	for _, c := range i.Certificates {
		l.certificate(&c, i.Time.Time)
	}
	for _, e := range i.RecentErrors {
		ago := stateUnknown
		if e.Time != nil {
			ago = duration.HumanDuration(i.Time.Add(i.ClockSkew.Duration).Sub(e.Time.Time)) + " ago"
		}
		l.add("Error", e.Source, ago, e.Message)
	}
	for _, u := range i.Unknown {
		l.add("Unknown", u.Area, stateUnknown, u.Message)
	}
	return l
}

// configuration adds what the host was configured with, and what others changed since then.
// A host that never was configured has no line.
func (l *lines) configuration(i *windows.WindowsInstanceInspection) {
	c := &i.Configuration
	switch {
	case c.ApplyingRevision != "":
		l.add("Configuration", v1alpha1.ShortRevision(c.ApplyingRevision), "Incomplete", prefixed("before that ", v1alpha1.ShortRevision(c.AppliedRevision)))
	case c.AppliedRevision != "":
		l.add("Configuration", v1alpha1.ShortRevision(c.AppliedRevision), "Applied")
	}
	d := c.Drift
	if d == nil {
		return
	}
	found := rfc3339(&d.Time)
	for _, item := range d.Repaired {
		l.add("Drift", found, "Repaired", item)
	}
	for _, item := range d.Left {
		l.add("Drift", found, "Left", item)
	}
	if d.Message != "" {
		l.add("Drift", found, "Failed", d.Message)
	}
}

// updates adds the updates of Windows that wait. A host that does not search for any has no line.
func (l *lines) updates(u *windows.WindowsUpdatesInspection) {
	if u == nil {
		return
	}
	if u.SearchedAt != nil {
		l.add("Updates", rfc3339(u.SearchedAt), fmt.Sprintf("%d pending", u.Pending), fmt.Sprintf("%d for security", u.Security))
	}
	for _, p := range u.Updates {
		kind := "Other"
		if p.Security {
			kind = "Security"
		}
		downloaded := ""
		if p.Downloaded {
			downloaded = "downloaded"
		}
		l.add("Update", strings.Join(p.Articles, "+"), kind, p.Title, p.Severity, downloaded)
		if p.Failure != "" {
			l.add("Update", strings.Join(p.Articles, "+"), "Failed", p.Failure)
		}
	}
	if u.Message != "" {
		l.add("Updates", "", "Failed", u.Message)
	}
}

func (l *lines) clock(i *windows.WindowsInstanceInspection) {
	skew := i.ClockSkew.Duration
	state := stateOK
	switch {
	case skew > skewNoted:
		state = "Ahead"
	case skew < -skewNoted:
		state = "Behind"
	}
	l.add("Clock", skew.String(), state, prefixed("zone ", i.TimeZone))
}

func (l *lines) network(n *windows.NetworkInspection) {
	for _, a := range n.Interfaces {
		state := "Down"
		if a.Up {
			state = "Up"
		}
		l.add("Interface", a.Name, state, strings.Join(a.Addresses, " "), prefixed("gateway ", strings.Join(a.Gateways, " ")), prefixed("DNS ", strings.Join(a.DNSServers, " ")), prefixed("MAC ", a.MAC))
	}
	for _, s := range n.Listeners {
		l.add("Listener", net.JoinHostPort(s.Address, strconv.Itoa(int(s.Port))), "Listening", numbered("PID ", s.PID))
	}
	for _, h := range n.HNSNetworks {
		l.add("HNSNetwork", h.Name, h.Type, h.Subnets...)
	}
}

// certificate judges by the clock of the server, which is assumed to be right.
func (l *lines) certificate(c *windows.CertificateInspection, now time.Time) {
	state := stateUnknown
	if c.NotAfter != nil {
		switch left := c.NotAfter.Sub(now); {
		case left <= 0:
			state = "Expired"
		case c.NotBefore != nil && c.NotBefore.After(now):
			state = "NotYetValid"
		case left < expiryNoted:
			state = "Expires in " + duration.HumanDuration(left)
		default:
			state = "Valid for " + duration.HumanDuration(left)
		}
	}
	l.add("Certificate", c.Path, state, c.Subject, prefixed("issuer ", c.Issuer), prefixed("until ", rfc3339(c.NotAfter)))
}

// gibibytes is an amount of memory or disk as people talk about it.
func gibibytes(q resource.Quantity) string {
	return fmt.Sprintf("%.1f GiB", float64(q.Value())/(1<<30))
}

func rfc3339(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// shortDigest is as much of a digest as names of files have.
func shortDigest(sha256 string) string { return sha256[:min(len(sha256), 16)] }

// prefixed is empty for an empty value.
func prefixed(prefix, value string) string {
	if value == "" {
		return ""
	}
	return prefix + value
}

// numbered is empty for 0.
func numbered(prefix string, n int64) string {
	if n == 0 {
		return ""
	}
	return prefix + strconv.FormatInt(n, 10)
}

// oneLine makes a cell of a text, which may have several lines and be long.
func oneLine(s string) string {
	s = words.OneLine(s)
	if runes := []rune(s); len(runes) > maxTableDetail {
		return string(runes[:maxTableDetail-1]) + "…"
	}
	return s
}
