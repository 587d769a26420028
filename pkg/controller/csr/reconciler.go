// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// reconsiderInterval is how often a request that is refused is decided again
// without an instance having changed: Machines, Nodes and DNS change, too.
const reconsiderInterval = time.Minute

// patience is how old a request must be before its refusal is reported. A node that just
// joined requests its certificate before its instance knows of its Node, and where others
// approve requests too, they need a moment.
const patience = 10 * time.Second

// reasonNodeNameUnknown is the reason of a refusal besides those of package policy, which
// compares requests with instances. This one is about which instance it is: see
// [identity.Host.Disputed].
const reasonNodeNameUnknown policy.Reason = "NodeNameUnknown"

// Reconciler has requests decided about and approved. See the comment of the package.
type Reconciler struct {
	Options
	hosts

	clock clock.PassiveClock
	// decisions counts decisions, each request once for each of them.
	decisions *prometheus.CounterVec

	mu sync.Mutex // guards told
	// told is what was last told about a request, by its name.
	told map[string]told
}

// told is why a request was refused.
type told struct {
	uid     types.UID
	message string
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

func newReconciler(c client.Client, o Options) *Reconciler {
	return &Reconciler{
		Options: o, hosts: newHosts(c, o.Namespace), clock: clock.RealClock{}, told: map[string]told{}, decisions: newDecisions(o.Registerer),
	}
}

// newDecisions returns the metric of the controller, registered. Each counter that there may be is there: one that begins with 1 has increased by
// nothing, as far as Prometheus knows.
func newDecisions(registerer prometheus.Registerer) *prometheus.CounterVec {
	decisions := promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "windows_instance_certificate_requests_total",
		Help: "Certificate signing requests of hosts, by kind (KubeletClient, KubeletServing), by what was decided (Approve; Refuse, which leaves them pending) and why.",
	}, []string{"kind", "decision", "reason"})
	for _, kind := range policy.Kinds {
		decisions.WithLabelValues(string(kind), string(policy.Approve), string(policy.ReasonApproved))
		for _, reason := range append(slices.Clone(policy.Refusals), reasonNodeNameUnknown) {
			decisions.WithLabelValues(string(kind), string(policy.Refuse), string(reason))
		}
	}
	return decisions
}

// count counts a decision.
func (r *Reconciler) count(d policy.Decision) {
	r.decisions.WithLabelValues(string(d.Kind), string(d.Verdict), string(d.Reason)).Inc()
}

// Reconcile decides about a request.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request, err := object.Get(ctx, r.client, req.NamespacedName, &certificatesv1.CertificateSigningRequest{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if request == nil || !isPending(request) {
		r.forget(req.Name)
		return reconcile.Result{}, nil
	}
	decision, hosts, err := r.decide(ctx, request)
	if errors.Is(err, identity.ErrLookingUp) {
		return reconcile.Result{RequeueAfter: identity.RetryLookup}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	switch decision.Verdict {
	case policy.Approve:
		return reconcile.Result{}, r.approve(ctx, request, decision, hosts)
	case policy.Refuse:
		return r.refuse(ctx, request, decision, hosts), nil
	case policy.Ignore:
		r.forget(req.Name)
	}
	return reconcile.Result{}, nil
}

// concerns says whether the signer of a request is one that kubelets have.
func concerns(request *certificatesv1.CertificateSigningRequest) bool {
	return request.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName ||
		request.Spec.SignerName == certificatesv1.KubeletServingSignerName
}

// decide decides about a request, and returns the hosts that it may be of.
func (r *Reconciler) decide(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (policy.Decision, []*identity.Host, error) {
	// Which node it is about can be told without hosts. Most requests of a cluster are
	// not about hosts of ours, and these end here or after one pass over the instances.
	decision := policy.Decide(request, nil)
	if decision.Reason != policy.ReasonNotOurs {
		return decision, nil, nil
	}
	hosts, err := r.named(ctx, decision.NodeName, nil)
	if err != nil || len(hosts) == 0 {
		return decision, nil, err
	}
	instances := make([]policy.Instance, len(hosts))
	for i, h := range hosts {
		instances[i] = h.Instance
	}
	decision = policy.Decide(request, instances)
	switch {
	case decision.Reason == policy.ReasonNotOurs:
		// named returns those whose Node is disputed, too.
		decision.Verdict, decision.Reason = policy.Refuse, reasonNodeNameUnknown
		decision.Message = fmt.Sprintf("only the addresses that node %s itself reports connect it to this host: "+
			"the host does not call itself so, and DNS has no such name with the address of the host", decision.NodeName)
	case decision.Reason == policy.ReasonAmbiguous && !sameNamespace(concerned(decision, hosts)):
		// Those who see the event may not see instances of other namespaces.
		decision.Message = ambiguousMessage(decision.NodeName)
	}
	return decision, hosts, r.explainCloud(ctx, request.Name, &decision)
}

// approve approves a request, unless it is not any more what was decided about.
func (r *Reconciler) approve(ctx context.Context, request *certificatesv1.CertificateSigningRequest, d policy.Decision, hosts []*identity.Host) error {
	i := slices.IndexFunc(hosts, func(h *identity.Host) bool { return h.ID == d.Instance })
	message, err := approvalMessage(request, d, hosts[i])
	if err != nil {
		return err
	}
	approved := request.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: string(d.Reason), Message: message, LastUpdateTime: metav1.NewTime(r.clock.Now()),
	})
	_, err = r.Kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name, approved, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Somebody else approved, denied or deleted it, or we did and the cache does not
		// know yet. Its change brings it here again.
		log.FromContext(ctx).V(2).Info("The CSR changed while it was decided about")
		return nil
	case err != nil:
		return fmt.Errorf("approving the CSR: %w", err)
	}
	r.count(d)
	log.FromContext(ctx).Info("CSR approved", "instance", d.Instance, "node", d.NodeName, "kind", d.Kind, "requester", request.Spec.Username)
	return nil
}

// refuse says once why a request is not approved, and when to decide again.
func (r *Reconciler) refuse(ctx context.Context, request *certificatesv1.CertificateSigningRequest, d policy.Decision, hosts []*identity.Host) reconcile.Result {
	if rest := patience - r.clock.Since(request.CreationTimestamp.Time); rest > 0 {
		return reconcile.Result{RequeueAfter: rest}
	}
	refusal := refusalMessage(request, d)
	if r.isNew(request, refusal) {
		r.count(d)
		log.FromContext(ctx).Info("CSR refused, it stays pending", "reason", d.Reason, "cause", d.Message, "node", d.NodeName, "kind", d.Kind, "requester", request.Spec.Username)
		for _, h := range concerned(d, hosts) {
			r.Recorder.Event(h.Object, corev1.EventTypeWarning, string(d.Reason), message.EventNote(refusal))
		}
	}
	return reconcile.Result{RequeueAfter: reconsiderInterval}
}

// isNew notes what is told about a request, and says whether that was not told before.
func (r *Reconciler) isNew(request *certificatesv1.CertificateSigningRequest, message string) bool {
	now := told{request.UID, message}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told[request.Name] == now {
		return false
	}
	r.told[request.Name] = now
	return true
}

// forget drops what was told about a request that is decided or gone.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, name)
}

// concerned returns the hosts that a refusal is about: the one that the request was
// compared with, or those among which there is none to compare it with.
func concerned(d policy.Decision, hosts []*identity.Host) []*identity.Host {
	var out []*identity.Host
	for _, h := range hosts {
		if h.ID == d.Instance || d.Instance == "" && (h.IsNamed(d.NodeName) || d.Reason == reasonNodeNameUnknown) {
			out = append(out, h)
		}
	}
	return out
}

func sameNamespace(hosts []*identity.Host) bool {
	return !slices.ContainsFunc(hosts, func(h *identity.Host) bool { return h.Object.Namespace != hosts[0].Object.Namespace })
}
