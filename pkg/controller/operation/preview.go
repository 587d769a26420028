// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// Preview asks hosts what their desired configuration would cost them. It is safe for concurrent use.
type Preview struct {
	// Hosts is the way to hosts, Configuration knows what is desired, and Kube reads Nodes. Required.
	Hosts         Hosts
	Configuration Configuration
	Kube          kubernetes.Interface
	// Labels is that of [Options]. Required.
	Labels func(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node) (map[string]string, error)
}

// Impact asks the host of an instance what it would cost its workload to be configured as is desired now, and
// says which revision that is. It changes nothing but that our agent is there.
func (p *Preview) Impact(ctx context.Context, instance *v1alpha1.WindowsInstance) (impact v1alpha1.ChangeImpact, revision string, err error) {
	if p.Configuration == nil {
		return "", "", errors.New("this controller has no payload to configure hosts with, see its flag --payload")
	}
	var node *corev1.Node
	if ref := instance.Status.Node; ref != nil {
		if node, err = p.Kube.CoreV1().Nodes().Get(ctx, ref.Name, metav1.GetOptions{}); err != nil {
			return "", "", fmt.Errorf("reading the Node: %w", err)
		}
	}
	built, err := p.Configuration.Build(ctx, instance, node, "")
	if err != nil {
		return "", "", fmt.Errorf("the desired configuration of the host cannot be determined: %w", err)
	}
	plan, err := p.Hosts.PlanConfiguration(ctx, instance, &built.Bundle)
	if err != nil {
		return "", "", fmt.Errorf("the host does not return a plan: %s", explain(diagnose.StagePlan, err, instance))
	}
	admitted := admission{}
	if restartsKubelet(plan) {
		if admitted, err = (admitter{p.Kube, p.Labels}).admission(ctx, instance, node, &built.Bundle.Document); err != nil {
			return "", "", err
		}
	}
	return admitted.cost(planImpact(plan)), built.Revision, nil
}
