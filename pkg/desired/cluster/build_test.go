// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func instance() *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "one", UID: "u1"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.5"},
	}
}

func build(t *testing.T, in *cluster.Snapshot, h cluster.Host) *document.Result {
	t.Helper()
	r, err := in.Build(h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTemplate: each setting of a pool gets to its hosts.
func TestTemplate(t *testing.T) {
	in := read(t, settings(), kubeadmCluster())
	const (
		kubelet    = `file C:\k\kubelet.conf`
		containerd = `file C:\k\containerd\containerd_conf.toml`
	)
	tests := []struct {
		name     string
		template v1alpha1.PoolTemplate
		// has says what is found where: in a file, or in the command of a service.
		has map[string][]string
		// lacks says what is not found there.
		lacks map[string]string
	}{
		{
			name: "nothing",
			has: map[string][]string{
				kubelet: {
					`"registerWithTaints":[{"key":"os","value":"Windows","effect":"NoSchedule"}]`, `"maxPods":250`,
					`"evictionHard":{"imagefs.available":"15%","nodefs.available":"10%"}`,
				},
				containerd:           {"'mcr.microsoft.com/oss/kubernetes/pause:3.9'"},
				"service kubelet":    {"--v=2", "-log-file-size=100Mi -log-file-age=168h0m0s"},
				"service containerd": {"--log-level info"},
			},
		},
		{
			name: "everything",
			template: v1alpha1.PoolTemplate{
				NodeTaints: []v1alpha1.NodeTaint{{Key: "a.example.com/b", Value: "c", Effect: v1alpha1.NodeTaintNoExecute}},
				Kubelet: &v1alpha1.KubeletTemplate{
					MaxPods:        new(int32(20)),
					SystemReserved: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")},
					KubeReserved:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.1")},
					EvictionHard:   map[string]string{"memory.available": "5%"},
					LogVerbosity:   new(int32(0)),
				},
				Containerd: &v1alpha1.ContainerdTemplate{SandboxImage: "registry.example.com/pause:1", LogLevel: v1alpha1.ContainerdLogError},
				LogRotation: &v1alpha1.LogRotationTemplate{
					MaxSize: new(resource.MustParse("5Mi")), MaxAgeSeconds: new(int64(3600)),
				},
			},
			has: map[string][]string{
				kubelet: {
					`"registerWithTaints":[{"key":"a.example.com/b","value":"c","effect":"NoExecute"}]`, `"maxPods":20`,
					`"systemReserved":{"cpu":"500m","ephemeral-storage":"1Gi","memory":"3Gi"}`, `"kubeReserved":{"cpu":"100m"}`, `"memory.available":"5%"`,
				},
				containerd:           {"'registry.example.com/pause:1'"},
				"service kubelet":    {"--v=0", "-log-file-size=5Mi -log-file-age=1h0m0s"},
				"service containerd": {"--log-level error"},
			},
		},
		{
			name:     "no taints",
			template: v1alpha1.PoolTemplate{NodeTaints: []v1alpha1.NodeTaint{}},
			lacks:    map[string]string{kubelet: "registerWithTaints"},
		},
		{
			name:     "logs for ever",
			template: v1alpha1.PoolTemplate{LogRotation: &v1alpha1.LogRotationTemplate{MaxAgeSeconds: new(int64(0))}},
			has:      map[string][]string{"service kubelet": {`-log-file-size=100Mi C:\k\kubelet.exe`}},
		},
		{
			name:     "no rotation",
			template: v1alpha1.PoolTemplate{LogRotation: &v1alpha1.LogRotationTemplate{MaxSize: new(resource.MustParse("0"))}},
			has:      map[string][]string{"service kubelet": {`-log-file=C:\var\log\kubelet\kubelet.log C:\k\kubelet.exe`}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Template: tt.template}}
			s := summarize(t, in, cluster.Host{Instance: instance(), Pool: pool})
			content := func(where string) string {
				kind, name, _ := strings.Cut(where, " ")
				if kind == "file" {
					return s.Files[name]
				}
				return s.Services[name]
			}
			for where, part := range tt.lacks {
				if text := content(where); text == "" || strings.Contains(text, part) {
					t.Errorf("%s has %s: %s", where, part, text)
				}
			}
			for where, parts := range tt.has {
				text := content(where)
				for _, part := range parts {
					if !strings.Contains(text, part) {
						t.Errorf("%s has no %s: %s", where, part, text)
					}
				}
			}
		})
	}
	// A pool that sets nothing is like none.
	without := build(t, in, cluster.Host{Instance: instance()}).Revision
	if with := build(t, in, cluster.Host{Instance: instance(), Pool: &v1alpha1.WindowsNodePool{}}).Revision; with != without {
		t.Errorf("an empty pool has the revision %s, none has %s", with, without)
	}
}

// TestHost: what is the host's own is in its document, and nothing of the others.
func TestHost(t *testing.T) {
	in := read(t, settings(), kubeadmCluster())
	plain := build(t, in, cluster.Host{Instance: instance()})
	named := instance()
	named.Spec.NodeName = "win-7"
	if got := build(t, in, cluster.Host{Instance: named}).Bundle.Document.Hostname; got != "win-7" {
		t.Errorf("the host is called %q", got)
	}
	if got := plain.Bundle.Document.Hostname; got != "" {
		t.Errorf("a host that may keep its name is called %q", got)
	}
	variables := func(h cluster.Host) map[string]string {
		values := map[string]string{}
		for _, v := range build(t, in, h).Bundle.Document.Variables {
			values[v.Name] = v.Value
		}
		return values
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Annotations: map[string]string{"k8s.ovn.org/hybrid-overlay-node-subnet": "10.132.0.0/24"}}}
	want := map[string]string{"NODE_IP": "", "NODE_NAME": "win-1", "NODE_SUBNET": "10.132.0.0/24", "EXPORTER_FILE": ""}
	if diff := cmp.Diff(want, variables(cluster.Host{Instance: instance(), Node: node})); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if variables(cluster.Host{Instance: instance()})["NODE_NAME"] != "" {
		t.Error("a host that is no node has the name of one")
	}
	known := instance()
	known.Status.Addresses = []string{"fd00::5", "10.0.0.5"}
	for _, v := range build(t, in, cluster.Host{Instance: known}).Bundle.Document.Variables {
		if v.Name == "NODE_IP" && !slices.Equal(v.Preferred, []string{"10.0.0.5"}) {
			t.Errorf("the host is told to prefer the addresses %q", v.Preferred)
		}
	}
	again := build(t, in, cluster.Host{Instance: instance()})
	if diff := cmp.Diff(plain, again); diff != "" {
		t.Errorf("another document for the same host (-first +second):\n%s", diff)
	}
}

// TestRoutes: a machine of AWS has routes to the services of AWS, whoever knows that it is one.
func TestRoutes(t *testing.T) {
	in := read(t, settings(), kubeadmCluster())
	const aws, vsphere = "aws:///us-east-1a/i-1", "vsphere://42"
	for _, tt := range []struct {
		name, instance, node string
		want                 bool
	}{
		{name: "nobody knows"},
		{name: "the instance", instance: aws, want: true},
		{name: "the instance, also while there is a Node", instance: aws, node: aws, want: true},
		{name: "the Node", node: aws, want: true},
		{name: "the instance knows better", instance: vsphere, node: aws},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := cluster.Host{Instance: instance()}
			h.Instance.Spec.ProviderID = tt.instance
			if tt.node != "" {
				h.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}, Spec: corev1.NodeSpec{ProviderID: tt.node}}
			}
			routes := build(t, in, h).Bundle.Document.Routes
			if got := slices.Contains(routes, netip.MustParsePrefix("169.254.169.254/32")); got != tt.want || !tt.want && len(routes) > 0 {
				t.Errorf("got %v", routes)
			}
		})
	}
}

// TestBootstrap: with credentials to join, a host has one file more and nothing else.
func TestBootstrap(t *testing.T) {
	in := read(t, settings(), kubeadmCluster())
	without := build(t, in, cluster.Host{Instance: instance()})
	with := build(t, in, cluster.Host{Instance: instance(), Join: &cluster.Credentials{Certificate: []byte("a certificate"), Key: []byte("a key")}})
	if with.Revision == without.Revision {
		t.Error("both have the same revision")
	}
	files := with.Bundle.Document.Files
	var rest []config.File
	for _, f := range files {
		if f.Path == `C:\k\bootstrap-kubeconfig` {
			if f.UntilFile != `C:\var\lib\kubelet\pki\kubelet-client-current.pem` || f.Access != config.AccessAdministrators {
				t.Errorf("the credentials stay until %q, and %q have access", f.UntilFile, f.Access)
			}
			if want := (config.OnChange{Impact: config.ImpactRestart, Services: []string{"kubelet"}}); !cmp.Equal(f.OnChange, want) {
				t.Errorf("with the credentials comes %+v, want %+v", f.OnChange, want)
			}
			continue
		}
		rest = append(rest, f)
	}
	if diff := cmp.Diff(without.Bundle.Document.Files, rest); diff != "" || len(rest) != len(files)-1 {
		t.Errorf("other files (-without +with):\n%s", diff)
	}
	text := string(with.Bundle.Secrets[`C:\k\bootstrap-kubeconfig`])
	encoded := base64.StdEncoding.EncodeToString
	if !strings.Contains(text, encoded([]byte("a certificate"))) || !strings.Contains(text, encoded([]byte("a key"))) || !strings.Contains(text, "https://10.0.0.1:6443") {
		t.Errorf("the credentials are of no use: %d bytes", len(text))
	}
}

// TestPayload: hosts get what they run, in the form in which a site wants it.
func TestPayload(t *testing.T) {
	s := settings()
	signed := payload.Content{Size: 99, SHA256: strings.Repeat("9", 64)}
	s.Payloads[0].Files[0].Override = &payload.Override{URL: "https://files.example.com/kubelet.exe", Content: signed}
	d := build(t, read(t, s, kubeadmCluster()), cluster.Host{Instance: instance()}).Bundle.Document
	got := map[string]config.File{}
	for _, f := range d.Files {
		if f.Source.Payload != "" {
			got[f.Path] = f
		}
	}
	kubelet := got[`C:\k\kubelet.exe`]
	if kubelet.Digest != "sha256:"+signed.SHA256 || kubelet.Source.Size != signed.Size || kubelet.Source.URL != "" || kubelet.Source.Payload != "kubelet.exe" {
		t.Errorf("the kubelet is %+v", kubelet)
	}
	for _, path := range []string{agentPath, `C:\k\kubeadm.exe`, `C:\k\csi-proxy.exe`} {
		if _, there := got[path]; there {
			t.Errorf("%s is shipped", path)
		}
	}
	if want := len(s.Payloads[0].Files) - 2; len(got) != want {
		t.Errorf("%d files are shipped, want %d", len(got), want)
	}
}

// TestPayloadOfThisRelease: a payload has what hosts get, on AWS all of it, and the agent that was built with it.
func TestPayloadOfThisRelease(t *testing.T) {
	text, err := os.ReadFile("../../../hack/payload/files.json")
	if err != nil {
		t.Fatal(err)
	}
	s := settings()
	s.Payloads[0].Files, s.Payloads[0].Slots = nil, nil
	if err := json.Unmarshal(text, s.Payloads[0]); err != nil {
		t.Fatal(err)
	}
	s.Payloads[0].SchemaVersion, s.Payloads[0].Version = payload.SchemaVersion, "1"
	for i := range s.Payloads[0].Files {
		s.Payloads[0].Files[i].Version, s.Payloads[0].Files[i].Content = "v1.36.1", payload.Content{Size: 1, SHA256: strings.Repeat("a", 64)}
	}
	for name, tt := range map[string]struct {
		objects []client.Object
		without []payload.Role
	}{
		"kubeadm": {kubeadmCluster(), []payload.Role{payload.RoleAgent, payload.RoleCredentialProvider}},
		"AWS":     {openShiftClusterOn(configv1.AWSPlatformType), []payload.Role{payload.RoleAgent}},
	} {
		t.Run(name, func(t *testing.T) {
			var want, got []string
			for i := range s.Payloads[0].Files {
				if f := &s.Payloads[0].Files[i]; !slices.Contains(tt.without, f.Role) {
					want = append(want, f.Name)
				}
			}
			for _, f := range build(t, read(t, s, tt.objects), cluster.Host{Instance: instance()}).Bundle.Document.Files {
				if f.Source.Payload != "" {
					got = append(got, f.Source.Payload)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what a host gets of it (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWithoutOptionalPrograms: a host of OpenShift becomes a node without the programs that a payload may lack, and
// says which, and what that means.
func TestWithoutOptionalPrograms(t *testing.T) {
	for platform, want := range map[configv1.PlatformType][]string{
		configv1.NonePlatformType:    {"hybrid-overlay-node.exe"},
		configv1.AWSPlatformType:     {"ecr-credential-provider.exe", "hybrid-overlay-node.exe"},
		configv1.AzurePlatformType:   {"azure-cloud-node-manager.exe", "hybrid-overlay-node.exe"},
		configv1.VSpherePlatformType: {"csi-proxy.exe", "hybrid-overlay-node.exe"},
	} {
		t.Run(string(platform), func(t *testing.T) {
			in := read(t, settings(), openShiftClusterOn(platform))
			got := summarize(t, in, cluster.Host{Instance: instance()})
			var lacks []string
			for _, w := range got.Warnings {
				if name, _, ok := strings.Cut(strings.TrimPrefix(w, "the payload has no "), ": "); ok && strings.HasPrefix(w, "the payload has no ") {
					lacks = append(lacks, name)
				}
			}
			slices.Sort(lacks)
			if diff := cmp.Diff(want, lacks); diff != "" {
				t.Errorf("it says that there is no (-want +got):\n%s", diff)
			}
			if got.Waiting["kube-proxy"] != "the Node of the host" {
				t.Errorf("kube-proxy is not among what waits: %v", got.Waiting)
			}
			if kubelet := got.Services["kubelet"]; kubelet == "" || strings.Contains(kubelet, "image-credential-provider") {
				t.Errorf("the kubelet is %q", kubelet)
			}
			if _, there := got.Files[`C:\k\credential-provider-config.yaml`]; there {
				t.Error("there is a configuration for a program that is not there")
			}
			published, err := in.Published()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range published.Services {
				if strings.Contains(s.Command, "image-credential-provider") {
					t.Errorf("published: %s", s.Command)
				}
			}
		})
	}
}

// TestAdoptedWithoutPrograms: before the first update of a host that was adopted takes away what WMCO runs there and the payload has not, it
// is said which programs these are.
func TestAdoptedWithoutPrograms(t *testing.T) {
	const takes = "the first update takes %s from the host, which WMCO has there and the payload has not: "
	has := settings()
	m := has.Payloads[0]
	m.Files = append(m.Files, payload.File{Slot: m.Slots[0], Content: payload.Content{Size: 1, SHA256: strings.Repeat("a", 64)}})
	for name, tt := range map[string]struct {
		settings cluster.Settings
		platform configv1.PlatformType
		revision string
		want     string // empty: nothing
		op       *v1alpha1.Operation
	}{
		"adopted":                        {settings(), configv1.NonePlatformType, wmco.AdoptedRevision("1.36.0"), "csi-proxy.exe", nil},
		"adopted, of an unknown version": {settings(), configv1.VSpherePlatformType, wmco.AdoptedRevision(""), "csi-proxy.exe", nil},
		"adopted, on Azure":              {settings(), configv1.AzurePlatformType, wmco.AdoptedRevision(""), "azure-cloud-node-manager.exe and csi-proxy.exe", nil},
		"the payload has it":             {has, configv1.NonePlatformType, wmco.AdoptedRevision(""), "", nil},
		"the rest of it on Azure":        {has, configv1.AzurePlatformType, wmco.AdoptedRevision(""), "azure-cloud-node-manager.exe", nil},
		"updated since":                  {settings(), configv1.NonePlatformType, strings.Repeat("a", 64), "", nil},
		"not configured yet":             {settings(), configv1.NonePlatformType, "", "", nil},
		"it is to be adopted":            {settings(), configv1.NonePlatformType, "", "csi-proxy.exe", &v1alpha1.Operation{Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationPending}},
		"it was not adopted":             {settings(), configv1.NonePlatformType, "", "", &v1alpha1.Operation{Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationFailed}},
		"it is to be configured":         {settings(), configv1.NonePlatformType, "", "", &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			host := instance()
			host.Status.CurrentRevision, host.Status.Operation = tt.revision, tt.op
			r := build(t, read(t, tt.settings, openShiftClusterOn(tt.platform)), cluster.Host{Instance: host})
			got := slices.DeleteFunc(r.Warnings, func(w string) bool { return !strings.HasPrefix(w, "the first update takes ") })
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf(takes, tt.want))) {
				t.Errorf("it says %q", got)
			}
		})
	}
}

// The same snapshot serves many hosts at once.
func TestBuildConcurrently(t *testing.T) {
	in := read(t, settings(), openShiftCluster())
	pool := &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Template: v1alpha1.PoolTemplate{
		Kubelet: &v1alpha1.KubeletTemplate{EvictionHard: map[string]string{"memory.available": "5%"}},
	}}}
	var wg sync.WaitGroup
	revisions := make([]string, 8)
	for i := range revisions {
		wg.Go(func() {
			h := cluster.Host{Instance: instance()}
			if i%2 == 1 {
				h.Pool = pool
			}
			if r, err := in.Build(h); err == nil {
				revisions[i] = r.Revision
			}
		})
	}
	wg.Wait()
	for i, revision := range revisions {
		if revision == "" || revision != revisions[i%2] || revisions[0] == revisions[1] {
			t.Fatalf("revisions %q", revisions)
		}
	}
}
