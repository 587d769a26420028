// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
)

// inspectorFunc is an Inspector.
type inspectorFunc func(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error)

func (f inspectorFunc) Inspect(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
	return f(ctx, instance)
}

func TestInspect(t *testing.T) {
	unreachable := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 503}}
	for _, test := range []struct {
		name     string
		instance string
		err      error
		want     int32 // 0: an answer
	}{
		{"answer", "win-1", nil, 0},
		{"no such instance", "win-2", nil, 404},
		{"host cannot be reached", "win-1", unreachable, 503},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &InspectREST{streams: limits.New(nil), instances: instances{}, inspector: inspectorFunc(func(_ context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstanceInspection, error) {
				if test.err != nil {
					return nil, test.err
				}
				return &v1alpha1.WindowsInstanceInspection{
					ObjectMeta: metav1.ObjectMeta{Name: instance.Name},
					Services:   []v1alpha1.ServiceInspection{{Name: "kubelet", State: "Stopped"}},
				}, nil
			})}
			obj, err := r.Get(t.Context(), test.instance, &metav1.GetOptions{})
			if test.want != 0 {
				var status apierrors.APIStatus
				if !asStatus(err, &status) || status.Status().Code != test.want {
					t.Errorf("got %v, want code %d", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := obj.(*windows.WindowsInstanceInspection); !ok || got.Name != "win-1" || len(got.Services) != 1 {
				t.Errorf("got %+v", obj)
			}
		})
	}
}

// asText writes a table as kubectl does, but with | between the cells.
func asText(t *testing.T, convert func(context.Context, k8sruntime.Object, k8sruntime.Object) (*metav1.Table, error), obj k8sruntime.Object) []string {
	t.Helper()
	table, err := convert(t.Context(), obj, nil)
	if err != nil {
		t.Fatal(err)
	}
	headless, err := convert(t.Context(), obj, &metav1.TableOptions{NoHeaders: true})
	if err != nil || headless.ColumnDefinitions != nil {
		t.Errorf("without headers: %v, %v", headless, err)
	}
	if _, err := convert(t.Context(), &metav1.Status{}, nil); err == nil {
		t.Error("an object of another kind is no error")
	}
	var out, header []string
	for _, c := range table.ColumnDefinitions {
		if c.Type != "string" || c.Priority != 0 || c.Description == "" {
			t.Errorf("column %+v", c)
		}
		header = append(header, c.Name)
	}
	out = append(out, strings.Join(header, " | "))
	for _, row := range table.Rows {
		if row.Object.Object != obj {
			t.Error("a row has no object, without which the server refuses the table")
		}
		if len(row.Cells) != len(table.ColumnDefinitions) {
			t.Errorf("%d cells in %d columns", len(row.Cells), len(table.ColumnDefinitions))
		}
		cells := make([]string, len(row.Cells))
		for i, cell := range row.Cells {
			cells[i] = fmt.Sprint(cell)
		}
		out = append(out, strings.Join(cells, " | "))
	}
	return out
}

func TestInspectTable(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	quantity := func(gib int64) resource.Quantity { return *resource.NewQuantity(gib<<30, resource.BinarySI) }
	inspection := &windows.WindowsInstanceInspection{
		Time: metav1.Time{Time: now}, ClockSkew: metav1.Duration{Duration: 90 * time.Second}, TimeZone: "UTC",
		Agent: windows.AgentInspection{Version: "v1.2.3", SHA256: strings.Repeat("a", 64), User: `WIN-1\Administrator`, Elevated: true},
		Configuration: windows.ConfigurationInspection{AppliedRevision: "r1", Drift: &windows.DriftInspection{
			Time: *at(-time.Hour), Repaired: []string{"Start Service kubelet: it is Stopped"}, Left: []string{"Update Service containerd"}, Message: "no space",
		}},
		System: windows.SystemInspection{Product: "Windows Server 2022 Datacenter", Build: "10.0.20348.2700", Architecture: "amd64", Hostname: "win-1", PendingHostname: "win-2"},
		Boot:   windows.BootInspection{Time: at(-50 * time.Hour), Uptime: metav1.Duration{Duration: 50 * time.Hour}, ID: "boot-1"},
		PendingReboot: windows.RebootInspection{
			Pending: true, Reasons: []string{"WindowsUpdate", "PendingFileRename"},
		},
		WindowsUpdates: &windows.WindowsUpdatesInspection{
			SearchedAt: at(-time.Hour), Pending: 2, Security: 1, Message: "HRESULT 0x8024402c",
			Updates: []windows.UpdateInspection{
				{Title: "2026-03 Cumulative Update", Articles: []string{"KB5044281"}, Security: true, Severity: "Critical", Downloaded: true, Failure: "it cannot be installed: HRESULT 0x80073712"},
				{Title: "Update for Windows"},
			},
		},
		CPUs:   4,
		Memory: windows.MemoryInspection{Total: quantity(16), Available: *resource.NewQuantity(5<<29, resource.BinarySI)},
		Disks:  []windows.DiskInspection{{Path: `C:\`, System: true, FileSystem: "NTFS", Total: quantity(128), Free: quantity(96)}},
		Services: []windows.ServiceInspection{
			{Name: "kubelet", State: "Stopped", StartType: "Automatic", ExitCode: 1067},
			{Name: "containerd", State: "Running", StartType: "Automatic", PID: 1234},
		},
		Network: windows.NetworkInspection{
			Interfaces:  []windows.InterfaceInspection{{Name: "Ethernet", Up: true, MAC: "00:50:56:9a:10:01", Addresses: []string{"10.0.0.5/24"}, Gateways: []string{"10.0.0.1"}, DNSServers: []string{"10.0.0.2", "10.0.0.3"}}, {Name: "Ethernet 2"}},
			Listeners:   []windows.ListenerInspection{{Port: 22, Address: "::", PID: 7}},
			HNSNetworks: []windows.HNSNetworkInspection{{Name: "nat", Type: "NAT", Subnets: []string{"172.19.0.0/20"}}},
		},
		Certificates: []windows.CertificateInspection{
			{Path: `C:\a.pem`, Subject: "CN=a", Issuer: "CN=ca", NotBefore: at(-time.Hour), NotAfter: at(40 * 24 * time.Hour)},
			{Path: `C:\b.pem`, NotAfter: at(-time.Second)},
			{Path: `C:\c.pem`, NotAfter: at(3 * time.Hour)},
			{Path: `C:\d.pem`, NotBefore: at(time.Minute), NotAfter: at(3 * time.Hour)},
			{Path: `C:\e.pem`},
		},
		RecentErrors: []windows.ErrorInspection{
			{Time: at(30 * time.Second), Source: "kubelet", Message: "E0305 first line\nsecond line"},
			{Source: "System/disk", Message: strings.Repeat("ä", 200)},
			{Source: "System/disk", Message: strings.Repeat("ä", 120)},
		},
		Unknown: []windows.UnknownInspection{{Area: "network/hns", Message: "the Host Networking Service (hns) does not run"}},
	}
	want := []string{
		"Area | Item | State | Detail",
		"System | win-1 | Windows Server 2022 Datacenter | 10.0.20348.2700, amd64, named after the next restart win-2",
		`Agent | v1.2.3 | Elevated | user WIN-1\Administrator, digest aaaaaaaaaaaaaaaa`,
		"Configuration | r1 | Applied | <none>",
		"Drift | 2026-03-05T11:00:00Z | Repaired | Start Service kubelet: it is Stopped",
		"Drift | 2026-03-05T11:00:00Z | Left | Update Service containerd",
		"Drift | 2026-03-05T11:00:00Z | Failed | no space",
		"Uptime | 2026-03-03T10:00:00Z | 2d2h | boot boot-1",
		"Reboot | <none> | Pending | WindowsUpdate, PendingFileRename",
		"Updates | 2026-03-05T11:00:00Z | 2 pending | 1 for security",
		"Update | KB5044281 | Security | 2026-03 Cumulative Update, Critical, downloaded",
		"Update | KB5044281 | Failed | it cannot be installed: HRESULT 0x80073712",
		"Update | <none> | Other | Update for Windows",
		"Updates | <none> | Failed | HRESULT 0x8024402c",
		"Clock | 1m30s | Ahead | zone UTC",
		"CPU | 4 | OK | <none>",
		"Memory | 16.0 GiB | OK | 2.5 GiB available",
		`Disk | C:\ | 96.0 GiB free | of 128.0 GiB, NTFS, system`,
		"Service | kubelet | Stopped | Automatic, exit code 1067",
		"Service | containerd | Running | Automatic, PID 1234",
		"Interface | Ethernet | Up | 10.0.0.5/24, gateway 10.0.0.1, DNS 10.0.0.2 10.0.0.3, MAC 00:50:56:9a:10:01",
		"Interface | Ethernet 2 | Down | <none>",
		"Listener | [::]:22 | Listening | PID 7",
		"HNSNetwork | nat | NAT | 172.19.0.0/20",
		`Certificate | C:\a.pem | Valid for 40d | CN=a, issuer CN=ca, until 2026-04-14T12:00:00Z`,
		`Certificate | C:\b.pem | Expired | until 2026-03-05T11:59:59Z`,
		`Certificate | C:\c.pem | Expires in 3h | until 2026-03-05T15:00:00Z`,
		`Certificate | C:\d.pem | NotYetValid | until 2026-03-05T15:00:00Z`,
		`Certificate | C:\e.pem | Unknown | <none>`,
		"Error | kubelet | 60s ago | E0305 first line second line",
		"Error | System/disk | Unknown | " + strings.Repeat("ä", 119) + "…",
		"Error | System/disk | Unknown | " + strings.Repeat("ä", 120),
		"Unknown | network/hns | Unknown | the Host Networking Service (hns) does not run",
	}
	if diff := cmp.Diff(want, asText(t, (&InspectREST{}).ConvertToTable, inspection)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	skewed := func(d time.Duration) *windows.WindowsInstanceInspection {
		return &windows.WindowsInstanceInspection{ClockSkew: metav1.Duration{Duration: d}}
	}
	certificate := func(left time.Duration) *windows.WindowsInstanceInspection {
		return &windows.WindowsInstanceInspection{Time: metav1.Time{Time: now}, Certificates: []windows.CertificateInspection{{Path: "c", NotAfter: at(left)}}}
	}
	for _, tt := range []struct {
		name       string
		inspection *windows.WindowsInstanceInspection
		want       string
		not        string // no line begins so
	}{
		{"halfway", &windows.WindowsInstanceInspection{Configuration: windows.ConfigurationInspection{AppliedRevision: "r1", ApplyingRevision: "r2"}}, "Configuration | r2 | Incomplete | before that r1", "Drift"},
		{"nothing to repair", &windows.WindowsInstanceInspection{Configuration: windows.ConfigurationInspection{AppliedRevision: "r1", Drift: &windows.DriftInspection{}}}, "Configuration | r1 | Applied | <none>", "Drift"},
		{"a host that says nothing", &windows.WindowsInstanceInspection{}, "Agent | <none> | NotElevated | <none>", "Configuration"},
		{"no restart is pending", &windows.WindowsInstanceInspection{}, "Reboot | <none> | NotPending | <none>", "Drift"},
		{"another disk", &windows.WindowsInstanceInspection{Disks: []windows.DiskInspection{{Path: `D:\`, FileSystem: "NTFS"}}}, `Disk | D:\ | 0.0 GiB free | of 0.0 GiB, NTFS`, "Drift"},
		{"the clock is right", skewed(-time.Minute), "Clock | -1m0s | OK | <none>", "Drift"},
		{"the clock is hardly wrong", skewed(time.Minute), "Clock | 1m0s | OK | <none>", "Drift"},
		{"the clock is behind", skewed(-61 * time.Second), "Clock | -1m1s | Behind | <none>", "Drift"},
		{"a certificate ends now", certificate(0), "Certificate | c | Expired | until 2026-03-05T12:00:00Z", "Drift"},
		{"a certificate ends in a day", certificate(24 * time.Hour), "Certificate | c | Valid for 24h | until 2026-03-06T12:00:00Z", "Drift"},
	} {
		got := asText(t, (&InspectREST{}).ConvertToTable, tt.inspection)
		if !slices.Contains(got, tt.want) || slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, tt.not) }) {
			t.Errorf("%s: no line %q, or one for %s, in %q", tt.name, tt.want, tt.not, got)
		}
	}
}
