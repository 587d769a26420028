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

	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// platformsVariable is the environment variable that asks for the platforms that take too long for every run.
const platformsVariable = "E2E_PLATFORMS"

// ocpPlatform is a platform, and what is special to its hosts.
type ocpPlatform struct {
	configv1.PlatformType
	// always: it runs in every test.
	always bool
	// cloud is whose metadata hosts have. Empty: none.
	cloud string
	// user is who logs in to the hosts of Machines. Empty: the usual one.
	user string
	// node is the name of the Node of a Machine, of which it is the nth. Nil: there are no Machines.
	node func(machine string, n int) string
	// renamed: the host of a Machine gets the name of that from us.
	renamed bool
	// kubelet is what its command line has on the host of a Machine. %s is the name of the Node.
	kubelet []string
}

var ocpPlatforms = []ocpPlatform{
	{
		PlatformType: configv1.AWSPlatformType, always: true, cloud: winhost.CloudAWS,
		node:    func(_ string, n int) string { return fmt.Sprintf("ip-10-0-17-%d.us-east-2.compute.internal", 4+n) },
		kubelet: []string{"--cloud-provider=external", "--hostname-override=%s", `--image-credential-provider-bin-dir=C:\k`},
	},
	{PlatformType: configv1.AzurePlatformType, user: "capi", node: asItsMachine, kubelet: []string{"--cloud-provider=external"}},
	{
		PlatformType: configv1.GCPPlatformType, cloud: winhost.CloudGCP,
		node: func(machine string, _ int) string { return machine + ".c.example.internal" }, kubelet: []string{"--hostname-override=%s"},
	},
	{PlatformType: configv1.VSpherePlatformType, renamed: true, node: asItsMachine, kubelet: []string{"--cloud-provider=external"}},
	{PlatformType: configv1.NutanixPlatformType, renamed: true, node: asItsMachine, kubelet: []string{"--cloud-provider=external"}},
	{PlatformType: configv1.BareMetalPlatformType},
}

func asItsMachine(machine string, _ int) string { return machine }

// TestOpenShiftPlatforms: on each platform the hosts of a MachineSet and one of the ConfigMap become nodes under the names
// that the platform knows them by, and take pods; the MachineSet is scaled from and to nothing, a Machine is replaced, and the hosts
// get another key. Those without Machines have an entry only, and a clone of that. None has tests of its own.
func TestOpenShiftPlatforms(t *testing.T) {
	t.Parallel()
	for _, p := range ocpPlatforms {
		t.Run(string(p.PlatformType), func(t *testing.T) {
			t.Parallel()
			if !p.always && os.Getenv(platformsVariable) != "all" {
				t.Skipf("one platform runs in every test: %s=all runs all of them", platformsVariable)
			}
			o := newOpenShift(t, p.PlatformType)
			if p.PlatformType == configv1.AzurePlatformType {
				if _, err := o.Kubectl(t.Context(), "apply", "-k", filepath.Join("..", "..", "artifacts", "azure")); err != nil {
					t.Fatal(err)
				}
			}
			entry := o.newHost(t, system.Namespace, "ocp-entry", winhost.Options{Metadata: winhost.Metadata{Cloud: p.cloud, Hostname: "ocp-entry.example.internal"}})
			o.create(t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace, Name: sourceName},
				Data:       map[string]string{entry.host.Address(): entryFor(entry.host, "name="+entry.name)},
			})
			want := entry.name
			if p.cloud != "" {
				want = "ocp-entry.example.internal"
			}
			if p.node != nil {
				openShiftMachines(t, o, p, entry)
			}
			entry.mustBeNode(t, o, want)
			if os.Getenv(platformsVariable) == "all" {
				if p.node == nil {
					openShiftClone(t, o, entry)
				}
				o.administer(t)
				openShiftInputs(t, o, &guided{System: o.System, dir: t.TempDir()}, entry, p.cloud)
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
	h.mustHaveRoutes(t)
}

// routesOfAWS are those to the services of AWS, which Windows containers lose with each boot.
var routesOfAWS = []string{
	"169.254.169.123/32", "169.254.169.249/32", "169.254.169.250/32", "169.254.169.251/32", "169.254.169.253/32", "169.254.169.254/32",
}

// mustHaveRoutes waits until the host has the routes that its platform needs, and no others.
func (h *siteHost) mustHaveRoutes(t *testing.T) {
	t.Helper()
	var want []string
	if h.Cloud.Platform == configv1.AWSPlatformType {
		want = routesOfAWS
	}
	eventually(t, h.name+" has its routes", func() error {
		routes, err := winhost.Routes(h.host)
		var got []string
		for _, destination := range routes {
			got = append(got, destination.String())
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("they are %q, want %q", got, want)
		}
		return err
	})
}
