// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// annotate gives the Node these annotations and no others.
func (f *fixture) annotate(annotations map[string]string) {
	f.t.Helper()
	nodes := f.kube.CoreV1().Nodes()
	node, err := nodes.Get(context.Background(), testNode, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	node.Annotations = annotations
	if _, err := nodes.Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// TestAdopt: a host of WMCO is taken over by its agent alone: nothing is cordoned, drained or restarted. What keeps it from going on as
// the node that it is ends that before anything is changed.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  func(*fixture, *scriptedConfiguration)
		want string // of a failure
		// revision that it has then. Empty: that of its Node.
		revision string
	}{
		"it is taken over":             {},
		"WMCO runs again":              {set: func(_ *fixture, c *scriptedConfiguration) { c.err = func() error { return errors.New("oc scale") } }, want: "cannot be determined: oc scale. Nothing was changed."},
		"WMCO would be started again":  {set: func(f *fixture, _ *scriptedConfiguration) { f.notAdoptable = errors.New("oc delete") }, want: "Oc delete. Nothing was changed."},
		"it would be called otherwise": {set: func(f *fixture, _ *scriptedConfiguration) { f.host.nodeName = "other" }, want: "its kubelet would call itself other"},
		"its certificate has expired": {set: func(f *fixture, _ *scriptedConfiguration) {
			f.host.certificate = &api.KubeletCertificate{Problem: api.CertificateExpired}
		}, want: "cannot be taken over as it is"},
		"others made it": {set: func(f *fixture, _ *scriptedConfiguration) { f.annotate(nil) }, want: "to configure it all the same: kubectl windows reconfigure win-1 -n windows-hosts"},
		"only the host says that it is of WMCO": {set: func(f *fixture, _ *scriptedConfiguration) {
			f.annotate(nil)
			f.host.services = append(f.host.services, api.Service{Name: wmco.WICDService})
		}, revision: "wmco-unknown"},
		"nobody says whose it is": {set: func(f *fixture, _ *scriptedConfiguration) {
			f.annotate(nil)
			f.host.factErrors = []api.FactError{{Area: "services", Message: "denied"}}
		}, want: "services of the host cannot be read"},
		"it would lose its network": {set: func(f *fixture, _ *scriptedConfiguration) {
			f.host.fail["Plan"] = func() error {
				return &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("the payload does not have its program")}
			}
		}, want: "The host cannot be taken over: the payload does not have its program. Nothing was changed."},
		"it is not equivalent any more": {set: func(f *fixture, _ *scriptedConfiguration) { f.host.servicesFail = "there is no network n" }, want: "cannot be taken over: there is no network n. Its pods run as before."},
		"somebody else has it": {set: func(f *fixture, _ *scriptedConfiguration) {
			f.represented = func(context.Context, *v1alpha1.WindowsInstance) (string, error) { return "win-2 has it", nil }
		}, want: "does not represent the host: win-2 has it"},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(v1alpha1.Operation{Type: v1alpha1.OperationAdopt}))
			c := f.configure()
			f.host.recorded = ""
			f.annotate(map[string]string{wmco.VersionAnnotation: "11.0.0"})
			if tt.set != nil {
				tt.set(f, c)
			}
			op := f.finish()
			if f.drain.runs > 0 || f.host.restarts() > 0 || len(f.host.applies) > 0 || f.get().Status.ChangedHost() != (tt.want == "") {
				t.Errorf("%d drains, %d restarts, applied %v, changed %v", f.drain.runs, f.host.restarts(), f.host.applies, f.get().Status.ChangedHost())
			}
			if tt.want != "" {
				if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want) || f.host.adopted != nil {
					t.Errorf("it is %s: %s, adopted %+v", op.Phase, op.Message, f.host.adopted)
				}
				return
			}
			if got, want := strings.Join(states(op), " "), "Connect=Succeeded Agent=Succeeded Compare=Succeeded Adopt=Succeeded"; op.Phase != v1alpha1.OperationSucceeded || got != want {
				t.Errorf("it is %s: %s: %s", op.Phase, op.Message, got)
			}
			if a := f.host.adopted; a == nil || a.Revision != cmp.Or(tt.revision, "wmco-11.0.0") || a.NodeName != testNode || a.Manager != wmco.WICDService {
				t.Errorf("adopted %+v", a)
			}
		})
	}
}

// TestAdoptSaysWhatGoes: what the first update takes from the host, and costs, is said before the host is adopted.
func TestAdoptSaysWhatGoes(t *testing.T) {
	t.Parallel()
	inBubble(t, "", func(t *testing.T) {
		f := newFixture(t, newInstance(v1alpha1.Operation{Type: v1alpha1.OperationAdopt}))
		c := f.configure()
		c.warnings = []string{"the first update takes csi-proxy.exe from the host"}
		f.host.recorded, f.host.impact = "", config.ImpactReboot
		f.host.takes = []api.Item{{Kind: api.KindFile, Name: "x", Action: api.ActionDelete}, {Kind: api.KindService, Name: "csi-proxy", Action: api.ActionDelete}, {Kind: api.KindService, Name: "kubelet", Action: api.ActionUpdate}}
		f.annotate(map[string]string{wmco.VersionAnnotation: "11.0.0"})
		const want = "The host can be taken over as it is. For the next update: Changes: 4, their impact is Reboot. Services that it takes away: csi-proxy. The first update takes csi-proxy.exe from the host."
		if op := f.finish(); op.FindStep(v1alpha1.StepCompare).Message != want {
			t.Errorf("it says %q, want %q", op.FindStep(v1alpha1.StepCompare).Message, want)
		}
	})
}

// TestAdoptOnceMore: an adoption that broke off when the daemon of WMCO may have been removed is requested again, also where nothing but
// that daemon has said that the host is one of WMCO, however often that takes.
func TestAdoptOnceMore(t *testing.T) {
	t.Parallel()
	began := new(metav1.NewTime(time.Now().Add(-time.Hour)))
	attempt := func(last string, changes ...func(*v1alpha1.Operation)) v1alpha1.Operation {
		op := v1alpha1.Operation{
			ID: "before-" + last, Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationFailed, StartedAt: began, Node: &v1alpha1.OperationNode{Name: testNode, UID: "uid-of-node"},
		}
		for _, name := range []string{v1alpha1.StepConnect, v1alpha1.StepCompare, v1alpha1.StepAdopt} {
			op.Steps = append(op.Steps, v1alpha1.OperationStep{Name: name, State: v1alpha1.StepFailed, StartedAt: began})
			if name == last {
				break
			}
		}
		for _, change := range changes {
			change(&op)
		}
		return op
	}
	broke, refused := attempt(v1alpha1.StepAdopt), attempt(v1alpha1.StepCompare)
	for name, tt := range map[string]struct {
		before []v1alpha1.Operation // the oldest first
		want   bool
	}{
		"it broke off":                      {[]v1alpha1.Operation{broke}, true},
		"and was refused once more":         {[]v1alpha1.Operation{broke, refused}, true},
		"and the host was drained":          {[]v1alpha1.Operation{broke, {ID: "drain", Type: v1alpha1.OperationDrain, Phase: v1alpha1.OperationSucceeded, StartedAt: began}}, true},
		"it was refused":                    {[]v1alpha1.Operation{refused}, false},
		"of another Node":                   {[]v1alpha1.Operation{attempt(v1alpha1.StepAdopt, func(op *v1alpha1.Operation) { op.Node.UID = "other" })}, false},
		"it was completed":                  {[]v1alpha1.Operation{attempt(v1alpha1.StepAdopt, func(op *v1alpha1.Operation) { op.Phase, op.HostChanged = v1alpha1.OperationSucceeded, true })}, false},
		"and the host was configured again": {[]v1alpha1.Operation{broke, {ID: "reconfigure", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, StartedAt: began, HostChanged: true}}, false},
		"and the host was released":         {[]v1alpha1.Operation{broke, {ID: "release", Type: v1alpha1.OperationRelease, Phase: v1alpha1.OperationSucceeded, StartedAt: began, HostReleased: true}}, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			instance := newInstance(v1alpha1.Operation{Type: v1alpha1.OperationAdopt})
			requested := instance.Status.Operation
			instance.Status.Operation = nil
			for _, op := range append(tt.before, *requested) {
				if err := instance.Status.Record(op.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			f := newFixture(t, instance)
			f.configure()
			f.host.recorded = ""
			f.annotate(nil)
			op := f.finish()
			if tt.want != (op.Phase == v1alpha1.OperationSucceeded) || tt.want != (f.host.adopted != nil) {
				t.Errorf("it is %s: %s, adopted %+v", op.Phase, op.Message, f.host.adopted)
			}
			if !tt.want && !strings.Contains(op.Message, "to configure it all the same: kubectl windows reconfigure win-1") {
				t.Errorf("it is refused: %s", op.Message)
			}
		})
	}
}

// TestAdoptIsInterrupted ends the process at every write of the record, before it is made and after. The next one goes on from there: the
// host is ours in the end, once, and nothing was disturbed.
func TestAdoptIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for at := 1; at <= 12; at++ {
			inBubble(t, "", func(t *testing.T) {
				f := newFixture(t, newInstance(v1alpha1.Operation{Type: v1alpha1.OperationAdopt}))
				f.configure()
				f.host.recorded = ""
				f.annotate(map[string]string{wmco.VersionAnnotation: "11.0.0"})
				writes := f.interrupt(at, after)
				op := f.get().Status.Operation
				if op.Active() {
					op = f.finish()
				}
				if op.Phase != v1alpha1.OperationSucceeded || !f.get().Status.ChangedHost() || f.host.adopted == nil || f.host.recorded != "wmco-11.0.0" {
					t.Errorf("it is %s: %s: %+v", op.Phase, op.Message, f.get().Status)
				}
				if f.drain.runs > 0 || f.host.restarts() > 0 || len(f.host.applies) > 0 || f.node().Spec.Unschedulable {
					t.Errorf("%d drains, %d restarts, applied %v", f.drain.runs, f.host.restarts(), f.host.applies)
				}
				if at == 12 && writes >= at {
					t.Errorf("there are %d writes or more", writes)
				}
			})
		}
	}
}

// TestReconfigureLeavesWMCO: a host on which the daemon of WMCO is, or may be, is not configured, because that would undo it. The
// message names what is not refused with the other one's name.
func TestReconfigureLeavesWMCO(t *testing.T) {
	t.Parallel()
	const adopt, remove = "kubectl windows adopt win-1 -n windows-hosts", "emove the service: kubectl windows exec win-1"
	managed := func(f *fixture) { f.host.services = append(f.host.services, api.Service{Name: wmco.WICDService}) }
	unread := func(area string) func(*fixture) {
		return func(f *fixture) { f.host.factErrors = []api.FactError{{Area: area, Message: "denied"}} }
	}
	for name, tt := range map[string]struct {
		set        func(*fixture)
		want, lack string // want is empty: it is configured
	}{
		"a node of others": {managed, adopt, "\x00"},
		"a node of ours": {func(f *fixture) {
			managed(f)
			node := readyNode("uid-of-node")
			node.Labels = map[string]string{v1alpha1.NamespaceLabel: "windows-hosts"}
			if _, err := f.kube.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}); err != nil {
				f.t.Fatal(err)
			}
		}, remove, adopt},
		"no node":                     {func(f *fixture) { managed(f); f.registers() }, remove, adopt},
		"its services cannot be read": {unread("services"), "it is not known whether the Windows Machine Config Operator manages it", adopt},
		"its daemon cannot be read":   {unread("services/" + wmco.WICDService), "it is not known whether the Windows Machine Config Operator manages it", adopt},
		"another one cannot be read":  {unread("services/kubelet"), "", ""},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := newFixture(t, newInstance(v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}))
			f.configure()
			tt.set(f)
			op := f.finish()
			if tt.want == "" {
				if op.Phase != v1alpha1.OperationSucceeded {
					t.Errorf("it is %s: %s", op.Phase, op.Message)
				}
				return
			}
			if op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, tt.want) || strings.Contains(op.Message, tt.lack) || len(f.host.applies) > 0 {
				t.Errorf("it is %s: %s, applied %v", op.Phase, op.Message, f.host.applies)
			}
		})
	}
}
