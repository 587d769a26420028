// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

func TestInspect(t *testing.T) {
	const ahead = 90 * time.Second
	end := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSite(t, winhost.InProcessOptions{
		Clock: func() time.Time { return time.Now().Add(ahead).UTC() },
		Facts: func(f *api.Facts) {
			f.PendingReboot = api.PendingReboot{Pending: true, Reasons: []string{api.RebootWindowsUpdate}}
			f.AddError("network/hns", os.ErrNotExist)
		},
		Details: func(f *api.Facts) {
			f.Certificates = []api.Certificate{{Path: `C:\var\lib\kubelet\pki\kubelet-client-current.pem`, Subject: "CN=system:node:win-1", NotAfter: end}}
			f.Network.HNSNetworks = []api.HNSNetwork{{Name: "nat", Type: "nat", Subnets: []string{"172.19.0.0/20"}}}
		},
	})
	logged := time.Now().Add(ahead).UTC().Truncate(time.Microsecond)
	if err := os.WriteFile(filepath.Join(s.Host.LogDir(), "kubelet.log"), []byte(logged.Format("E0102 15:04:05.000000")+"    7 a.go:1] boom\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Instance.UID = "uid-1"

	got, err := s.client.Inspect(t.Context(), s.Instance)
	if err != nil {
		t.Fatal(err)
	}
	// The answer took a part of a second, which is all that the skew can be wrong by.
	if skew := got.ClockSkew.Duration; (skew - ahead).Abs() > 10*time.Second {
		t.Errorf("the skew is %s, want about %s", skew, ahead)
	}
	if got.Name != "win-1" || got.Namespace != "default" || got.UID != "uid-1" || got.Time.IsZero() {
		t.Errorf("got metadata %+v, time %s", got.ObjectMeta, got.Time)
	}
	if got.Boot.ID == "" || got.Boot.Time == nil || got.System.Product != "Windows Server 2022 Datacenter" || got.System.FQDN != "" || got.Agent.User == "" || !got.Agent.Elevated {
		t.Errorf("got boot %+v, system %+v, agent %+v", got.Boot, got.System, got.Agent)
	}
	if got.Memory.Total.String() != "16Gi" || len(got.Disks) != 1 || got.Disks[0].Free.String() != "96Gi" || got.CPUs != 4 {
		t.Errorf("got memory %v, disks %v, %d processors", got.Memory, got.Disks, got.CPUs)
	}
	if !got.PendingReboot.Pending || !cmp.Equal(got.PendingReboot.Reasons, []string{"WindowsUpdate"}) {
		t.Errorf("got %+v", got.PendingReboot)
	}
	if len(got.Services) != 4 || got.Services[0].Name != "sshd" || got.Services[0].State != "Running" || got.Services[0].StartType != "Automatic" || got.Services[0].PID != 1804 {
		t.Errorf("got services %+v", got.Services)
	}
	if len(got.Network.Interfaces) != 1 || len(got.Network.Listeners) != 1 || len(got.Network.HNSNetworks) != 1 {
		t.Errorf("got network %+v", got.Network)
	}
	if diff := cmp.Diff([]v1alpha1.CertificateInspection{{Path: `C:\var\lib\kubelet\pki\kubelet-client-current.pem`, Subject: "CN=system:node:win-1", NotAfter: &metav1.Time{Time: end}}}, got.Certificates); diff != "" {
		t.Errorf("certificates (-want +got):\n%s", diff)
	}
	if len(got.RecentErrors) != 1 || got.RecentErrors[0].Source != "kubelet" || !strings.HasSuffix(got.RecentErrors[0].Message, "boom") || !got.RecentErrors[0].Time.Time.Equal(logged) {
		t.Errorf("got errors %+v, want one at %s", got.RecentErrors, logged)
	}
	if len(got.Unknown) != 1 || got.Unknown[0].Area != "network/hns" {
		t.Errorf("unknown is %+v", got.Unknown)
	}
}
