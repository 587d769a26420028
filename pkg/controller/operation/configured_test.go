// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
)

// configured is the part of the host of the tests that is configured. Its state is what
// the engine keeps on a host: what was applied, which files are there, which boot has to end.
// Documents are told apart by their host name.
type configured struct {
	// is what the host is like now, and recorded what it has written down of that.
	is, recorded string
	// impact is what the next change costs, and restarted are the services that are restarted for it.
	impact    config.Impact
	restarted []string
	// impactLater replaces it once the host was asked for a plan that many times.
	impactLater      config.Impact
	impactLaterAfter int
	plans            int
	// needsFiles has the next change need files that are not there yet.
	needsFiles bool
	// trickles is for how many minutes a few bytes of each file arrive.
	trickles int
	// needsReboot has the next change end a boot first; waitsForEndOf is that boot.
	needsReboot   int
	waitsForEndOf int
	// cuts is how often the connection breaks while the host is changed.
	cuts int
	// result replaces the result of the next changes as long as it returns one.
	result func() *api.Result
	// onApplied is called with what the host has become.
	onApplied func(is string)
	// cleanupReboots has the removal need a restart.
	cleanupReboots bool
	// leaves is what is in use after the removal.
	leaves []string
	// networks are those of others.
	networks []string
	// awaits are the services that wait on the host for a network that others make.
	awaits []api.Waiting
	// takes is what the first update after an adoption does besides.
	takes []api.Item
	// nodeName is what the host says that its node is called. Empty: testNode.
	nodeName string
	// reached is what the host says of the way to the API server.
	reached api.ReachAnswer
	// certificate is what the host says of the client certificate of its kubelet.
	certificate *api.KubeletCertificate
	// agentThere: our agent is on the host.
	agentThere bool
	// changing is who changes the host now, most how many ever did.
	changing, most int
	// slow is how long a change takes.
	slow time.Duration
	// applies has what was applied, with what was allowed.
	applies []string
}

func (h *scriptedHost) plan(want string) *api.Plan {
	p := &api.Plan{Revision: want, Impact: config.ImpactNone, Items: []api.Item{}, NodeName: cmp.Or(h.nodeName, testNode), KubeletCertificate: h.certificate, Waiting: h.awaits}
	if h.is != want {
		p.Impact = h.impact
		if p.Impact == "" || want == "" {
			p.Impact = config.ImpactNone
		}
		if want == "" && h.cleanupReboots {
			p.Impact = config.ImpactReboot
		}
		p.Items = append(p.Items, api.Item{Kind: api.KindFile, Name: `C:\k\kubelet.conf`, Action: api.ActionUpdate, Impact: p.Impact, Reason: "has another content"})
		if h.needsFiles {
			p.Payload = []api.PayloadFile{{Name: "kubelet.exe", Digest: "x", Size: 5 << 20, Path: `C:\p\kubelet.exe`}}
		}
	}
	if h.waitsForEndOf == h.boots {
		p.Reboot = []string{"feature Containers is being enabled"}
	}
	return p
}

func (h *scriptedHost) PlanConfiguration(ctx context.Context, _ *v1alpha1.WindowsInstance, b *config.Bundle) (*api.Plan, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Plan"); err != nil {
		return nil, err
	}
	p := h.plan(b.Document.Hostname)
	p.Restarts = append(p.Restarts, h.restarted...)
	if h.plans++; h.impactLater != "" && h.plans == h.impactLaterAfter {
		h.impact = h.impactLater
	}
	return p, nil
}

func (h *scriptedHost) Deliver(ctx context.Context, _ *v1alpha1.WindowsInstance, files []api.PayloadFile, progress func(transfer.Progress)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range files {
		progress(transfer.Progress{Files: []transfer.FileProgress{{Name: f.Name, Stage: transfer.StageSending}}, Sent: f.Size / 2, Total: f.Size})
	}
	for n := range h.trickles {
		h.mu.Unlock()
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
		h.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		progress(transfer.Progress{Sent: files[0].Size/2 + int64(n) + 1, Total: files[0].Size})
	}
	if err := h.ask(ctx, "Deliver"); err != nil {
		return err
	}
	h.needsFiles = false
	return nil
}

// lock is what keeps others from the host while it is changed. Callers hold mu.
func (h *scriptedHost) lock(ctx context.Context) (*api.Result, func()) {
	if h.changing > 0 {
		return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonLocked, Error: `"apply" changes this host, process 7`}, nil
	}
	h.changing++
	h.most = max(h.most, h.changing)
	if h.slow > 0 {
		h.mu.Unlock()
		select {
		case <-time.After(h.slow):
		case <-ctx.Done():
		}
		h.mu.Lock()
	}
	return nil, func() { h.changing-- }
}

func (h *scriptedHost) Apply(ctx context.Context, _ *v1alpha1.WindowsInstance, r *api.ApplyRequest, report func(api.Event)) (*api.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Apply"); err != nil {
		return nil, err
	}
	locked, unlock := h.lock(ctx)
	if locked != nil {
		return locked, nil
	}
	defer unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	h.keeps = r.Keep
	if h.result != nil {
		if done := h.result(); done != nil {
			return done, nil
		}
	}
	want := r.Bundle.Document.Hostname
	p := h.plan(want)
	done := &api.Result{Revision: want, Outcome: api.OutcomeUnchanged, Changed: []api.Item{}}
	impacts := []config.Impact{config.ImpactNone, config.ImpactRestart, config.ImpactDrain, config.ImpactReboot}
	switch {
	case len(p.Reboot) > 0:
		done.Outcome, done.Reboot = api.OutcomeRebootRequired, p.Reboot
		return done, nil
	case slices.Index(impacts, p.Impact) > slices.Index(impacts, r.Allow):
		done.Outcome, done.Plan = api.OutcomeImpactExceeded, p
		return done, nil
	case len(p.Payload) > 0:
		done.Outcome, done.Reason, done.Error = api.OutcomeFailed, api.ReasonPayload, "not on the host yet: kubelet.exe"
		return done, nil
	case len(p.Items) == 0:
		h.recorded = want
		return done, nil
	}
	report(api.Event{Step: 1, Steps: 1, Item: p.Items[0].String(), State: api.EventStarted})
	if h.cuts > 0 {
		h.cuts--
		return nil, errLost
	}
	if h.needsReboot > 0 {
		h.needsReboot--
		h.waitsForEndOf = h.boots
		done.Outcome, done.Reboot = api.OutcomeRebootRequired, []string{"feature Containers is being enabled"}
		return done, nil
	}
	report(api.Event{Step: 1, Steps: 1, Item: p.Items[0].String(), State: api.EventDone})
	h.is, h.recorded = want, want
	h.applies = append(h.applies, want+" "+string(r.Allow))
	done.Outcome, done.Changed = api.OutcomeApplied, p.Items
	if h.onApplied != nil {
		h.onApplied(want)
	}
	return done, nil
}

func (h *scriptedHost) Cleanup(ctx context.Context, _ *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Cleanup"); err != nil {
		return nil, err
	}
	locked, unlock := h.lock(ctx)
	if locked != nil {
		return locked, nil
	}
	defer unlock()
	if h.result != nil {
		if done := h.result(); done != nil {
			return done, nil
		}
	}
	done := &api.Result{Outcome: api.OutcomeRemoved, Changed: []api.Item{}, Networks: h.networks}
	if h.is != "" {
		item := api.Item{Kind: api.KindNetwork, Name: "OVNKubernetesHybridOverlayNetwork", Action: api.ActionDelete}
		report(api.Event{Step: 1, Steps: 1, Item: item.String(), State: api.EventStarted})
		if h.cuts > 0 {
			h.cuts--
			return nil, errLost
		}
		done.Changed = append(done.Changed, item)
		if h.cleanupReboots {
			h.waitsForEndOf = h.boots
		}
		done.AtBoot = h.leaves
	}
	if h.waitsForEndOf == h.boots {
		done.Reboot = []string{"Delete Environment HTTP_PROXY"}
	}
	h.is, h.agentThere = "", len(done.Reboot) > 0
	return done, nil
}

// scriptedConfiguration says what the host of the tests must be like.
type scriptedConfiguration struct {
	mu      sync.Mutex
	want    string
	waiting []document.Waiting
	// warnings are about inputs that cannot be used.
	warnings []string
	// hns is what the Host Networking Service has to do with the configuration.
	hns *config.HNS
	// keep are the programs that the host is to be able to go back to.
	keep []string
	err  func() error
	// issued are the names of the nodes that there were credentials for, each once, and given those that
	// this process has given, and gives again.
	issued, given sets.Set[string]
	// reports says whether a kubelet reports for the node.
	reports func() bool
	// signs is for how long what a host joins with is not signed at first.
	signs time.Duration
	// had are the revisions of the host that it was asked with.
	had []string
	// without: something cannot be read, and is not in the configuration.
	without bool
}

var _ Configuration = (*scriptedConfiguration)(nil)

// poolRevisionOf is the revision of its pool that a scripted configuration is of.
func poolRevisionOf(revision string) string { return "pool of " + revision }

func (c *scriptedConfiguration) Build(_ context.Context, i *v1alpha1.WindowsInstance, _ *corev1.Node, joinAs string) (*document.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.had = append(c.had, i.Status.CurrentRevision)
	if c.err != nil {
		if err := c.err(); err != nil {
			return nil, err
		}
	}
	text := c.want
	if joinAs != "" {
		text += " with credentials"
		if !c.given.Has(joinAs) && c.reports() {
			return nil, fmt.Errorf("a kubelet reports for Node %s", joinAs)
		}
		if !c.given.Has(joinAs) {
			<-time.After(c.signs)
		}
		c.issued.Insert(joinAs)
		c.given.Insert(joinAs)
	}
	return &document.Result{
		Bundle: config.Bundle{Document: config.Document{Version: config.SchemaVersion, Hostname: text, HNS: c.hns}}, Revision: text, PoolRevision: poolRevisionOf(c.want), Waiting: c.waiting, Warnings: c.warnings, Without: c.without,
		Reach: api.ReachRequest{URL: "https://api.example.com:6443"}, Keep: c.keep,
	}, nil
}

// configure has the hosts of the fixture configured, to a revision that the host does not have.
func (f *fixture) configure() *scriptedConfiguration {
	c := &scriptedConfiguration{want: "new", issued: sets.New[string](), given: sets.New[string]()}
	c.reports = func() bool {
		node, err := f.kube.CoreV1().Nodes().Get(context.Background(), testNode, metav1.GetOptions{})
		return err == nil && object.KubeletReports(node)
	}
	f.configuration = c
	f.host.is, f.host.recorded, f.host.impact = "old", "old", config.ImpactNone
	return c
}

// isNoNode has the cluster without the Node of the host.
func (f *fixture) isNoNode() {
	if err := f.kube.CoreV1().Nodes().Delete(context.Background(), testNode, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// registers has the host become a Node when it is configured.
func (f *fixture) registers() {
	f.isNoNode()
	f.host.certificate = &api.KubeletCertificate{Problem: api.CertificateMissing}
	f.host.onApplied = func(string) {
		f.host.certificate = &api.KubeletCertificate{}
		if _, err := f.kube.CoreV1().Nodes().Create(context.Background(), readyNode("uid-of-node"), metav1.CreateOptions{}); err != nil {
			return // it is one already
		}
		f.edit(func(i *v1alpha1.WindowsInstance) {
			i.Status.Node = &v1alpha1.NodeReference{Name: testNode, UID: "uid-of-node"}
		})
	}
}

// losesCertificate has the kubelet of a host that is as it should be lose its client certificate.
func (f *fixture) losesCertificate() {
	f.host.is, f.host.recorded, f.host.impact = "new", "new", config.ImpactRestart
	f.host.certificate = &api.KubeletCertificate{Problem: api.CertificateExpired, NotAfter: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// rejoins has the kubelet get another one when it is configured to join.
func (f *fixture) rejoins() {
	f.host.onApplied = func(string) {
		f.host.certificate = &api.KubeletCertificate{}
		f.reportsReady(corev1.ConditionTrue)
	}
}

// kubeletIsGone has the cluster see that nobody speaks for the Node any more.
func (f *fixture) kubeletIsGone() { f.reportsReady(corev1.ConditionUnknown) }

// reportsReady changes what the cluster knows of the Node.
func (f *fixture) reportsReady(status corev1.ConditionStatus) {
	node := f.node()
	ready := &node.Status.Conditions[0]
	ready.Status, ready.LastTransitionTime = status, metav1.Now()
	if _, err := f.kube.CoreV1().Nodes().UpdateStatus(context.Background(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Error(err)
	}
	// The cache of the controller.
	cached := &corev1.Node{}
	if err := f.raw.Get(context.Background(), client.ObjectKeyFromObject(node), cached); err != nil {
		f.t.Error(err)
	}
	cached.Status = node.Status
	if err := f.raw.Status().Update(context.Background(), cached); err != nil {
		f.t.Error(err)
	}
}

func reconfigureOperation() v1alpha1.Operation {
	return v1alpha1.Operation{Type: v1alpha1.OperationReconfigure}
}

func removeOperation() v1alpha1.Operation {
	return v1alpha1.Operation{Type: v1alpha1.OperationRemove}
}

func withoutNode(i *v1alpha1.WindowsInstance) { i.Status.Node = nil }

// refuseOtherUIDs has the cluster mind the UID that a deletion is meant for, which the
// fake one does not.
func (f *fixture) refuseOtherUIDs() {
	f.kube.PrependReactor("delete", "nodes", func(action clienttesting.Action) (bool, kruntime.Object, error) {
		asked, ok := action.(clienttesting.DeleteActionImpl)
		if !ok || asked.DeleteOptions.Preconditions == nil {
			return false, nil, nil
		}
		node, err := f.nodes.Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", asked.Name)
		if err != nil {
			return true, nil, err
		}
		if there, ok := node.(*corev1.Node); ok && there.UID != *asked.DeleteOptions.Preconditions.UID {
			return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), asked.Name, errors.New("the UID is another one"))
		}
		return false, nil, nil
	})
}

// keepNode has finalizers keep the Node when it is deleted, which those of the fake cluster do not.
func (f *fixture) keepNode(finalizers ...string) {
	f.kube.PrependReactor("delete", "nodes", func(clienttesting.Action) (bool, kruntime.Object, error) {
		f.editNode(func(n *corev1.Node) { n.DeletionTimestamp, n.Finalizers = new(metav1.Now()), finalizers })
		return true, nil, nil
	})
}

// isBeingDeleted has the instance deleted, which its finalizer holds.
func isBeingDeleted(i *v1alpha1.WindowsInstance) {
	i.Finalizers = []string{"windows.openshift.io/host"}
	i.DeletionTimestamp = new(metav1.Now())
}

var errNoSpace = &transfer.Error{Name: "kubelet.exe", HostPath: `C:\p\kubelet.exe`, Err: transfer.ErrDiskFull}

var errDigest = &transfer.Error{Name: "kubelet.exe", HostPath: `C:\p\kubelet.exe`, Err: errors.Join(transfer.ErrDigest)}
