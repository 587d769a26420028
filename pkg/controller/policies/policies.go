// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package policies finds out whether the ValidatingAdmissionPolicies that confine windows-controller are
// in force: where they are gone, or an older kube-apiserver has never taken them, the account may do
// all that RBAC lets it. What they must refuse is requested with the account itself, as a dry run, so
// that nothing happens either way. It needs no right but those that the policies confine.
package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// interval is between two tries.
	interval = 5 * time.Minute
	// secondTry is how long after a try that was not refused the next one is: kube-apiserver enforces a
	// policy some seconds after it was created, for example at the installation.
	secondTry = 20 * time.Second
	// patience is how long a try may take.
	patience = 30 * time.Second

	eventNotEnforced = "PolicyNotEnforced"
)

// Options of [SetupWithManager].
type Options struct {
	// Kube makes the requests, with the account that is confined. Required.
	Kube kubernetes.Interface
	// Namespace is that of the operator; the event is about it. Required.
	Namespace string
	// Recorder takes the event. Required.
	Recorder record.EventRecorder
	// Registerer takes the metric. Required.
	Registerer prometheus.Registerer
}

// SetupWithManager tries the policies as long as the manager leads.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := mgr.Add(newChecker(mgr.GetClient(), o)); err != nil {
		return fmt.Errorf("adding what tries the policies: %w", err)
	}
	return nil
}

// errNothingToTry says that the cluster has no object on which a policy can be tried.
var errNothingToTry = errors.New("the cluster has nothing to try it on")

// policy is one of artifacts/rbac/policies.yaml.
type policy struct {
	name string
	// confines says what the account may do without it.
	confines string
	// try requests what the policy must refuse.
	try func(context.Context) error
	// passed: the last try was not refused.
	passed bool
	// told: that it is not enforced.
	told bool
}

type checker struct {
	Options
	nodes    client.Reader
	enforced *prometheus.GaugeVec
	policies []*policy
}

func newChecker(nodes client.Reader, o Options) *checker {
	c := &checker{Options: o, nodes: nodes}
	c.enforced = promauto.With(o.Registerer).NewGaugeVec(prometheus.GaugeOpts{
		Name: "windows_controller_policy_enforced",
		Help: "1 if kube-apiserver refuses what the policy must refuse, 0 if it does not. Missing as long as that is not known.",
	}, []string{"policy"})
	c.policies = []*policy{
		{name: "windows-controller-nodes", confines: "change and delete any Node", try: c.patchNode},
		{name: "windows-controller-revisions", confines: "change what the pods of any StatefulSet are made from", try: c.createRevision},
		{name: "windows-controller-secrets", confines: "make Secrets with the token of any account of its namespace", try: c.createSecret},
	}
	return c
}

// Start implements manager.Runnable.
func (c *checker) Start(ctx context.Context) error {
	var tries sync.WaitGroup
	for _, p := range c.policies { // each by itself: one that there is nothing to try on is tried again soon
		tries.Go(func() { c.follow(ctx, p) })
	}
	tries.Wait()
	return nil
}

// follow tries a policy again and again, until ctx is done.
func (c *checker) follow(ctx context.Context, p *policy) {
	for {
		next := interval
		if !c.check(ctx, p) {
			next = secondTry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// check tries a policy and tells what has changed. It returns false if that is to be tried again soon.
func (c *checker) check(ctx context.Context, p *policy) bool {
	logger := log.FromContext(ctx).WithName("policies").WithValues("policy", p.name)
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch err := p.try(bounded); {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), p.name): // and not another policy, or a quota
		if p.told {
			logger.Info("The policy is enforced again")
		}
		p.passed, p.told = false, false
		c.enforced.WithLabelValues(p.name).Set(1)
	case err != nil:
		logger.V(1).Info("Whether the policy is enforced is not known", "cause", err.Error())
		if !p.told {
			c.enforced.DeleteLabelValues(p.name)
		}
		return !errors.Is(err, errNothingToTry) // which may come
	case !p.passed:
		p.passed = true
		return false
	case !p.told:
		p.told = true
		c.enforced.WithLabelValues(p.name).Set(0)
		message := fmt.Sprintf("ValidatingAdmissionPolicy %s does not refuse what it must: the account of windows-controller may %s. "+
			"Apply artifacts/rbac again; it needs Kubernetes 1.30 or newer.", p.name, p.confines)
		logger.Error(nil, message)
		c.Recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: c.Namespace, Name: c.Namespace}, corev1.EventTypeWarning, eventNotEnforced, message)
	}
	return true
}

var dryRun = []string{metav1.DryRunAll}

// patchNode requests a change, which changes nothing, of a Node that does not run Windows.
func (c *checker) patchNode(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := c.nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		if nodes.Items[i].Status.NodeInfo.OperatingSystem != "windows" {
			_, err := c.Kube.CoreV1().Nodes().Patch(ctx, nodes.Items[i].Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{DryRun: dryRun})
			return err
		}
	}
	return errNothingToTry
}

// nameOfTries is the name of objects that are only tried to be made.
const nameOfTries = "windows-policy-check"

// createRevision requests a ControllerRevision of no pool.
func (c *checker) createRevision(ctx context.Context) error {
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: nameOfTries}, Revision: 1, Data: runtime.RawExtension{Raw: []byte("{}")}}
	_, err := c.Kube.AppsV1().ControllerRevisions(c.Namespace).Create(ctx, revision, metav1.CreateOptions{DryRun: dryRun})
	return err
}

// createSecret requests a Secret of another type than those that the controller makes.
func (c *checker) createSecret(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: nameOfTries}, Type: "windows.openshift.io/policy-check"}
	_, err := c.Kube.CoreV1().Secrets(c.Namespace).Create(ctx, secret, metav1.CreateOptions{DryRun: dryRun})
	return err
}
