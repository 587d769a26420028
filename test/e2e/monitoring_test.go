// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
)

// monitor is the spec of a ServiceMonitor, as far as there is one in artifacts.
type monitor struct {
	JobLabel, ServiceDiscoveryRole string
	AttachMetadata                 struct{ Node bool }
	NamespaceSelector              struct{ MatchNames []string }
	Selector                       metav1.LabelSelector
	Endpoints                      []struct {
		Port, Scheme, BearerTokenFile string
		HonorLabels                   bool
		Relabelings                   []relabeling
		TLSConfig                     struct {
			ServerName string
			CA         struct{ Secret, ConfigMap *corev1.SecretKeySelector }
		}
	}
}

// monitors are the ServiceMonitors of an overlay, by name.
func monitors(t *testing.T, overlay string) map[string]monitor {
	t.Helper()
	found := map[string]monitor{}
	for _, object := range render(t, overlay) {
		if object.Kind == "ServiceMonitor" {
			found[object.Name] = specOf[monitor](t, object)
		}
	}
	return found
}

// specOf decodes the spec of an object.
func specOf[T any](t *testing.T, object manifest) T {
	t.Helper()
	var whole struct{ Spec T }
	if err := json.Unmarshal(object.text, &whole); err != nil {
		t.Fatal(err)
	}
	return whole.Spec
}

// TestServiceMonitors follows the way of Prometheus from each ServiceMonitor to a port of our pods, or of hosts, and
// to what verifies the certificate there.
func TestServiceMonitors(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"deploy", "base", "ha"} {
		for _, object := range render(t, overlay) {
			if strings.HasPrefix(object.APIVersion, "monitoring.coreos.com/") {
				t.Errorf("%s needs the CRDs of the Prometheus operator, for %s %s", overlay, object.Kind, object.Name)
			}
		}
	}
	for _, overlay := range []string{"monitoring", "openshift", "openshift-ha"} {
		objects := render(t, overlay)
		found := monitors(t, overlay)
		if names := slices.Sorted(maps.Keys(found)); !slices.Equal(names, []string{"windows-apiserver", "windows-controller", exporterName}) {
			t.Errorf("%s: there are %q", overlay, names)
		}
		for name, m := range found {
			if name == exporterName {
				mustReachHosts(t, overlay, m, objects)
				continue
			}
			mustReachPods(t, overlay+" "+name, m, objects)
		}
	}
}

func mustReachPods(t *testing.T, name string, m monitor, objects []manifest) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&m.Selector)
	if err != nil || len(m.Endpoints) != 1 {
		t.Fatalf("%s: %v, %d endpoints", name, err, len(m.Endpoints))
	}
	services := slices.DeleteFunc(slices.Clone(objects), func(o manifest) bool { return o.Kind != "Service" || !selector.Matches(labels.Set(o.Labels)) })
	if len(services) != 1 {
		t.Fatalf("%s selects %d Services", name, len(services))
	}
	service, endpoint := services[0], m.Endpoints[0]
	spec := specOf[corev1.ServiceSpec](t, service)
	if len(spec.Ports) != 1 || spec.Ports[0].Name != endpoint.Port {
		t.Errorf("%s: the Service has no port %s", name, endpoint.Port)
	}
	if service.Labels[m.JobLabel] != spec.Selector["app"] {
		t.Errorf("%s: the job is %q", name, service.Labels[m.JobLabel])
	}
	if endpoint.Scheme != "https" || endpoint.BearerTokenFile != "/var/run/secrets/kubernetes.io/serviceaccount/token" {
		t.Errorf("%s: asked by %s, with the token %q", name, endpoint.Scheme, endpoint.BearerTokenFile)
	}
	if want := service.Name + "." + system.Namespace + ".svc"; endpoint.TLSConfig.ServerName != want {
		t.Errorf("%s: the certificate is to be for %s, want %s", name, endpoint.TLSConfig.ServerName, want)
	}
	secrets := []string{"windows-apiserver-serving-cert"} // which windows-apiserver makes
	reached := false
	for _, object := range objects {
		pod := object.Spec.Template
		if (object.Kind != "Deployment" && object.Kind != "StatefulSet") || !labels.SelectorFromSet(spec.Selector).Matches(labels.Set(pod.Labels)) {
			continue
		}
		named, _ := references(pod.Spec)
		secrets = append(secrets, named...)
		reached = reached || slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == spec.Ports[0].TargetPort.StrVal })
	}
	if !reached {
		t.Errorf("%s: no pod has the port %s", name, &spec.Ports[0].TargetPort)
	}
	made, given := service.Annotations["service.beta.openshift.io/serving-cert-secret-name"], endpoint.TLSConfig.CA
	switch {
	case made == "" && (given.Secret == nil || given.Secret.Key != "ca.crt" || !slices.Contains(secrets, given.Secret.Name)):
		t.Errorf("%s: verified by %+v, and the pods have %q", name, given, secrets)
	case made != "" && (given.ConfigMap == nil || given.ConfigMap.Name != "openshift-service-ca.crt" || !slices.Contains(secrets, made)):
		t.Errorf("%s: verified by %+v, and the pods have %q", name, given, secrets)
	}
}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	// metric matches names of metrics, all of which have an underscore, unlike functions.
	metric = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)
)

// alert is one of the PrometheusRule.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// alerts are what artifacts have Prometheus watch.
func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "components", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec struct{ Groups []struct{ Rules []alert } }
	}
	if err := yaml.Unmarshal(text, &rule); err != nil {
		t.Fatal(err)
	}
	return rule.Spec.Groups[0].Rules
}

// byNamespace matches what keeps the namespace of the objects that an alert is about.
var byNamespace = regexp.MustCompile(`\bby \(namespace[,)]`)

// TestAlertsAreExplained: whoever is woken up finds the alert in the documents. Each has a severity and a namespace, by which OpenShift notifies, and waits
// for what passes by itself.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	const runbook = "https://github.com/openshift/windows-instance-api/blob/main/docs/troubleshooting.md#alerts"
	if !strings.Contains(string(text), "\n## Alerts\n") {
		t.Errorf("nothing is at %s", runbook)
	}
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if !strings.Contains(string(text), "| `"+a.Alert+"` |") {
			t.Errorf("docs/troubleshooting.md has no row for %s", a.Alert)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Annotations["runbook_url"] != runbook {
			t.Errorf("%s does not say what is wrong, and where to look: %q", a.Alert, a.Annotations)
		}
		severity := a.Labels["severity"]
		if severity != "warning" && severity != "critical" || seen[a.Alert+severity] {
			t.Errorf("%s has the severity %q, which another of that name may have, too", a.Alert, severity)
		}
		seen[a.Alert+severity] = true
		if _, err := time.ParseDuration(a.For); err != nil {
			t.Errorf("%s waits for %q: %v", a.Alert, a.For, err)
		}
		// A label of the alert would replace the one of the objects.
		switch own := byNamespace.MatchString(a.Expr); {
		case own && a.Labels["namespace"] != "", !own && a.Labels["namespace"] != system.Namespace:
			t.Errorf("%s has the namespace %q, and %q", a.Alert, a.Labels["namespace"], a.Expr)
		}
	}
	for _, both := range []string{"WindowsCertificateExpires"} {
		if !seen[both+"warning"] || !seen[both+"critical"] {
			t.Errorf("%s does not become critical", both)
		}
	}
}

// TestPausedPoolsAreNotForgotten: hosts of a paused pool do not get the authorities that a cluster has renewed, so that the day comes on which they are
// lost. An update that the pause has kept back for days has an alert, which the one about updates does not cover; one that has just begun has none.
func TestPausedPoolsAreNotForgotten(t *testing.T) {
	t.Parallel()
	for _, a := range alerts(t) {
		waits, err := time.ParseDuration(a.For)
		if strings.Contains(a.Expr, `{condition="Paused",status="true"}`) && strings.Contains(a.Expr, `{condition="Updated",status="false"}`) &&
			err == nil && waits >= 24*time.Hour && waits <= 7*24*time.Hour {
			return
		}
	}
	t.Error("no alert is about pools that have been paused for days while their hosts lack what is desired")
}

// onlyInTrouble are metrics that a cluster shows only while something is wrong, runs or expires that the system of testAlerts does not have.
var onlyInTrouble = []string{
	"windows_instance_configurations_failed", "windows_instance_removals_failed", "windows_instance_removals_unconfirmed", "windows_instance_operation_started_timestamp_seconds",
	"windows_credentials_certificate_expiration_timestamp_seconds", "windows_metrics_certificate_expiration_timestamp_seconds",
}

// testAlerts compares the alerts with the metrics that there are.
func (m *scraper) testAlerts(t *testing.T) {
	// The policy for Nodes is tried on one that does not run Windows.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux"}}}
	if _, err := m.system.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A pool, and a host that is not ready, have metrics of their own.
	_, err := m.system.Windows.WindowsV1alpha1().WindowsNodePools(metav1.NamespaceDefault).Create(t.Context(), &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "watched"}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = instances(m.system).Create(t.Context(), &v1alpha1.WindowsInstance{
			ObjectMeta: metav1.ObjectMeta{Name: "off"},
			Spec:       v1alpha1.WindowsInstanceSpec{Address: "127.0.3.2", Port: 1, PoolRef: &v1alpha1.PoolReference{Name: "watched"}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		names := metric.FindAllString(quoted.ReplaceAllString(a.Expr, ""), -1)
		if len(names) == 0 {
			t.Errorf("%s watches nothing", a.Alert)
		}
		for _, name := range names {
			switch {
			case exporterMetrics[name] != "":
			case slices.Contains(onlyInTrouble, name):
				mustBeMade(t, a.Alert, name)
			default:
				eventually(t, a.Alert+": somebody exports "+name, func() error { return m.exported(t, name) })
			}
		}
	}
	if err := instances(m.system).Delete(t.Context(), "off", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// mustBeMade fails the test unless one of our programs has a metric of a name.
func mustBeMade(t *testing.T, alert, name string) {
	t.Helper()
	found := false
	for _, of := range []string{"cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join("..", "..", of), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || found || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			found = strings.Contains(string(text), `"`+name+`"`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Errorf("%s: nobody makes %s", alert, name)
	}
}

// exported returns no error if one of our programs or kube-apiserver has a metric.
func (m *scraper) exported(t *testing.T, name string) error {
	t.Helper()
	all, err := m.system.Kubectl(t.Context(), "get", "--raw", "/metrics")
	for _, url := range []string{m.system.ServerURL + "/metrics", m.controllerMetrics()} {
		if err != nil {
			return err
		}
		var body string
		body, err = m.get(t.Context(), url, m.token)
		all += body
	}
	if err == nil && !strings.Contains(all, "\n"+name+"{") && !strings.Contains(all, "\n"+name+" ") {
		err = errors.New("nobody does")
	}
	return err
}
