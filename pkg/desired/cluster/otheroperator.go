// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// checkOtherOperator finds that WMCO runs, which configures the same hosts: two of them would undo
// each other's work, and each restart what the other one has started. One without a pod may have one at any moment, so it counts,
// too; that it has none is said, because then nobody configures the hosts.
func (r *reader) checkOtherOperator(ctx context.Context) error {
	if !r.openShift {
		return nil
	}
	const what = "Deployment " + wmco.Namespace + "/" + wmco.Deployment
	deployment := &appsv1.Deployment{}
	before := len(r.findings)
	found, err := r.get(ctx, "Deployment", wmco.Namespace, wmco.Deployment, deployment)
	if !found {
		for i := range r.findings[before:] { // it may not be read
			r.findings[before+i].OtherOperator = true
		}
		return err
	}
	if replicas := deployment.Spec.Replicas; replicas != nil && *replicas == 0 && deployment.Status.Replicas == 0 {
		return nil
	}
	problem := "the Windows Machine Config Operator runs (" + what + "), which configures the same hosts"
	if deployment.Status.AvailableReplicas == 0 {
		problem += "; no pod of it is available at present, which these commands explain: " +
			fmt.Sprintf("oc describe deployment %s -n %s; oc get events -n %s", wmco.Deployment, wmco.Namespace, wmco.Namespace)
	}
	r.findings = append(r.findings, Finding{
		Problem: problem,
		Remedy: fmt.Sprintf("end it, which leaves its nodes as they are: delete its Subscription and ClusterServiceVersion, or try this one first with: oc scale deployment %s -n %s --replicas=0",
			wmco.Deployment, wmco.Namespace),
		OtherOperator: true,
	})
	return nil
}
