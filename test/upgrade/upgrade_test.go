// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
)

// TestUpgrade has the programs of this tree continue with what those of each release left.
func TestUpgrade(t *testing.T) {
	releases, err := filepath.Glob("testdata/v*")
	if err != nil || len(releases) == 0 {
		t.Fatalf("there is no fixture: %v", err)
	}
	for _, dir := range releases {
		t.Run(filepath.Base(dir), func(t *testing.T) { upgradeFrom(t, dir) })
	}
}

// restored is a cluster that continues a fixture.
type restored struct {
	*cluster
	// before are the instances that etcd held, by name.
	before map[string]*v1alpha1.WindowsInstance
	// stored are all objects that etcd held, by key.
	stored map[string][]byte
}

func upgradeFrom(t *testing.T, dir string) {
	f, err := readFixture(dir)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := f.objects()
	if err != nil {
		t.Fatal(err)
	}
	r := &restored{cluster: startCluster(t, f, objects), before: map[string]*v1alpha1.WindowsInstance{}, stored: objects}
	r.readInstances(t)
	t.Run("served with every field", r.served)
	r.restoreHosts(t)
	r.startController(t)
	t.Run("hosts", func(t *testing.T) {
		for _, tt := range []struct {
			name string
			test func(*testing.T)
		}{
			{"configured stays configured", func(t *testing.T) { r.staysConfigured(t, hostReady) }},
			{"entry of the ConfigMap", r.entryIsNotOwned},
			{"drain that waits", r.drainGoesOn},
			{"half configured", r.halfConfigured},
			{"reboot", r.rebootEnds},
			{"removal", func(t *testing.T) { r.waitGone(t, hostRemoving) }},
			{"never configured", r.neverConfigured},
		} {
			t.Run(tt.name, func(t *testing.T) { t.Parallel(); tt.test(t) })
		}
	})
	if t.Failed() {
		return
	}
	t.Run("new reconfigure", r.newReconfigure)
	t.Run("remove all", r.removeAll)
}

// readInstances decodes the instances of the fixture with the types of this tree.
func (r *restored) readInstances(t *testing.T) {
	t.Helper()
	for key, content := range r.stored {
		if !strings.Contains(key, instancesPrefix) {
			continue
		}
		instance := &v1alpha1.WindowsInstance{}
		if err := json.Unmarshal(content, instance); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		r.before[instance.Name] = instance
	}
	if len(r.before) != len(r.fixture.Hosts) {
		t.Fatalf("there are %d instances of %d hosts", len(r.before), len(r.fixture.Hosts))
	}
}

// served compares what the API serves with what etcd held. Fields may have been added since.
func (r *restored) served(t *testing.T) {
	for key, content := range r.stored {
		kind, name := "", filepath.Base(key)
		for _, of := range []string{"windowsinstances", "windowsnodepools"} {
			if strings.Contains(key, "/"+of+"/") {
				kind = of
			}
		}
		if kind == "" {
			continue
		}
		raw, err := r.Windows.Discovery().RESTClient().Get().AbsPath("/apis/windows.openshift.io/v1alpha1/namespaces", system.Namespace, kind, name).DoRaw(t.Context())
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		var want, got any
		if err := errors.Join(json.Unmarshal(content, &want), json.Unmarshal(raw, &got)); err != nil {
			t.Fatal(err)
		}
		renameDeprecated(t, want)
		for _, missing := range lost("", want, got) {
			t.Errorf("%s %s: %s", kind, name, missing)
		}
	}
}

// renameDeprecated gives the fields of earlier releases in an object the names and values of
// those that have replaced them.
func renameDeprecated(t *testing.T, object any) {
	t.Helper()
	for _, field := range []struct {
		parent    []string
		old, name string
	}{
		{[]string{"spec", "removal"}, "after", "afterSeconds"},
		{[]string{"spec", "template", "logRotation"}, "maxAge", "maxAgeSeconds"},
	} {
		parent, _, _ := unstructured.NestedFieldNoCopy(object.(map[string]any), field.parent...)
		fields, _ := parent.(map[string]any)
		old, ok := fields[field.old].(string)
		if !ok {
			continue
		}
		d, err := time.ParseDuration(old)
		if err != nil {
			t.Fatal(err)
		}
		delete(fields, field.old)
		fields[field.name] = d.Seconds()
	}
}

// addSince gives the document of a host that an earlier release has configured what documents have
// got since. None of it restarts a service of the workload.
func addSince(t *testing.T, applied any, addresses []string) {
	t.Helper()
	fields, _ := applied.(map[string]any)
	document, _ := fields["document"].(map[string]any)
	variables, _ := document["variables"].([]any)
	if len(variables) == 0 {
		t.Fatalf("the document was %v", applied)
	}
	if document["clientCertificate"] == nil {
		document["clientCertificate"] = map[string]any{
			"path": `C:\var\lib\kubelet\pki\kubelet-client-current.pem`, "kubeconfig": `C:\k\kubeconfig`,
			"caFile": `C:\k\kubelet-ca.crt`, "serverCAFile": `C:\k\bootstrap-ca.crt`,
		}
	}
	names := map[any]bool{}
	for _, v := range variables {
		variable, _ := v.(map[string]any)
		names[variable["name"]] = true
		if variable["name"] == "NODE_IP" && variable["preferred"] == nil {
			variable["preferred"] = asAny(t, slices.Sorted(slices.Values(addresses)))
		}
	}
	if !names["NODE_SUBNET"] {
		document["variables"] = append(variables, map[string]any{"name": "NODE_SUBNET", "source": "Kept"})
	}
	files, _ := document["files"].([]any)
	for _, f := range files {
		file, _ := f.(map[string]any)
		switch file["path"] {
		case `C:\k\bootstrap-ca.crt`: // the kubeconfig of a kubelet names it since
			file["onChange"] = map[string]any{"impact": "Restart", "services": []any{"kubelet"}}
		case `C:\k\windows_exporter.exe`: // its service is in documents since, also of hosts that have none
			file["onChange"] = map[string]any{"impact": "Restart", "services": []any{"windows_exporter"}}
		case `C:\k\kubelet.exe`: // the Node is drained for it since
			file["onChange"] = map[string]any{"impact": "Drain", "services": []any{"kubelet"}}
		case `C:\k\kubelet.conf`: // and for one by which pods get less
			file["onChange"], file["format"] = map[string]any{"impact": "Drain", "services": []any{"kubelet"}}, "KubeletConfiguration"
		}
	}
	directories, _ := document["directories"].([]any)
	for _, d := range directories {
		directory, _ := d.(map[string]any)
		switch directory["path"] {
		case `C:\k`, `C:\k\cni`, `C:\k\containerd`, `C:\k\etc\kubernetes\manifests`, `C:\usr\libexec\kubernetes`:
			directory["access"] = "AdministratorsWrite"
		}
	}
}

// leaveMetrics takes from a document what a host keeps of windows_exporter while there is no certificate for it, which is in documents
// since: the hosts of the fixture have nothing of it.
func leaveMetrics(t *testing.T, applied any) {
	t.Helper()
	fields, _ := applied.(map[string]any)
	document, _ := fields["document"].(map[string]any)
	for _, list := range []struct {
		field, name string
		values      []string
	}{
		{"variables", "name", []string{"EXPORTER_FILE"}},
		{"services", "name", []string{"windows_exporter"}},
		{"logRotation", "path", []string{`C:\var\log\windows_exporter\windows_exporter.log`}},
		{"files", "path", []string{`C:\k\tls\windows-exporter-webconfig.yaml`, `C:\k\tls\certs\tls.crt`, `C:\k\tls\certs\tls.key`}},
	} {
		items, _ := document[list.field].([]any)
		document[list.field] = slices.DeleteFunc(items, func(item any) bool {
			fields, _ := item.(map[string]any)
			name, _ := fields[list.name].(string)
			if !slices.Contains(list.values, name) {
				return false
			}
			if waiting, _ := fields["waiting"].(bool); !waiting && (list.field == "services" || list.field == "files") {
				t.Errorf("%s does not wait: %v", name, item)
			}
			return true
		})
	}
}

// lost says which values of one document are not the same in another one.
func lost(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok {
			break
		}
		var all []string
		for name, value := range want {
			all = append(all, lost(path+"."+name, value, fields[name])...)
		}
		return all
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(want) {
			break
		}
		var all []string
		for n, value := range want {
			all = append(all, lost(fmt.Sprintf("%s[%d]", path, n), value, items[n])...)
		}
		return all
	default:
		if want == got {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
}

// restoreHosts starts the hosts of the fixture.
func (r *restored) restoreHosts(t *testing.T) {
	t.Helper()
	client := r.signer(t, clientKeyFile)
	for _, entry := range r.fixture.Hosts {
		dir := filepath.Join(t.TempDir(), entry.Name)
		if err := r.fixture.restoreHost(entry.Name, dir); err != nil {
			t.Fatal(err)
		}
		h := r.startHost(t, entry, dir, r.signer(t, "hosts", entry.Name, hostKeyFile), client)
		h.applied = h.readApplied(t)
	}
}

func (r *restored) signer(t *testing.T, names ...string) ssh.Signer {
	t.Helper()
	key, err := r.fixture.read(names...)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// agentProgram matches the name of the agent on a host, which has its digest.
var agentProgram = regexp.MustCompile(`windows-node-agent-[0-9a-f]+\.exe`)

// readApplied reads the document that a host was configured with, whatever the digest of the
// agent is.
func (h *host) readApplied(t *testing.T) any {
	t.Helper()
	text, err := os.ReadFile(h.local(t, `C:\Windows\windows-node-agent\state\applied.json`))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(agentProgram.ReplaceAll(text, []byte("windows-node-agent.exe")), &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// configuredSince waits until a host was probed by these programs and is configured.
func (r *restored) configuredSince(t *testing.T, name string) *v1alpha1.WindowsInstance {
	t.Helper()
	return r.wait(t, name, "it is configured", func(i *v1alpha1.WindowsInstance) error {
		if len(r.hosts[name].Commands()) < 2 {
			return errors.New("it was not probed")
		}
		return isConfigured(i)
	})
}

// staysConfigured proves that the workload of a configured host is not disturbed.
func (r *restored) staysConfigured(t *testing.T, name string) {
	i, before := r.configuredSince(t, name), r.before[name]
	if i.UID != before.UID || i.Status.Node == nil || i.Status.Node.UID != before.Status.Node.UID {
		t.Errorf("the instance or its Node was made anew:\n%s", describe(i))
	}
	h := r.hosts[name]
	now, want := h.readApplied(t), h.applied
	addSince(t, want, i.Status.Addresses)
	leaveMetrics(t, now)
	for _, difference := range append(lost("", want, now), lost("", now, want)...) {
		t.Errorf("the document: %s", difference)
	}
	if h.Restarts() != 0 || h.kubelets.Load() != 1 {
		t.Errorf("the host was restarted %d times, and the kubelet started %d times", h.Restarts(), h.kubelets.Load())
	}
	for _, op := range operations(before) {
		now := operation(i, op.ID)
		if now == nil {
			t.Errorf("the %s %s is gone", op.Type, op.ID)
			continue
		}
		if now.MayHaveChangedHost() != op.MayHaveChangedHost() {
			t.Errorf("the %s %s: whether it changed the host is not known any more", op.Type, op.ID)
		}
		op.Steps = now.Steps // the history has none: what is decided by them is compared above
		for _, missing := range lost("", asAny(t, op), asAny(t, now)) {
			t.Errorf("the %s %s: %s", op.Type, op.ID, missing)
		}
	}
	for _, op := range operations(i) {
		// The service of the agent is restarted.
		if operation(before, op.ID) == nil && op.Impact != v1alpha1.ImpactRestart {
			t.Errorf("a %s with impact %q was made: %s", op.Type, op.Impact, op.Message)
		}
	}
}

// entryIsNotOwned has the owner reference of earlier releases go, and the host does not notice.
func (r *restored) entryIsNotOwned(t *testing.T) {
	if len(r.before[hostEntered].OwnerReferences) == 0 {
		t.Error("the instance was owned by nobody")
	}
	r.wait(t, hostEntered, "its pool does not own it", func(i *v1alpha1.WindowsInstance) error {
		if len(i.OwnerReferences) > 0 {
			return fmt.Errorf("it is owned by %+v", i.OwnerReferences)
		}
		return nil
	})
	r.staysConfigured(t, hostEntered)
}

// operations are all that an instance has.
func operations(i *v1alpha1.WindowsInstance) []v1alpha1.Operation {
	all := i.Status.History
	if i.Status.Operation != nil {
		all = append(slices.Clip(all), *i.Status.Operation)
	}
	return all
}

func asAny(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// drainGoesOn lets the pod go that is in the way of a reconfigure.
func (r *restored) drainGoesOn(t *testing.T) {
	op := r.before[hostChanging].Status.Operation
	r.wait(t, hostChanging, "it was probed and waits for the pod", func(i *v1alpha1.WindowsInstance) error {
		if now := i.Status.Operation; now == nil || now.ID != op.ID || now.FinishedAt != nil {
			t.Fatalf("the operation does not wait any more:\n%s", describe(i))
		}
		if len(r.hosts[hostChanging].Commands()) == 0 {
			return errors.New("it was not probed")
		}
		// A drain that goes on has to ask again before it knows what is in its way.
		if blocked := i.Status.Operation.BlockedBy; len(blocked) != 1 {
			return fmt.Errorf("it is blocked by %v", blocked)
		}
		return nil
	})
	if err := r.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitOperation(t, hostChanging, op.ID)
	r.configuredSince(t, hostChanging)
}

// halfConfigured has the reconfigure end during which the host lost its power.
func (r *restored) halfConfigured(t *testing.T) {
	r.waitOperation(t, hostHalf, r.before[hostHalf].Status.Operation.ID)
	r.configuredSince(t, hostHalf)
	r.waitMaxPods(t, hostHalf, 43)
}

func (r *restored) waitMaxPods(t *testing.T, name string, want int64) {
	t.Helper()
	eventually(t, name+": the Node takes as many pods", func() error {
		node, err := r.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && node.Status.Allocatable.Pods().Value() != want {
			err = fmt.Errorf("it takes %d, want %d", node.Status.Allocatable.Pods().Value(), want)
		}
		return err
	})
}

// rebootEnds proves the restart of a host that has come back.
func (r *restored) rebootEnds(t *testing.T) {
	r.waitOperation(t, hostRebooting, r.before[hostRebooting].Status.Operation.ID)
	if n := r.hosts[hostRebooting].Restarts(); n != 0 {
		t.Errorf("the host was restarted %d times more", n)
	}
	r.configuredSince(t, hostRebooting)
	node, err := r.Kube.CoreV1().Nodes().Get(t.Context(), hostRebooting, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node.Spec.Unschedulable {
		t.Error("the Node is cordoned")
	}
}

// neverConfigured configures a host that was watched only.
func (r *restored) neverConfigured(t *testing.T) {
	before := r.before[hostWatched]
	if condition := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionConfigured); condition == nil || condition.Reason != v1alpha1.ReasonNotManaged {
		t.Fatalf("the fixture has it otherwise:\n%s", describe(before))
	}
	r.configuredSince(t, hostWatched)
}

// newReconfigure changes a pool, and asks for a reconfigure that has nothing to do.
func (r *restored) newReconfigure(t *testing.T) {
	revision := r.configuredSince(t, hostReady).Status.CurrentRevision
	if _, err := r.Windows.WindowsV1alpha1().WindowsNodePools(system.Namespace).Patch(t.Context(), poolReady, types.MergePatchType,
		[]byte(`{"spec":{"template":{"kubelet":{"maxPods":44}}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.wait(t, hostReady, "it has another revision", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.CurrentRevision == revision {
			return errors.New("it has the old one")
		}
		return isConfigured(i)
	})
	r.waitMaxPods(t, hostReady, 44)
	if h := r.hosts[hostReady]; h.Restarts() != 0 || h.kubelets.Load() != 2 {
		t.Errorf("the host was restarted %d times, and the kubelet started %d times", h.Restarts(), h.kubelets.Load())
	}
	var answer *v1alpha1.WindowsInstanceReconfigure
	eventually(t, "the reconfigure is taken", func() (err error) { // one of the controller's own may run
		answer, err = r.instances().Reconfigure(t.Context(), hostReady, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{})
		return err
	})
	if op := r.waitOperation(t, hostReady, answer.Status.Operation.ID); op.Impact != v1alpha1.ImpactNone {
		t.Errorf("the reconfigure of a host that is configured has impact %q: %s", op.Impact, op.Message)
	}
}

// removeAll deletes all instances, each in the way of its source.
func (r *restored) removeAll(t *testing.T) {
	if err := r.Kube.CoreV1().ConfigMaps(system.Namespace).Delete(t.Context(), entriesConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	names := []string{hostReady, hostChanging, hostHalf, hostRebooting, hostWatched}
	for _, name := range names {
		if err := r.instances().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(names, hostEntered) {
		r.waitGone(t, name)
	}
}

// waitGone waits until an instance is gone with its Node, and what was put on the host with
// them.
func (r *restored) waitGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+": the instance goes", func() error {
		i, err := r.instances().Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.New(describe(i))
	})
	if _, err := r.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: the Node is still there: %v", name, err)
	}
	r.mustBeClean(t, name)
}

// mustBeClean fails the test unless only that is on a host which was there at first.
func (r *restored) mustBeClean(t *testing.T, name string) {
	t.Helper()
	h := r.hosts[name]
	for path, content := range theirs {
		text, err := os.ReadFile(h.local(t, path))
		if err != nil || string(text) != content {
			t.Errorf("%s: %s is %q, want %q: %v", name, path, text, content, err)
		}
	}
	root := h.local(t, `C:\`)
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		// By the file of authorized keys the host is logged in to.
		if _, known := theirs[`C:\`+strings.ReplaceAll(below, "/", `\`)]; !known && entry.Name() != "administrators_authorized_keys" {
			t.Errorf("%s: %s is left", name, below)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(root + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]json.RawMessage
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	for kind, text := range settings {
		var entries map[string]json.RawMessage
		// Features stay on: others may use them by now.
		if kind != "Features" && json.Unmarshal(text, &entries) == nil && len(entries) > 0 {
			t.Errorf("%s: %s are left: %s", name, kind, text)
		}
	}
}
