// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"context"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// requestTimeout bounds one request. Admission webhooks may take up to 30 seconds each.
const requestTimeout = 40 * time.Second

// evict asks a pod to leave once.
func (d *Drainer) evict(ctx context.Context, p *tracked, terminating bool, o Options) answer {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := d.ask(bounded, p, o)
	next, message := judge(err, terminating)
	if p.refusals.Passes(err, d.clock.Now()) { // also one that is terminating is asked again, and maybe goes sooner
		next, message = stageWaiting, words.Steady(err.Error())
	}
	if next == stageLeaving {
		return answer{pod: p, stage: next}
	}
	blocked := &v1alpha1.BlockedPod{Namespace: p.namespace, Name: p.name, Message: message}
	if len(budgetCauses(err)) > 0 { // else the API server, or something before it, asks for patience
		blocked.Budget = d.budget(bounded, p, err)
	}
	return answer{pod: p, stage: next, blocked: blocked}
}

// request asks the API server to let a pod go.
func (d *Drainer) request(ctx context.Context, p *tracked, o Options) error {
	// With the UID, another pod of the same name stays, wherever it is.
	options := metav1.DeleteOptions{GracePeriodSeconds: o.GracePeriodSeconds, Preconditions: metav1.NewUIDPreconditions(string(p.uid))}
	if o.DisableEviction {
		return d.client.CoreV1().Pods(p.namespace).Delete(ctx, p.name, options)
	}
	// The typed client would sleep for as long as the server's Retry-After says, and ask
	// again ten times, before it told anybody that a budget is in the way.
	return d.client.PolicyV1().RESTClient().Post().AbsPath("/api/v1").Namespace(p.namespace).Resource("pods").Name(p.name).SubResource("eviction").
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}, DeleteOptions: &options}).
		MaxRetries(0).Do(ctx).Error()
}

// budget names the budget behind a refusal, empty if that cannot be told.
func (d *Drainer) budget(ctx context.Context, p *tracked, err error) string {
	if name := budgetNamed(err); name != "" {
		return name
	}
	budgets, err := d.client.PolicyV1().PodDisruptionBudgets(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "" // the refusal itself has a message
	}
	return budgetOf(budgets.Items, labels.Set(p.labels))
}
