// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	if ended(deployment) {
		return nil
	}
	problem := "the Windows Machine Config Operator runs (" + what + "), which configures the same hosts"
	if deployment.Status.AvailableReplicas == 0 {
		problem += "; no pod of it is available at present, which these commands explain: " +
			fmt.Sprintf("oc describe deployment %s -n %s; oc get events -n %s", wmco.Deployment, wmco.Namespace, wmco.Namespace)
	}
	r.findings = append(r.findings, Finding{
		Problem: problem,
		Remedy: fmt.Sprintf("end it, which leaves its nodes as they are: delete its Subscription and ClusterServiceVersion but keep the namespace, or try this one first with: oc scale deployment %s -n %s --replicas=0",
			wmco.Deployment, wmco.Namespace),
		OtherOperator: true,
	})
	return nil
}

// ended says whether WMCO does not run, by its Deployment.
func ended(deployment *appsv1.Deployment) bool {
	replicas := deployment.Spec.Replicas
	return replicas != nil && *replicas == 0 && deployment.Status.Replicas == 0
}

// OtherOperatorEnded says whether it is known that WMCO does not run. What may not be read is not known.
func OtherOperatorEnded(ctx context.Context, reader client.Reader) (bool, error) {
	deployment := &appsv1.Deployment{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: wmco.Namespace, Name: wmco.Deployment}, deployment)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading Deployment %s/%s: %w", wmco.Namespace, wmco.Deployment, err)
	}
	return ended(deployment), nil
}

// What the Operator Lifecycle Manager (OLM) writes on Deployments that are its own. The names are from
// operator-framework/operator-lifecycle-manager, and the second from operator-framework/operator-controller, its successor.
const (
	olmOwnerLabel       = "olm.owner"
	olmOwnerKind        = "ClusterServiceVersion"
	extensionOwnerLabel = "olm.operatorframework.io/owner-name"
)

// EnsureNotComingBack returns an [InputError] if OLM has WMCO, which has no replicas: OLM starts it again, when it updates it at the
// latest, and then two operators would configure the hosts that were taken over. That there is no WMCO, or that it may not
// be read, is no error: what is read for hosts says so where it matters.
func EnsureNotComingBack(ctx context.Context, reader client.Reader) error {
	deployment := &appsv1.Deployment{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: wmco.Namespace, Name: wmco.Deployment}, deployment)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Deployment %s/%s: %w", wmco.Namespace, wmco.Deployment, err)
	}
	owner, remedy := deployment.Labels[extensionOwnerLabel], ""
	switch {
	case owner != "":
		remedy = "oc delete clusterextensions.olm.operatorframework.io " + owner
	default:
		if owner = olmOwner(deployment); owner == "" {
			return nil
		}
		remedy = fmt.Sprintf("oc get subscriptions.operators.coreos.com -n %[1]s; oc delete subscriptions.operators.coreos.com NAME -n %[1]s; oc delete clusterserviceversions.operators.coreos.com %[2]s -n %[1]s",
			wmco.Namespace, owner)
	}
	return &InputError{Findings: []Finding{{
		Problem: fmt.Sprintf("the Operator Lifecycle Manager has installed the Windows Machine Config Operator (Deployment %s/%s belongs to %s), and starts it again, when it updates it at the latest",
			wmco.Namespace, wmco.Deployment, owner),
		Remedy:        "keep the namespace, which has our programs and the keys, and take WMCO from it, which leaves the nodes as they are: " + remedy,
		OtherOperator: true,
	}}}
}

// olmOwner is the ClusterServiceVersion that a Deployment belongs to. Empty: none.
func olmOwner(deployment *appsv1.Deployment) string {
	i := slices.IndexFunc(deployment.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == olmOwnerKind })
	if i >= 0 {
		return deployment.OwnerReferences[i].Name
	}
	return deployment.Labels[olmOwnerLabel]
}
