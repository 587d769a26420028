// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/openshift"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestOpenShift: where OpenShift was installed, hosts of the ConfigMap become nodes that are configured as its own
// workers are, and what changes there reaches them at the cost that it should have.
func TestOpenShift(t *testing.T) {
	t.Parallel()
	o, g := newOpenShiftByTheGuide(t)
	authority := o.administer(t)
	update(t, o, "cluster", func(p *configv1.Proxy) {
		p.Spec.HTTPProxy, p.Spec.NoProxy = "http://proxy.example.com:3128", ".example.com" // without an authority, until openShiftNetwork
	})

	h := o.newHost(t, system.Namespace, "ocp-entry", winhost.Options{})
	mustHaveJoined := h.watchJoin(t)
	g.addFirst(t, h)
	h.waitReady(t)
	mustHaveJoined()
	h.mustBeWorker(t, o)
	h.mustHaveProxy(t, authority)
	mustSay(t, h.read(t, wmco.RegistriesDir+`\quay.example.com\hosts.toml`), "registry.example.com/v2/first", "Basic dXNlcjpwYXNzd29yZA==")
	if plan := h.plan(t); len(plan) > 0 {
		t.Errorf("nothing is to be done, and the plan says %+v", plan)
	}
	t.Run("metrics", func(t *testing.T) { openShiftMetrics(t, o, h) })
	t.Run("version", func(t *testing.T) { openShiftVersion(t, h) })
	t.Run("API server", func(t *testing.T) { openShiftServerRotation(t, o, h) })
	openShiftInputs(t, o, g, h, "")
	t.Run("clone", func(t *testing.T) { openShiftClone(t, o, h) })
	t.Run("trusted-ca", func(t *testing.T) { openShiftTrust(t, o) })
	t.Run("user data", func(t *testing.T) { openShiftUserData(t, o) })
	commands := section(t, "On OpenShift")
	g.watch(t, only(t, commands, "kubectl get windowsinstances -A --watch"))
	g.mustHaveRun(t, commands)
	entries, sets := section(t, "By the ConfigMap `windows-instances`"), section(t, "By a MachineSet")
	for command, want := range map[string]string{
		only(t, entries, "kubectl describe wnp "): "SourceSynced",
		only(t, entries, "kubectl get events "):   wmco.InstanceSetup,
		only(t, sets, "kubectl get events "):      wmco.UserDataSecret,
	} {
		if out, err := g.try(t, command); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s\n%v, want %s in\n%s", command, err, want, out)
		}
	}
	t.Run("see your hosts", func(t *testing.T) { openShiftSee(t, g, h) })
}

// openShiftSee runs the commands by which the user guide has people see their hosts.
func openShiftSee(t *testing.T, by *guided, h *siteHost) {
	g := &guided{System: by.System, dir: by.dir, names: strings.NewReplacer("win-5", h.name, "win-6", h.name, "10.1.42.1", h.name)}
	for _, command := range section(t, "See your hosts") {
		switch {
		case command == "":
		case strings.Contains(command, "--watch"):
			g.watch(t, command)
		default:
			if out, err := g.try(t, command); err != nil {
				t.Errorf("%s\n%v\n%s", command, err, out)
			}
		}
	}
}

// addFirst adds the first host by the ConfigMap that the user guide shows. Its second entry has the name of a host, of which there is none.
func (g *guided) addFirst(t *testing.T, h *siteHost) {
	t.Helper()
	text := manifestBelow(t, "By the ConfigMap `windows-instances`")
	text, _, found := strings.Cut(text, "  instance.example.com:")
	const first = "10.1.42.1: |-\n    username=Administrator\n"
	if !found || !strings.Contains(text, first) {
		t.Fatalf("the user guide has other entries in\n%s", text)
	}
	entry := strings.ReplaceAll(strings.TrimSpace(entryFor(h.host, "name="+h.name)), "\n", "\n    ")
	text = strings.Replace(text, first, h.host.Address()+": |-\n    "+entry+"\n", 1)
	if out, err := g.try(t, "kubectl apply -f - <<'END'\n"+text+"END"); err != nil {
		t.Fatalf("%s\n%v\n%s", text, err, out)
	}
}

// openShiftClone has somebody add a host that was cloned from another one: it is told from that, and nothing is changed on either.
func openShiftClone(t *testing.T, o *openShiftSite, h *siteHost) {
	node, mustStay := h.node(t, h.name).UID, undisturbed(t, h.subject())
	clone := o.newHost(t, system.Namespace, h.name, winhost.Options{})
	clone.name = "ocp-clone"
	o.addEntry(t, clone)
	i := clone.waitReason(t, v1alpha1.ConditionPreflightPassed, v1alpha1.ReasonHostnameTaken)
	mustSay(t, messageOf(t, i, v1alpha1.ConditionPreflightPassed), "would become Node "+h.name, "Instance "+h.name, "Rename-Computer -NewName NEW-NAME -Restart")
	clone.mustHaveOnlyTheAgent(t)
	mustStay.mustHold(t)
	if now := h.node(t, h.name).UID; now != node {
		t.Errorf("the Node is another one: %s, before %s", now, node)
	}
}

// openShiftUserData has somebody change and delete what new Machines run: it is there again at once, also for Cluster API
// once that has a namespace.
func openShiftUserData(t *testing.T, o *openShiftSite) {
	key := func(namespace string) client.ObjectKey {
		return client.ObjectKey{Namespace: namespace, Name: wmco.UserDataSecret}
	}
	script := func(namespace string) (string, *corev1.Secret) {
		var secret *corev1.Secret
		eventually(t, "there is user data in "+namespace, func() error {
			secret = &corev1.Secret{}
			err := o.client.Get(t.Context(), key(namespace), secret)
			if err == nil && !strings.Contains(string(secret.Data[wmco.UserDataKey]), "$authorizedKey = @'\n") {
				err = fmt.Errorf("it is %q", secret.Data)
			}
			return err
		})
		return string(secret.Data[wmco.UserDataKey]), secret
	}
	want, secret := script(wmco.MachineAPINamespace)
	secret.Data[wmco.UserDataKey] = []byte("Remove-Item C:\\")
	if err := o.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if got, _ := script(wmco.MachineAPINamespace); got != want {
		t.Errorf("after a change it is\n%s", got)
	}
	if err := o.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: wmco.MachineAPINamespace, Name: wmco.UserDataSecret}}); err != nil {
		t.Fatal(err)
	}
	if got, _ := script(wmco.MachineAPINamespace); got != want {
		t.Errorf("after its deletion it is\n%s", got)
	}
	wantSecretsRefused(o.System, wmco.ClusterAPINamespace)
	o.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wmco.ClusterAPINamespace}})
	if _, err := o.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "artifacts", "openshift", "cluster-api.yaml")); err != nil {
		t.Fatal(err)
	}
	// The key says the same, in other words: that is no other user data, and has the controller look again.
	credentials := &corev1.Secret{}
	if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: system.Namespace, Name: wmco.PrivateKeySecret}, credentials); err != nil {
		t.Fatal(err)
	}
	credentials.Annotations = map[string]string{"example.com/note": "seen"}
	if err := o.client.Update(t.Context(), credentials); err != nil {
		t.Fatal(err)
	}
	if got, _ := script(wmco.ClusterAPINamespace); got != want {
		t.Errorf("for Cluster API it is\n%s", got)
	}
}

// openShiftTrust has somebody delete the ConfigMap with the authorities of the cluster: it is made again, so that
// OpenShift writes them again.
func openShiftTrust(t *testing.T, o *openShiftSite) {
	configMaps := o.Kube.CoreV1().ConfigMaps(system.Namespace)
	before, err := configMaps.Get(t.Context(), "trusted-ca", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := configMaps.Delete(t.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the authorities are there again", func() error {
		now, err := configMaps.Get(t.Context(), before.Name, metav1.GetOptions{})
		if err == nil && (now.UID == before.UID || now.Data["ca-bundle.crt"] != before.Data["ca-bundle.crt"]) {
			err = fmt.Errorf("it has %d bytes", len(now.Data["ca-bundle.crt"]))
		}
		return err
	})
}

// openShiftServerRotation has OpenShift add an authority of the API server, before that gets a certificate of it: the
// kubelet knows both then, after one start, and is the same node all the time.
func openShiftServerRotation(t *testing.T, o *openShiftSite, h *siteHost) {
	before, starts, node := h.waitReady(t), h.kubelets.Load(), h.node(t, h.name).UID
	next := newAuthority(t, "kube-apiserver-lb-signer")
	o.setAuthorities(t, openshift.ManagedNamespace, openshift.ServerCAName, o.authorities(t, openshift.ManagedNamespace, openshift.ServerCAName)+next)
	i := h.waitRevision(t, before.Status.DesiredRevision)
	if op := i.Status.Operation; op.Impact != v1alpha1.ImpactRestart {
		t.Errorf("the impact is %q\n%s", op.Impact, describeSteps(op))
	}
	kubeconfig, err := clientcmd.Load([]byte(h.read(t, wmco.KubeconfigPath)))
	if err != nil {
		t.Fatal(err)
	}
	for name, cluster := range kubeconfig.Clusters {
		authorities := h.read(t, cluster.CertificateAuthority) // in an order of their own
		if slices.ContainsFunc(strings.SplitAfter(next, "-----END CERTIFICATE-----\n"), func(one string) bool { return !strings.Contains(authorities, one) }) {
			t.Errorf("cluster %s is verified by what is in %q", name, cluster.CertificateAuthority)
		}
	}
	if n := h.kubelets.Load() - starts; n != 1 || h.node(t, h.name).UID != node {
		t.Errorf("the kubelet was started %d times, and the Node is another: %t", n, h.node(t, h.name).UID != node)
	}
}

// TestOpenShiftMachine: on a platform whose cloud completes Nodes, the host of a Machine becomes one, whatever the
// cluster-machine-approver makes of that, and goes with its Machine. The API server is of the version before, as is the payload.
func TestOpenShiftMachine(t *testing.T) {
	t.Parallel()
	const namespace = "openshift-machine-api"
	// Each Machine is late for the approver.
	o := newOpenShiftWith(t, system.Options{
		OpenShift: configv1.VSpherePlatformType, MaxMachineAge: time.Second, ControlPlane: controlplane.Options{APIServerArgs: []string{former}},
	}, formerKubelet)
	address := o.HostIP().Next().Next()
	h := o.newHost(t, namespace, "win-7gq2p1", winhost.Options{Address: address.String(), Port: 22})
	h.name = "ocp-machine" // that of its Machine
	// The cloud has no virtual machine of that name.
	o.create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ocp-stray"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: uninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}}})
	nodes, err := o.Kube.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + h.name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nodes.Stop)
	o.provision(t, namespace, h.name, address.String(), corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: h.name})
	provisioned := time.Now()
	h.waitStep(t, v1alpha1.StepApply)
	// On a fast machine it is not yet.
	eventually(t, "the Machine is too old for the approver", func() error {
		if age := time.Since(provisioned); age < 2*time.Second { // of whole seconds, in which the cluster counts
			return fmt.Errorf("it is %s old", age)
		}
		return nil
	})
	// Hosts that join by the token of all do not any more, and it changes.
	late := o.askAsBootstrapper(t, h.name)
	o.rotateToken(t)
	h.waitReady(t)
	h.mustBeWorker(t, o)
	if got := h.node(t, h.name).Status.NodeInfo.KubeletVersion; got != formerKubelet {
		t.Errorf("its kubelet is %s, want %s", got, formerKubelet)
	}
	if n := h.host.Restarts(); n != 1 {
		t.Errorf("the host was restarted %d times, want once, for its name", n)
	}
	// Until the cloud has completed it, it takes no pods.
	if node := (<-nodes.ResultChan()).Object.(*corev1.Node); !slices.ContainsFunc(node.Spec.Taints, isUninitialized) {
		t.Errorf("the Node came with taints %+v", node.Spec.Taints)
	}
	eventually(t, "the cloud has completed the Node", func() error {
		if taints := h.node(t, h.name).Spec.Taints; slices.ContainsFunc(taints, isUninitialized) {
			return fmt.Errorf("it has taints %+v", taints)
		}
		return nil
	})
	if taints := h.node(t, "ocp-stray").Spec.Taints; !slices.ContainsFunc(taints, isUninitialized) {
		t.Errorf("a Node of no virtual machine has taints %+v", taints)
	}
	service, err := h.theirs(t).Service(wmco.HybridOverlayService)
	if err != nil || service == nil {
		t.Fatalf("the service of the overlay: %+v, %v", service, err)
	}
	mustSay(t, service.Settings.CommandLine, "--hybrid-overlay-vxlan-port 9898") // as the platform has the usual one
	o.waitRunning(t, namespace, h.name)
	h.mustRestartForItsNode(t)

	// Its Node exists, so the approver would not have it join.
	mustHaveJoined, before := h.watchJoin(t), h.get(t).Status.Operation.ID
	existing := o.askAsBootstrapper(t, h.name)
	h.replaceCertificate(t, h.name, newCA(t), time.Now().Add(365*24*time.Hour), nil)
	h.wait(t, "the host has joined again", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Operation.ID == before {
			return errors.New(describeConditions(i))
		}
		return isSetUp(i)
	})
	mustHaveJoined()
	o.mustAgree(t, h.name, late, existing)
	o.deleteMachine(t, h, namespace)
}

// provision makes a Machine of Windows, and says in the place of the cloud where its virtual machine runs.
func (o *openShiftSite) provision(t *testing.T, namespace, name, address string, more ...corev1.NodeAddress) {
	t.Helper()
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"machine.openshift.io/os-id": "Windows"}}}
	o.create(t, machine)
	o.giveAddress(t, machine, address, more...)
}

// giveAddress says in the place of the cloud which virtual machine that of a Machine is, and where it runs.
func (o *openShiftSite) giveAddress(t *testing.T, machine *machinev1beta1.Machine, address string, more ...corev1.NodeAddress) {
	t.Helper()
	if id := o.Cloud.ProviderID(address); id != "" {
		before := client.MergeFrom(machine.DeepCopy())
		machine.Spec.ProviderID = &id
		if err := o.client.Patch(t.Context(), machine, before); err != nil {
			t.Fatal(err)
		}
	}
	before := client.MergeFrom(machine.DeepCopy())
	machine.Status.Addresses = append([]corev1.NodeAddress{internalIP(address)}, more...)
	if err := o.client.Status().Patch(t.Context(), machine, before); err != nil {
		t.Fatal(err)
	}
}

// uninitializedTaint is on Nodes that their cloud has not completed.
const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

func isUninitialized(taint corev1.Taint) bool { return taint.Key == uninitializedTaint }

// openShiftSite is a site in a cluster of OpenShift.
type openShiftSite struct {
	*site
	client client.Client
}

func newOpenShift(t *testing.T, platform configv1.PlatformType) *openShiftSite {
	t.Helper()
	return newOpenShiftWith(t, system.Options{OpenShift: platform}, "")
}

// refusedProxy is the environment of pods where a cluster has a proxy, which refuses all here: our programs send nothing to it.
// Loopback addresses, which most here are, never go to one; see pkg/noproxy about those of clusters.
var refusedProxy = []string{"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1"}

// newOpenShiftByTheGuide is where our programs were installed by the commands that the user guide has for it, but for those that run in
// pods.
func newOpenShiftByTheGuide(t *testing.T) (*openShiftSite, *guided) {
	t.Helper()
	commands, g := section(t, "On OpenShift"), &guided{dir: t.TempDir()}
	o := newOpenShiftWith(t, system.Options{OpenShift: configv1.NonePlatformType, ServerEnv: refusedProxy, ControllerEnv: refusedProxy, Install: func(_ context.Context, s *system.System, privateKey []byte) error {
		if err := os.WriteFile(filepath.Join(g.dir, "private-key.pem"), privateKey, 0o600); err != nil {
			return err
		}
		g.System = s
		g.run(t, commands, "kubectl apply -k artifacts/openshift", "kubectl create secret generic cloud-private-key ")
		return nil
	}}, "")
	g.run(t, commands, "kubectl wait --for=create apiservice ", "kubectl wait --for=condition=Available apiservice ")
	return o, g
}

// newOpenShiftWith starts a cluster, with a payload whose kubelet has that version; empty: the usual one.
func newOpenShiftWith(t *testing.T, in system.Options, version string) *openShiftSite {
	t.Helper()
	s := newSiteWith(t, standin.PayloadOptions{Overlay: true, Platform: in.OpenShift, Version: version}, in)
	c, err := openshift.NewClient(s.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &openShiftSite{site: s, client: c}
}

func (o *openShiftSite) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := o.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// object reads an object that is in no namespace.
func object[T any, P interface {
	*T
	client.Object
}](t *testing.T, o *openShiftSite, name string,
) P {
	t.Helper()
	found := P(new(T))
	if err := o.client.Get(t.Context(), client.ObjectKey{Name: name}, found); err != nil {
		t.Fatal(err)
	}
	return found
}

// update changes an object that is in no namespace.
func update[T any, P interface {
	*T
	client.Object
}](t *testing.T, o *openShiftSite, name string, change func(P),
) {
	t.Helper()
	eventually(t, "an object is changed", func() error { // others write them, too
		found := object[T, P](t, o, name)
		change(found)
		return o.client.Update(t.Context(), found)
	})
}

// newAuthority returns a certificate that others may trust.
func newAuthority(t *testing.T, name string) string {
	t.Helper()
	authority, _, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(authority)
}

// mirrored is what an administrator writes for a mirror of a source.
func mirrored(name, source, mirror string) *configv1.ImageDigestMirrorSet {
	return &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: configv1.ImageDigestMirrorSetSpec{
		ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: source, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(mirror)}}},
	}}
}

// mustBeWorker fails the test unless the Node is as one of OpenShift's own workers, and its host has what these have.
func (h *siteHost) mustBeWorker(t *testing.T, o *openShiftSite) {
	t.Helper()
	if got, want := h.read(t, wmco.KubeletCAPath), string(object[mcfgv1.ControllerConfig](t, o, "machine-config-controller").Spec.KubeAPIServerServingCAData); got != want {
		t.Errorf("the clients of the kubelet are verified by\n%s, want\n%s", got, want)
	}
	if internal := object[configv1.Infrastructure](t, o, "cluster").Status.APIServerInternalURL; !strings.Contains(h.read(t, wmco.KubeconfigPath), "server: "+internal+"\n") {
		t.Errorf("the kubelet does not reach the API server at %s:\n%s", internal, h.read(t, wmco.KubeconfigPath))
	}
	node := h.node(t, h.get(t).Status.Node.Name)
	if got, want := node.Labels["node.openshift.io/os_id"], "Windows"; got != want {
		t.Errorf("label node.openshift.io/os_id is %q, want %q", got, want)
	}
	eventually(t, "the Node is that of a worker", func() error { // by the controller, its network and its kubelet
		now := h.node(t, node.Name)
		if _, is := now.Labels["node-role.kubernetes.io/worker"]; !is || now.Annotations[wmco.SubnetAnnotation] == "" || now.Status.Allocatable.Pods().Value() != 250 {
			return fmt.Errorf("labels %v, annotations %v, %v pods", now.Labels, now.Annotations, now.Status.Allocatable.Pods())
		}
		return nil
	})
}

// mustHaveProxy fails the test unless all programs of the host use the proxy, and trust whom its administrator and its network operator trust.
func (h *siteHost) mustHaveProxy(t *testing.T, authority string) {
	t.Helper()
	environment := h.environment(t)
	if got, want := environment["HTTP_PROXY"], "http://proxy.example.com:3128"; got != want {
		t.Errorf("HTTP_PROXY is %q, want %q", got, want)
	}
	mustSay(t, environment["NO_PROXY"], ".cluster.local", ".example.com")
	if err := h.trusts(t, authority); err != nil {
		t.Errorf("it does not trust what its administrator trusts: %v", err)
	}
	if err := h.trusts(t, openshift.SystemAuthorities()); err != nil {
		t.Errorf("it does not trust the first of the authorities of the network operator: %v", err)
	}
}

// environment are the variables of the machine.
func (h *siteHost) environment(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(h.local(t, `C:\`) + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var settings struct{ Environment map[string]string }
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	return settings.Environment
}
