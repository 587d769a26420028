// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// withNodeManager are settings with the program that needs credentials on Azure.
func withNodeManager() cluster.Settings {
	s := settings()
	s.Payloads[0].Files = append(s.Payloads[0].Files, payload.File{
		Slot:    payload.Slot{Name: "azure-cloud-node-manager.exe", Path: `C:\k\azure-cloud-node-manager.exe`, Role: payload.RoleCloudNodeManager},
		Content: payload.Content{Size: 1, SHA256: strings.Repeat("0", 64)},
	})
	return s
}

// TestNodeManager: without the credentials of the cloud node manager, or with damaged ones, hosts that have it keep it as it is, others join
// without it, and all get whatever else changes. It is said, and counted as an input that is wrong.
func TestNodeManager(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}
	good := secret(namespace, cluster.NodeManagerSecret, map[string]string{"ca.crt": realCA, "token": "hunter2"})
	with := func(objects ...client.Object) []client.Object {
		return append(openShiftClusterOn(configv1.AzurePlatformType), objects...)
	}
	first := build(t, read(t, withNodeManager(), with(good)), cluster.Host{Instance: instance(), Node: node}).Revision
	const (
		missing = "Secret windows/windows-instance-config-daemon does not exist, by which the cloud node manager logs in"
		wrong   = "Secret windows/windows-instance-config-daemon has no credentials ("
		remedy  = ": oc apply -k artifacts/azure"
	)
	for name, tt := range map[string]struct {
		settings cluster.Settings
		objects  []client.Object
		said     string // empty: nothing
		runs     bool
		absent   bool // on all hosts
	}{
		"with it":                     {withNodeManager(), with(good), "", true, false},
		"missing":                     {withNodeManager(), with(), missing, false, false},
		"empty":                       {withNodeManager(), with(secret(namespace, cluster.NodeManagerSecret, nil)), wrong, false, false},
		"damaged":                     {withNodeManager(), with(secret(namespace, cluster.NodeManagerSecret, map[string]string{"ca.crt": "hunter2"})), wrong, false, false},
		"missing, and so the program": {settings(), with(), "", false, true},
		"elsewhere":                   {withNodeManager(), openShiftClusterOn(configv1.AWSPlatformType), "", false, true},
	} {
		for _, had := range []string{"", first, wmco.AdoptedRevision("10.18.0")} {
			for _, rotated := range []bool{false, true} {
				objects := slices.Clone(tt.objects)
				if rotated { // as the authority of the clients of kubelets, which a host that does not get it is lost without
					for i, object := range objects {
						if c, ok := object.(*mcfgv1.ControllerConfig); ok {
							c = c.DeepCopy()
							c.Spec.KubeAPIServerServingCAData = []byte(realCA + otherCA)
							objects[i] = c
						}
					}
				}
				host := instance()
				host.Status.CurrentRevision = had
				if had != "" {
					host.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded}}
				}
				snapshot := read(t, tt.settings, objects)
				r := build(t, snapshot, cluster.Host{Instance: host, Node: node})
				d := r.Bundle.Document
				service := slices.IndexFunc(d.Services, func(s config.Service) bool { return s.Name == wmco.CloudNodeManagerService })
				file := slices.IndexFunc(d.Files, func(f config.File) bool { return f.Path == wmco.WICDKubeconfigPath })
				there := tt.runs || had == first && !tt.absent // the credentials that WMCO has left were renewed by its daemon
				if (service >= 0) != there || (file >= 0) != there || there && (d.Services[service].Waiting == tt.runs || d.Files[file].Waiting == tt.runs) {
					t.Errorf("%s, had revision %q: service %d and file %d, want them there: %t, and run by us: %t", name, had, service, file, there, tt.runs)
				}
				said := strings.Join(slices.DeleteFunc(r.Warnings, func(w string) bool { return !strings.Contains(w, cluster.NodeManagerSecret) }), "; ")
				if (said == "") != (tt.said == "") || !strings.Contains(said, tt.said) || said != "" && !strings.HasSuffix(said, remedy) || strings.Contains(said, "hunter2") {
					t.Errorf("%s, had revision %q: it says %q", name, had, said)
				}
				if keeps := strings.Contains(said, "goes on with the credentials that it has"); keeps != (tt.said != "" && had == first) {
					t.Errorf("%s, had revision %q: it says %q", name, had, said)
				}
				if got := givenBy(r).clients; got != realCA && !rotated || rotated && got != realCA+otherCA {
					t.Errorf("%s, had revision %q: an authority does not reach it", name, had)
				}
				if n := len(snapshot.Wrong()); n != 0 && tt.said == "" || n != 1 && tt.said != "" {
					t.Errorf("%s: %d inputs are wrong", name, n)
				}
			}
		}
	}
}

// otherCA is another authority than [realCA].
var otherCA = newCA()
