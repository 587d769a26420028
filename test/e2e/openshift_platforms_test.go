// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// platformsVariable is the environment variable that asks for the platforms that take too long for every run.
const platformsVariable = "E2E_PLATFORMS"

// TestOpenShiftPlatforms: on each platform the host of a Machine and one of the ConfigMap become nodes under the names
// that the platform knows them by, and take pods. Those without Machines have an entry only. vSphere and None have
// tests of their own.
func TestOpenShiftPlatforms(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		platform configv1.PlatformType
		always   bool
		// of the Machine
		user    string
		cloud   string
		node    string
		kubelet []string // of its command line
	}{
		{
			platform: configv1.AWSPlatformType, always: true, cloud: winhost.CloudAWS, node: "ip-10-0-17-4.us-east-2.compute.internal",
			kubelet: []string{"--cloud-provider=external", "--hostname-override=ip-10-0-17-4.us-east-2.compute.internal", `--image-credential-provider-bin-dir=C:\k`},
		},
		{platform: configv1.AzurePlatformType, user: "capi", node: "win-7gq2p1", kubelet: []string{"--cloud-provider=external"}},
		{platform: configv1.GCPPlatformType, cloud: winhost.CloudGCP, node: "winworker-x7k2p.c.example.internal", kubelet: []string{"--hostname-override=winworker-x7k2p.c.example.internal"}},
		{platform: configv1.NutanixPlatformType, node: "winworker-x7k2p", kubelet: []string{"--cloud-provider=external"}},
		{platform: configv1.BareMetalPlatformType},
	} {
		t.Run(string(p.platform), func(t *testing.T) {
			if !p.always && os.Getenv(platformsVariable) != "all" {
				t.Skipf("one platform runs in every test: %s=all runs all of them", platformsVariable)
			}
			// One after the other: each is a control plane with all of its processes.
			o := newOpenShift(t, p.platform)
			if p.platform == configv1.AzurePlatformType {
				if _, err := o.Kubectl(t.Context(), "apply", "-k", filepath.Join("..", "..", "artifacts", "azure")); err != nil {
					t.Fatal(err)
				}
			}
			entry := o.newHost(t, system.Namespace, "ocp-entry", winhost.Options{Metadata: winhost.Metadata{Cloud: p.cloud, Hostname: "ocp-entry.example.internal"}})
			o.create(t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace, Name: sourceName},
				Data:       map[string]string{entry.host.Address(): entryFor(entry.host, "name="+entry.name)},
			})
			if p.node != "" {
				const namespace = "openshift-machine-api"
				address := o.HostIP().Next().Next().String()
				h := o.newHost(t, namespace, "win-7gq2p1", winhost.Options{
					Address: address, Port: 22, User: p.user, Metadata: winhost.Metadata{Cloud: p.cloud, Hostname: p.node},
				})
				h.name = "winworker-x7k2p"
				o.provision(t, namespace, h.name, address)
				h.mustBeNode(t, o, p.node)
				service, err := h.theirs(t).Service(wmco.KubeletService)
				if err != nil || service == nil {
					t.Fatalf("the service of the kubelet: %+v, %v", service, err)
				}
				mustSay(t, service.Settings.CommandLine, p.kubelet...)
			}
			want := entry.name
			if p.cloud != "" {
				want = "ocp-entry.example.internal"
			}
			entry.mustBeNode(t, o, want)
			if os.Getenv(platformsVariable) == "all" {
				o.administer(t)
				openShiftInputs(t, o, entry, p.cloud)
			}
		})
	}
}

// mustBeNode waits until the host is a node as a worker is, by that name, and takes pods.
func (h *siteHost) mustBeNode(t *testing.T, o *openShiftSite, name string) {
	t.Helper()
	if i := h.waitReady(t); i.Status.Node.Name != name {
		t.Errorf("its Node is %s, want %s", i.Status.Node.Name, name)
	}
	h.mustBeWorker(t, o)
	eventually(t, "the cloud has completed the Node", func() error {
		if taints := h.node(t, name).Spec.Taints; slices.ContainsFunc(taints, isUninitialized) {
			return fmt.Errorf("it has taints %+v", taints)
		}
		return nil
	})
}
