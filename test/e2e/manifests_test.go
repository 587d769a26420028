// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// manifest is an object of artifacts; Spec is that of a Deployment or StatefulSet.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	// text is the object in JSON.
	text json.RawMessage
}

func render(t *testing.T, overlay string) []manifest {
	t.Helper()
	rendered, err := sys.Kubectl(t.Context(), "kustomize", filepath.Join("..", "..", "artifacts", overlay))
	if err != nil {
		t.Fatal(err)
	}
	return decodeManifests(t, strings.NewReader(rendered))
}

// decodeManifests decodes the documents of a YAML file.
func decodeManifests(t *testing.T, from io.Reader) []manifest {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(from, 4<<10)
	var objects []manifest
	for {
		var object manifest
		switch err := decoder.Decode(&object.text); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatal(err)
		}
		if err := json.Unmarshal(object.text, &object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// made says whether an object is among the manifests.
func made(objects []manifest, kind, name string) bool {
	return slices.ContainsFunc(objects, func(o manifest) bool { return o.Kind == kind && o.Name == name })
}

// references are the names of Secrets and ConfigMaps that a pod cannot start without.
func references(pod corev1.PodSpec) (secrets, configMaps []string) {
	for _, volume := range pod.Volumes {
		if volume.Secret != nil {
			secrets = append(secrets, volume.Secret.SecretName)
		}
		if volume.ConfigMap != nil {
			configMaps = append(configMaps, volume.ConfigMap.Name)
		}
	}
	for _, container := range pod.Containers {
		for _, env := range container.Env {
			if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
				secrets = append(secrets, env.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	return secrets, configMaps
}

// TestManifests compares the workloads of each overlay with the programs: their flags, the paths of
// probes, and what pods need.
func TestManifests(t *testing.T) {
	t.Parallel()
	server, _ := commandOf(t, sys.Server)
	controller, _ := commandOf(t, sys.Controller)
	programs := map[string]string{"/usr/bin/windows-apiserver": server, "/usr/bin/windows-controller": controller}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "user-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	for overlay, wantSecrets := range map[string][]string{
		"base": nil, "monitoring": {"windows-controller-metrics-tls"}, "openshift": {"windows-controller-metrics-tls", "windows-apiserver-tls"}, "ha": {"windows-apiserver-etcd", "windows-apiserver-etcd"},
		"openshift-ha": {"windows-apiserver-etcd", "windows-apiserver-tls", "windows-apiserver-etcd", "windows-controller-metrics-tls"},
	} {
		t.Run(overlay, func(t *testing.T) {
			objects := render(t, overlay)
			if made(objects, "APIService", "v1alpha1.windows.openshift.io") {
				t.Error("the API is registered before anybody answers")
			}
			var secrets, started []string
			for _, object := range objects {
				if object.Kind == "Namespace" {
					mustLeavePodsOfOthers(t, object, overlay == "base" || overlay == "monitoring")
				}
				if object.Kind != "Deployment" && object.Kind != "StatefulSet" {
					continue
				}
				if strings.HasSuffix(overlay, "ha") && object.Kind != "Deployment" {
					t.Errorf("%s %s waits for a person when its node is lost, and it has no volume", object.Kind, object.Name)
				}
				if got := object.Spec.Template.Annotations["openshift.io/required-scc"]; (got == "restricted-v2") != strings.HasPrefix(overlay, "openshift") {
					t.Errorf("%s %s wants the security context constraint %q", object.Kind, object.Name, got)
				}
				mustLeaveNodes(t, object)
				pod := object.Spec.Template.Spec
				mustHaveGroup(t, object, (overlay == "base" || overlay == "monitoring") && object.Name == "windows-apiserver")
				container := pod.Containers[0]
				started = append(started, container.Command[0])
				// What it does not know is an error before it gets to the help.
				if out, err := exec.CommandContext(t.Context(), programs[container.Command[0]], append(slices.Clone(container.Args), "--help")...).CombinedOutput(); err != nil {
					t.Errorf("%s does not take its arguments: %v\n%.300s", object.Name, err, out)
				}
				mustServeProbes(t, container)
				mustMount(t, pod)
				named, configMaps := references(pod)
				secrets = append(secrets, named...)
				if len(configMaps) > 0 {
					t.Errorf("nobody makes the ConfigMaps %q", configMaps)
				}
				if !made(objects, "ServiceAccount", pod.ServiceAccountName) {
					t.Errorf("nobody makes the account %s", pod.ServiceAccountName)
				}
			}
			slices.Sort(started)
			if !slices.Equal(started, []string{"/usr/bin/windows-apiserver", "/usr/bin/windows-controller"}) {
				t.Errorf("it starts %q", started)
			}
			if !slices.Equal(secrets, wantSecrets) {
				t.Errorf("it needs the Secrets %q, want %q", secrets, wantSecrets)
			}
			for _, name := range secrets {
				annotated := slices.ContainsFunc(objects, func(o manifest) bool {
					return o.Kind == "Service" && o.Annotations["service.beta.openshift.io/serving-cert-secret-name"] == name
				})
				if !annotated && !strings.Contains(string(guide), "kubectl create secret generic "+name+" ") {
					t.Errorf("nobody makes the Secret %s, and the user guide does not say how", name)
				}
			}
		})
	}
}

// mustLeaveNodes: the cluster autoscaler removes nodes with pods that keep nothing there, and does not remove that of the only server of the API.
func mustLeaveNodes(t *testing.T, object manifest) {
	t.Helper()
	var local []string
	for _, volume := range object.Spec.Template.Spec.Volumes {
		if volume.EmptyDir != nil {
			local = append(local, volume.Name)
		}
	}
	want := strings.Join(local, ",")
	if object.Kind == "StatefulSet" {
		want = ""
	}
	if got := object.Spec.Template.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"]; got != want {
		t.Errorf("%s %s leaves its node although there is %q, want %q", object.Kind, object.Name, got, want)
	}
}

// mustLeavePodsOfOthers: a namespace that may be one on OpenShift has no label of Pod Security, as WMCO may be there, too, whose pods
// use the network of their host.
func mustLeavePodsOfOthers(t *testing.T, namespace manifest, restricted bool) {
	t.Helper()
	want := map[string]string{"openshift.io/cluster-monitoring": "true"}
	if restricted {
		want["pod-security.kubernetes.io/enforce"] = "restricted"
	}
	if !maps.Equal(namespace.Labels, want) {
		t.Errorf("Namespace %s has the labels %v, want %v", namespace.Name, namespace.Labels, want)
	}
}

// TestStoragesAnswerAlone: where somebody applies one overlay over another, the servers of both do not answer in
// turns, each with other objects.
func TestStoragesAnswerAlone(t *testing.T) {
	t.Parallel()
	selectors, pods := map[string]labels.Selector{}, map[string]labels.Set{}
	for _, overlay := range []string{"base", "openshift", "ha", "openshift-ha"} {
		for _, object := range render(t, overlay) {
			switch {
			case object.Name != "windows-apiserver":
			case object.Kind == "Service":
				var service corev1.Service
				if err := json.Unmarshal(object.text, &service); err != nil {
					t.Fatal(err)
				}
				selectors[overlay] = labels.SelectorFromSet(service.Spec.Selector)
			case object.Kind == "Deployment" || object.Kind == "StatefulSet":
				pods[overlay] = object.Spec.Template.Labels
			}
		}
	}
	pods["ha of an earlier release"] = labels.Set{"app": "windows-apiserver"}
	storage := map[string]string{"base": "embedded", "openshift": "embedded", "ha": "etcd", "openshift-ha": "etcd"}
	for service, selector := range selectors {
		for server, of := range pods {
			if got, want := selector.Matches(of), storage[service] == storage[server]; got != want {
				t.Errorf("the Service of %s leads to the server of %s: %t", service, server, got)
			}
		}
	}
	if len(selectors) != 4 || len(pods) != 5 {
		t.Errorf("there are %d Services and %d servers", len(selectors), len(pods))
	}
}

// TestProgramsHaveNoGroup: OpenShift lets no pod start that has a group for its volumes which it has not
// chosen, so that is not in what all overlays have.
func TestProgramsHaveNoGroup(t *testing.T) {
	t.Parallel()
	for _, object := range render(t, "deploy") {
		mustHaveGroup(t, object, false)
	}
}

// mustHaveGroup fails if a workload has a group for its volumes and should not, or the other way round.
func mustHaveGroup(t *testing.T, object manifest, want bool) {
	t.Helper()
	context := object.Spec.Template.Spec.SecurityContext
	if got := context != nil && context.FSGroup != nil; got != want {
		t.Errorf("%s %s has a group for its volumes: %t, want %t", object.Kind, object.Name, got, want)
	}
}

// mustServeProbes fails if a program answers a probe with an error.
func mustServeProbes(t *testing.T, container corev1.Container) {
	t.Helper()
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe == nil {
			continue
		}
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal }) {
			t.Errorf("%s has no port %s", container.Name, probe.HTTPGet.Port.StrVal)
		}
		var err error
		if probe.HTTPGet.Scheme == corev1.URISchemeHTTPS {
			err = sys.ServerGet(t.Context(), probe.HTTPGet.Path, io.Discard)
		} else {
			err = answers(t, sys.ControllerHealth+probe.HTTPGet.Path)
		}
		if err != nil {
			t.Errorf("%s: probe %s: %v", container.Name, probe.HTTPGet.Path, err)
		}
	}
}

func answers(t *testing.T, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// mustMount fails if an argument names a file that is on no volume and not in the image.
func mustMount(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	for _, argument := range pod.Containers[0].Args {
		_, path, _ := strings.Cut(argument, "=/")
		path = "/" + path
		inImage := strings.HasPrefix(path, "/usr/share/windows-instance-api/")
		mounted := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(path+"/", m.MountPath+"/") })
		overridden := strings.HasPrefix(argument, "--data-dir=/") && slices.Contains(pod.Containers[0].Args, "--data-dir=")
		if path != "/" && !inImage && !mounted && !overridden {
			t.Errorf("%s is on no volume", argument)
		}
	}
}
