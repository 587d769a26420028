// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package system

import (
	"context"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// CreateKnown creates an instance as it is when the controller has logged in to its host, which has
// this key, and was then paused: for systems without a controller.
func (s *System) CreateKnown(ctx context.Context, instance *v1alpha1.WindowsInstance, key ssh.PublicKey) error {
	instance = instance.DeepCopy()
	instance.Spec.HostKeys = []string{key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())}
	instance.Spec.Paused = true
	client := s.Windows.WindowsV1alpha1().WindowsInstances(instance.Namespace)
	created, err := client.Create(ctx, instance, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating instance %s: %w", instance.Name, err)
	}
	created.Status.HostKeys = []v1alpha1.HostKeyStatus{{
		Type: key.Type(), Key: base64.StdEncoding.EncodeToString(key.Marshal()), Fingerprint: ssh.FingerprintSHA256(key),
		FirstSeen: metav1.Now(), TrustedBy: v1alpha1.TrustedBySpec,
	}}
	created.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLoggedIn, LastTransitionTime: metav1.Now(),
		Message: "The host accepts the credentials.",
	}}
	if _, err := client.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("recording the login to the host of %s: %w", instance.Name, err)
	}
	return nil
}
