// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// What the network operator has applied is below a key of a ConfigMap in its namespace: see GetAppliedConfiguration of
// openshift/cluster-network-operator.
const (
	appliedNetworkName = "applied-cluster"
	appliedNetworkKey  = "applied"
)

// NetworkOperatorName is the ClusterOperator that says how the network operator is.
const NetworkOperatorName = "network"

// applyNetwork stands in for what the network operator does about the network: it keeps what it has applied, with the defaults of what an
// administrator has not set. An overlay can be added and removed; while it runs nothing of it can be changed. Then all stays as it was
// applied, and the ClusterOperator says so until the change is taken back.
func applyNetwork(ctx context.Context, c client.Client, network *operatorv1.Network) error {
	next := network.Spec.DeepCopy()
	if ovn := next.DefaultNetwork.OVNKubernetesConfig; ovn != nil {
		if ovn.MTU == nil {
			ovn.MTU = ptr.To[uint32](1400)
		}
		if ovn.GenevePort == nil {
			ovn.GenevePort = ptr.To[uint32](6081)
		}
	}
	applied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: NetworkOperatorNamespace, Name: appliedNetworkName}}
	switch err := c.Get(ctx, client.ObjectKeyFromObject(applied), applied); {
	case err == nil:
		var previous operatorv1.NetworkSpec
		if err := json.Unmarshal([]byte(applied.Data[appliedNetworkKey]), &previous); err != nil {
			return fmt.Errorf("reading what is applied: %w", err)
		}
		if was, will := runningOverlay(previous), runningOverlay(*next); was != nil && will != nil && !reflect.DeepEqual(was, will) {
			return sayDegraded(ctx, c, "cannot edit a running hybrid overlay network")
		}
	case !apierrors.IsNotFound(err):
		return err
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if _, err := controllerutil.CreateOrUpdate(ctx, c, applied, func() error {
		applied.Data = map[string]string{appliedNetworkKey: string(text)}
		return nil
	}); err != nil {
		return err
	}
	return sayDegraded(ctx, c, "")
}

// runningOverlay is the overlay of a configuration of the network. Nil: it has none.
func runningOverlay(spec operatorv1.NetworkSpec) *operatorv1.HybridOverlayConfig {
	if spec.DefaultNetwork.OVNKubernetesConfig == nil {
		return nil
	}
	return spec.DefaultNetwork.OVNKubernetesConfig.HybridOverlayConfig
}

// sayDegraded says in the ClusterOperator why the network operator does not do what an administrator has set. Empty: it does.
func sayDegraded(ctx context.Context, c client.Client, why string) error {
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: NetworkOperatorName}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(operator), operator); apierrors.IsNotFound(err) {
		err = c.Create(ctx, operator)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	condition := configv1.ClusterOperatorStatusCondition{Type: configv1.OperatorDegraded, Status: configv1.ConditionFalse}
	if why != "" {
		condition.Status, condition.Reason, condition.Message = configv1.ConditionTrue, "InvalidOperatorConfig", why
	}
	if old := operator.Status.Conditions; len(old) == 1 {
		condition.LastTransitionTime = old[0].LastTransitionTime
		if old[0] == condition {
			return nil
		}
	}
	condition.LastTransitionTime = metav1.Now()
	operator.Status.Conditions = []configv1.ClusterOperatorStatusCondition{condition}
	return c.Status().Update(ctx, operator)
}
