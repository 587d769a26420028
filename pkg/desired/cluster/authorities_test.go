// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// authorities are those that a cluster gives hosts, by where they are.
type authorities struct {
	clients, server, user, registry, additional, injected string
}

// cluster is one of OpenShift that has them. Without injected ones it has no proxy.
func (a authorities) cluster() []client.Object {
	objects := openShiftCluster()
	for _, object := range objects {
		if c, ok := object.(*mcfgv1.ControllerConfig); ok {
			c.Spec.KubeAPIServerServingCAData = []byte(a.clients)
			c.Spec.ImageRegistryBundleUserData = []mcfgv1.ImageRegistryBundle{{File: "registry.example.com..5000", Data: []byte(a.user)}}
			c.Spec.ImageRegistryBundleData = []mcfgv1.ImageRegistryBundle{{File: "image-registry.svc..5000", Data: []byte(a.registry)}}
			c.Spec.AdditionalTrustBundle = []byte(a.additional)
		}
	}
	objects = replaced(objects, bootstrapCA(a.server))
	if a.injected == "" {
		return replaced(lacking(objects, cluster.TrustedCAConfigMap), &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}})
	}
	return replaced(objects, trustedCA("true", a.injected))
}

// given is what a host is given of authorities.
type given struct {
	clients, server string
	trusted         int
}

func givenBy(r *document.Result) given {
	g := given{trusted: len(r.Bundle.Document.Certificates)}
	for _, f := range r.Bundle.Document.Files {
		switch f.Path {
		case wmco.KubeletCAPath:
			g.clients = *f.Source.Text
		case wmco.BootstrapCAPath:
			g.server = *f.Source.Text
		}
	}
	return g
}

// TestAuthorities: hosts get every certificate that can be used, each once, with a proxy or without; one that
// cannot be used keeps no other from them, and it is said where it is and what to do about it.
func TestAuthorities(t *testing.T) {
	own := newCA()
	damaged := own[:len(own)/2] + "\n"
	good := authorities{clients: realCA, server: realCA, user: own, registry: realCA, additional: own}
	for _, tt := range []struct {
		name   string
		change func(a *authorities)
		want   given
		says   []string
	}{
		{name: "all are good", want: given{realCA, realCA, 2}},
		{name: "another one that administrators add", change: func(a *authorities) { a.additional = newCA() }, want: given{realCA, realCA, 3}},
		{name: "nobody adds any", change: func(a *authorities) { a.additional = "" }, want: given{realCA, realCA, 2}},
		{name: "one of the proxy", change: func(a *authorities) { a.injected = own + newCA() }, want: given{realCA, realCA, 3}},
		{
			name: "clients of kubelets", change: func(a *authorities) { a.clients = damaged + realCA }, want: given{realCA, realCA, 2},
			says: []string{"ControllerConfig machine-config-controller, spec.kubeAPIServerServingCAData: block 1 is left out: it is damaged; it comes from ConfigMap openshift-config-managed/kube-apiserver-client-ca, key ca-bundle.crt"},
		},
		{
			name: "API server", change: func(a *authorities) { a.server = realCA + damaged }, want: given{realCA, realCA, 2},
			says: []string{"ConfigMap openshift-machine-config-operator/kubeconfig-data, key ca-bundle.crt of its binaryData: block 2 is left out: it is damaged; it comes from"},
		},
		{
			name: "a registry of the administrator", change: func(a *authorities) { a.user = own + damaged }, want: given{realCA, realCA, 2},
			says: []string{"ControllerConfig machine-config-controller, spec.imageRegistryBundleUserData of registry.example.com:5000: block 2 is left out: it is damaged; correct key registry.example.com..5000 of the ConfigMap"},
		},
		{
			name: "a registry of the cluster", change: func(a *authorities) { a.registry = damaged + realCA }, want: given{realCA, realCA, 2},
			says: []string{"ControllerConfig machine-config-controller, spec.imageRegistryBundleData of image-registry.svc:5000: block 1 is left out: it is damaged; it comes from key image-registry.svc..5000"},
		},
		{
			name: "what administrators add", change: func(a *authorities) { a.additional = damaged + newCA() }, want: given{realCA, realCA, 3},
			says: []string{"ControllerConfig machine-config-controller, spec.additionalTrustBundle: block 1 is left out: it is damaged; correct ConfigMap openshift-config/user-ca-bundle, key ca-bundle.crt"},
		},
		{
			name: "the proxy", change: func(a *authorities) { a.injected = "# the root of all\n" + damaged + newCA() }, want: given{realCA, realCA, 3},
			says: []string{"ConfigMap windows/trusted-ca, key ca-bundle.crt: block 1 (of the root of all) is left out: it is damaged; the network operator writes it: correct the ConfigMap"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := good
			if tt.change != nil {
				tt.change(&a)
			}
			r := build(t, read(t, settings(), a.cluster()), cluster.Host{Instance: instance()})
			if got := givenBy(r); got != tt.want {
				t.Errorf("a host gets %+v, want %+v", got, tt.want)
			}
			mustWarn(t, r, tt.says)
		})
	}
}

// TestNoAuthorities: what has no certificate that can be used leaves hosts as they are. Those that join do without those that
// a node does not need, and configured ones go on to trust what they trust; but they do not get a proxy without what it needs.
func TestNoAuthorities(t *testing.T) {
	own := newCA()
	for _, tt := range []struct {
		name   string
		change func(a *authorities)
		want   string
		joins  bool
		stays  bool
	}{
		{"clients of kubelets", func(a *authorities) { a.clients = own[:len(own)/2] }, "ControllerConfig machine-config-controller, spec.kubeAPIServerServingCAData has no certificate that can be used (block 1 is left out: it is damaged)", false, true},
		{"clients of kubelets, and nothing else says them", func(a *authorities) { a.clients = "" }, "there is no CA of the clients of kubelets: it comes from ConfigMap openshift-config-managed/kube-apiserver-client-ca", false, true},
		{"API server", func(a *authorities) { a.server = "hunter2" }, "ConfigMap openshift-machine-config-operator/kubeconfig-data, key ca-bundle.crt of its binaryData has no certificate in PEM", false, true},
		{"a registry of the administrator", func(a *authorities) { a.user = "hunter2" }, "spec.imageRegistryBundleUserData of registry.example.com:5000 has no certificate in PEM: correct key registry.example.com..5000", true, false},
		{"a registry of the cluster", func(a *authorities) { a.registry = own[:len(own)/2] }, "spec.imageRegistryBundleData of image-registry.svc:5000 has no certificate that can be used (block 1", true, false},
		{"what administrators add", func(a *authorities) { a.additional = "hunter2" }, "spec.additionalTrustBundle has no certificate in PEM: correct ConfigMap openshift-config/user-ca-bundle", true, false},
		{"the proxy", func(a *authorities) { a.injected = own[:len(own)/2] }, "ConfigMap windows/trusted-ca, key ca-bundle.crt has no certificate that can be used (block 1", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := authorities{clients: realCA, server: realCA, user: realCA, registry: realCA}
			tt.change(&a)
			snapshot, err := cluster.Read(t.Context(), newCluster(t, a.cluster(), nil), settings())
			if tt.joins {
				if err != nil {
					t.Fatal(err)
				}
				joining := build(t, snapshot, cluster.Host{Instance: instance()})
				if !slices.ContainsFunc(joining.Warnings, func(w string) bool { return strings.Contains(w, tt.want) }) {
					t.Errorf("a host that joins is warned of %q", joining.Warnings)
				}
				configured := instance()
				configured.Status.CurrentRevision = "r1"
				r, failed := snapshot.Build(cluster.Host{Instance: configured})
				if !tt.stays {
					if failed != nil || !r.Bundle.Document.KeepCertificates || !strings.Contains(r.Warnings[0], tt.want) {
						t.Errorf("a host that is configured: %v", failed)
					}
					return
				}
				err = failed
			}
			if wrong := new(cluster.InputError); !errors.As(err, &wrong) || len(wrong.Findings) != 1 || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want something about %q", err, tt.want)
			}
		})
	}
}

// TestTrustedCAThatNobodyWrites: without its label the network operator does not write trusted-ca any more, which is said where hosts need it:
// with a proxy, unless somebody has said that it is theirs.
func TestTrustedCAThatNobodyWrites(t *testing.T) {
	const want = "ConfigMap windows/trusted-ca has no label config.openshift.io/inject-trusted-cabundle, so the network operator does not write other authorities of the proxy there"
	noProxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	for name, tt := range map[string]struct {
		objects []client.Object
		warns   bool
	}{
		"it has the label":           {openShiftCluster(), false},
		"no label":                   {replaced(openShiftCluster(), trustedCA("", realCA)), true},
		"somebody's own":             {replaced(openShiftCluster(), trustedCA("false", realCA)), false},
		"no label, without a proxy":  {replaced(replaced(openShiftCluster(), trustedCA("", realCA)), noProxy), false},
		"no label, not on OpenShift": {append(kubeadmCluster(), trustedCA("", realCA)), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := build(t, read(t, settings(), tt.objects), cluster.Host{Instance: instance()})
			if got := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, want) }); got != tt.warns {
				t.Errorf("got the warnings %q", r.Warnings)
			}
		})
	}
}

// mustWarn fails the test unless the warnings about authorities begin like these.
func mustWarn(t *testing.T, r *document.Result, want []string) {
	t.Helper()
	got := slices.DeleteFunc(slices.Clone(r.Warnings), func(w string) bool { return !strings.Contains(w, "is left out") })
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got the warnings %q, want %q", got, want)
	}
}
