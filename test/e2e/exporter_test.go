// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/system"
)

// exporterName is how windows_exporter is called in the cluster.
const exporterName = "windows-exporter"

// relabeling is one of a ServiceMonitor: how Prometheus changes the labels of what it has discovered.
type relabeling struct {
	Action, Regex, Replacement, TargetLabel string
	SourceLabels                            []string
}

// apply does what Prometheus would, see relabel_config in its documentation, and says whether the target is kept.
func (r relabeling) apply(t *testing.T, of map[string]string) bool {
	t.Helper()
	values := make([]string, len(r.SourceLabels))
	for i, name := range r.SourceLabels {
		values[i] = of[name]
	}
	value := strings.Join(values, ";")
	expression, replacement := "(.*)", "$1"
	if r.Regex != "" {
		expression = r.Regex
	}
	if r.Replacement != "" {
		replacement = r.Replacement
	}
	match := regexp.MustCompile("^(?:" + expression + ")$")
	found := match.FindStringSubmatchIndex(value)
	switch r.Action {
	case "keep":
		return found != nil
	case "replace":
		if found == nil {
			return true
		}
		if result := string(match.ExpandString(nil, replacement, value, found)); result != "" {
			of[r.TargetLabel] = result
		} else {
			delete(of, r.TargetLabel)
		}
		return true
	default:
		t.Fatalf("nobody here knows the action %q", r.Action)
		return false
	}
}

// TestExporterTargets: Prometheus asks the hosts, and no others, on the port of windows_exporter, and calls each by the
// name of its Node.
func TestExporterTargets(t *testing.T) {
	t.Parallel()
	// What Prometheus knows of an endpoint, see kubernetes_sd_config in its documentation.
	endpoint := func(address, node, os string) map[string]string {
		return map[string]string{
			"__address__": address, "job": "kubelet",
			"__meta_kubernetes_endpointslice_address_target_kind": "Node",
			"__meta_kubernetes_endpointslice_address_target_name": node,
			"__meta_kubernetes_endpointslice_port_name":           "https-metrics",
			"__meta_kubernetes_node_label_kubernetes_io_os":       os,
		}
	}
	for _, test := range []struct {
		name     string
		endpoint map[string]string
		want     string // address, instance and job
	}{
		{name: "host", endpoint: endpoint("10.1.42.5:10250", "win-1", "windows"), want: "10.1.42.5:9182 win-1 windows-exporter"},
		{name: "host with IPv6", endpoint: endpoint("[fd00::5]:10250", "win-2", "windows"), want: "[fd00::5]:9182 win-2 windows-exporter"},
		{name: "other node", endpoint: endpoint("10.1.42.6:10250", "worker-1", "linux")},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := true
			for _, r := range monitors(t, "openshift")[exporterName].Endpoints[0].Relabelings {
				kept = kept && r.apply(t, test.endpoint)
			}
			got := ""
			if kept {
				got = test.endpoint["__address__"] + " " + test.endpoint["instance"] + " " + test.endpoint["job"]
			}
			if got != test.want {
				t.Errorf("the target is %q, want %q", got, test.want)
			}
		})
	}
}

// mustReachHosts fails the test unless Prometheus finds the hosts by the ServiceMonitor, may read what it finds them
// by, verifies them, and shows them no credentials.
func mustReachHosts(t *testing.T, overlay string, m monitor, objects []manifest) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&m.Selector)
	if err != nil || len(m.Endpoints) != 1 {
		t.Fatalf("%s: %v, %d endpoints", overlay, err, len(m.Endpoints))
	}
	// The Prometheus operator makes the Service kubelet, of which it keeps EndpointSlices with all Nodes.
	endpoint := m.Endpoints[0]
	if !selector.Matches(labels.Set{"k8s-app": "kubelet"}) || !slices.Equal(m.NamespaceSelector.MatchNames, []string{"kube-system"}) || endpoint.Port != "https-metrics" {
		t.Errorf("%s: selects port %s of %s in %q", overlay, endpoint.Port, selector, m.NamespaceSelector.MatchNames)
	}
	if m.ServiceDiscoveryRole != "EndpointSlice" || !m.AttachMetadata.Node {
		t.Errorf("%s: discovers by %q, with the labels of Nodes: %t", overlay, m.ServiceDiscoveryRole, m.AttachMetadata.Node)
	}
	if !mayWatchNodes(t, objects) {
		t.Errorf("%s: Prometheus may not watch Nodes, whose labels it needs", overlay)
	}
	if endpoint.Scheme != "https" || endpoint.BearerTokenFile != "" || endpoint.HonorLabels {
		t.Errorf("%s: asked by %s, with the token %q; hosts say who they are: %t", overlay, endpoint.Scheme, endpoint.BearerTokenFile, endpoint.HonorLabels)
	}
	if want := exporterName + "." + system.Namespace + ".svc"; endpoint.TLSConfig.ServerName != want {
		t.Errorf("%s: the certificate is to be for %s, want %s", overlay, endpoint.TLSConfig.ServerName, want)
	}
	given := endpoint.TLSConfig.CA
	if strings.HasPrefix(overlay, "openshift") {
		asks := slices.ContainsFunc(objects, func(o manifest) bool {
			return o.Kind == "Service" && o.Name == exporterName && o.Annotations["service.beta.openshift.io/serving-cert-secret-name"] == cluster.ExporterSecret
		})
		if !asks || given.ConfigMap == nil || given.ConfigMap.Name != "openshift-service-ca.crt" {
			t.Errorf("the service CA is asked for a certificate: %t, which %+v verifies", asks, given)
		}
		return
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "user-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	if given.Secret == nil || given.Secret.Name != cluster.ExporterSecret || given.Secret.Key != "ca.crt" || !strings.Contains(string(guide), "kubectl create secret generic "+cluster.ExporterSecret+" ") {
		t.Errorf("%s: verified by %+v, and the user guide does not say who makes it", overlay, given)
	}
}

// mayWatchNodes says whether the manifests let whoever reads our metrics watch Nodes.
func mayWatchNodes(t *testing.T, objects []manifest) bool {
	t.Helper()
	readers, bound := map[string]string{}, map[string]string{} // the account, by role
	roles := map[string]rbacv1.ClusterRole{}
	for _, object := range objects {
		switch object.Kind {
		case "ClusterRole":
			var role rbacv1.ClusterRole
			if err := json.Unmarshal(object.text, &role); err != nil {
				t.Fatal(err)
			}
			roles[role.Name] = role
		case "ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			if err := json.Unmarshal(object.text, &binding); err != nil {
				t.Fatal(err)
			}
			account := binding.Subjects[0].Namespace + "/" + binding.Subjects[0].Name
			if binding.RoleRef.Name == "windows-metrics-reader" {
				readers[account] = binding.RoleRef.Name
			}
			bound[binding.RoleRef.Name] = account
		}
	}
	for name, account := range bound {
		may := slices.ContainsFunc(roles[name].Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "nodes") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
		})
		if may && readers[account] != "" {
			return true
		}
	}
	return false
}

// exporterVersion is the release of windows_exporter in the payload, and exporterMetrics are the metrics of it that are
// recorded or watched, with their collectors. What only newer releases have comes in place of another one.
const exporterVersion = "v0.27.2"

var exporterMetrics = map[string]string{
	"windows_cpu_time_total":                                   "cpu",
	"windows_cpu_info":                                         "cpu_info",
	"windows_memory_physical_total_bytes":                      "memory", // of newer ones
	"windows_os_visible_memory_bytes":                          "os",
	"windows_memory_available_bytes":                           "memory",
	"windows_logical_disk_size_bytes":                          "logical_disk",
	"windows_logical_disk_free_bytes":                          "logical_disk",
	"windows_net_bytes_received_total":                         "net",
	"windows_net_bytes_sent_total":                             "net",
	"windows_container_cpu_usage_seconds_total":                "container",
	"windows_container_memory_usage_private_working_set_bytes": "container",
	"windows_container_network_receive_bytes_total":            "container",
	"windows_container_network_transmit_bytes_total":           "container",
}

// recorded are the names that the console of OpenShift, and dashboards, know of nodes and pods.
var recorded = []string{
	"container_memory_working_set_bytes",
	"instance:node_cpu:rate:sum",
	"instance:node_cpu_utilisation:rate1m", //nolint:misspell // is how OpenShift spells it
	"instance:node_num_cpu:sum",
	"node_cpu_info",
	"node_filesystem_avail_bytes",
	"node_filesystem_free_bytes",
	"node_filesystem_size_bytes",
	"node_memory_MemAvailable_bytes",
	"node_memory_MemTotal_bytes",
	"node_network_receive_bytes_total",
	"node_network_transmit_bytes_total",
	"pod:container_cpu_usage:sum",
	"pod_interface_network:container_network_receive_bytes:irate5m",
	"pod_interface_network:container_network_transmit_bytes_total:irate5m",
}

// measured matches what is taken from windows_exporter.
var measured = regexp.MustCompile(`(windows_\w+)(\{[^}]*\})?`)

// TestExporterRecordings: what consoles ask of nodes is recorded of hosts, from what windows_exporter measures there as
// it is run.
func TestExporterRecordings(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile(filepath.Join("..", "..", "hack", "payload", "exporter", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(module), "windows_exporter "+exporterVersion+" ") {
		t.Errorf("the payload has another release than %s: compare its metrics with those here", exporterVersion)
	}
	rules := map[string]string{}
	for _, object := range render(t, "openshift") {
		if object.Kind != "PrometheusRule" || object.Name != "windows-prometheus-k8s-rules" {
			continue
		}
		for _, group := range specOf[struct {
			Groups []struct {
				Rules []struct{ Record, Expr string }
			}
		}](t, object).Groups {
			for _, rule := range group.Rules {
				rules[rule.Record] = rule.Expr
			}
		}
	}
	if names := slices.Sorted(maps.Keys(rules)); !slices.Equal(names, recorded) {
		t.Errorf("recorded are %q, want %q", names, recorded)
	}
	for name, expr := range rules {
		if !takenOfHosts(t, name, expr) {
			t.Errorf("%s is made of nothing that hosts have", name)
		}
	}
	watched := false
	for _, a := range alerts(t) {
		for name := range exporterMetrics {
			if strings.Contains(a.Expr, name) {
				watched = takenOfHosts(t, a.Alert, a.Expr)
			}
		}
	}
	if !watched {
		t.Error("no alert watches what hosts have")
	}
}

// takenOfHosts says whether an expression takes anything from windows_exporter, and fails the test if hosts do not have that, or others do.
func takenOfHosts(t *testing.T, name, expr string) bool {
	t.Helper()
	enabled, taken := collectors(t), measured.FindAllStringSubmatch(expr, -1)
	for _, metric := range taken {
		collector := exporterMetrics[metric[1]]
		if !slices.Contains(enabled, collector) {
			t.Errorf("%s: %s is of collector %q, and %q run", name, metric[1], collector, enabled)
		}
		if !strings.Contains(metric[2], `job="windows-exporter"`) {
			t.Errorf("%s: %s is taken of all that have it, also of what is no node", name, metric[0])
		}
	}
	return len(taken) > 0
}

// collectors are those that windows_exporter runs with on hosts.
func collectors(t *testing.T) []string {
	t.Helper()
	published, err := document.Publish(document.ServiceOptions{Platform: configv1.NonePlatformType, APIServerURL: "https://api.example.com:6443"}, document.Proxy{})
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range published.Services {
		if service.Name == wmco.WindowsExporterService {
			return strings.Split(argument(t, service.Command, "--collectors.enabled"), ",")
		}
	}
	t.Fatal("there is no windows_exporter")
	return nil
}

// argument returns the word that follows a flag in a command line.
func argument(t *testing.T, commandLine, flag string) string {
	t.Helper()
	words := strings.Fields(commandLine)
	i := slices.Index(words, flag)
	if i < 0 || i+1 == len(words) {
		t.Fatalf("%s is no argument of %s", flag, commandLine)
	}
	return strings.Trim(words[i+1], `"`)
}

// exporterCertificate returns what windows_exporter serves with: for each connection, it reads its configuration and
// the files that this names.
func (h *siteHost) exporterCertificate(t *testing.T) (*x509.Certificate, error) {
	t.Helper()
	service, err := h.theirs(t).Service(wmco.WindowsExporterService)
	if err != nil {
		return nil, err
	}
	if service == nil {
		return nil, errors.New("it is no service of the host")
	}
	var settings struct {
		Server struct {
			Cert string `json:"cert_file"`
			Key  string `json:"key_file"`
		} `json:"tls_server_config"`
	}
	if err := yaml.UnmarshalStrict([]byte(h.read(t, argument(t, service.Settings.CommandLine, "--web.config.file"))), &settings); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(h.read(t, settings.Server.Cert)), []byte(h.read(t, settings.Server.Key)))
	return pair.Leaf, err
}

// openShiftMetrics has the service CA rotate the certificate that hosts serve their metrics with: Prometheus verifies
// them before and after, and nothing is restarted.
func openShiftMetrics(t *testing.T, o *openShiftSite, h *siteHost) {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(o.ServingCABundle())
	serverName := monitors(t, "openshift")[exporterName].Endpoints[0].TLSConfig.ServerName
	first, err := h.exporterCertificate(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Verify(x509.VerifyOptions{DNSName: serverName, Roots: authorities}); err != nil {
		t.Errorf("Prometheus does not trust the host: %v", err)
	}
	before, kubelets, exporters, restarts := h.waitReady(t).Status.DesiredRevision, h.kubelets.Load(), h.exporters.Load(), h.host.Restarts()
	if exporters == 0 {
		t.Error("windows_exporter was not started")
	}
	issued, err := o.ServingCert(exporterName, system.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := o.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), cluster.ExporterSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, file := range map[string]string{corev1.TLSCertKey: issued.CertFile, corev1.TLSPrivateKeyKey: issued.KeyFile} {
		if secret.Data[key], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Kube.CoreV1().Secrets(system.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := h.waitRevision(t, before)
	if op := i.Status.Operation; op.Impact != v1alpha1.ImpactNone {
		t.Errorf("the impact is %q\n%s", op.Impact, describeSteps(op))
	}
	second, err := h.exporterCertificate(t)
	if err == nil && second.Equal(first) {
		err = errors.New("it is the one before")
	}
	if err == nil {
		_, err = second.Verify(x509.VerifyOptions{DNSName: serverName, Roots: authorities})
	}
	if err != nil {
		t.Errorf("the host serves with another certificate: %v", err)
	}
	if h.kubelets.Load() != kubelets || h.exporters.Load() != exporters || h.host.Restarts() != restarts {
		t.Errorf("the kubelet was started %d times, windows_exporter %d times, the host %d times",
			h.kubelets.Load()-kubelets, h.exporters.Load()-exporters, h.host.Restarts()-restarts)
	}
}
