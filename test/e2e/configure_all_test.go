// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// removeAll deletes all instances of a pool that people made, of which one was removed lately. Their
// hosts stay until somebody confirms it with the command that the conditions have, and go then.
func removeAll(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-all")
	if _, err := s.Windows.WindowsV1alpha1().WindowsNodePools(namespace).Create(t.Context(), &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "pool"},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var hosts []*siteHost
	for i := range 3 {
		h := s.newHost(t, namespace, fmt.Sprintf("cfg-all%d", i), winhost.Options{})
		h.declare(t, func(spec *v1alpha1.WindowsInstanceSpec) { spec.PoolRef = &v1alpha1.PoolReference{Name: "pool"} })
		hosts = append(hosts, h)
	}
	for _, h := range hosts {
		h.waitReady(t)
	}
	// One goes at once, so that it does not depend on who is quicker whether another one may.
	hosts[0].remove(t)
	hosts[0].waitGone(t)
	hosts = hosts[1:]
	if _, err := s.Kubectl(t.Context(), "delete", "wi", "--all", "--wait=false", "--namespace="+namespace); err != nil {
		t.Fatal(err)
	}
	asks := func(h *siteHost) string {
		t.Helper()
		i := h.wait(t, "it is asked whether both are to be removed", func(i *v1alpha1.WindowsInstance) error {
			c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionRemoved)
			if c == nil || c.Reason != v1alpha1.ReasonConfirmationNeeded {
				return errors.New(describeConditions(i))
			}
			if !strings.Contains(c.Message, "all 2 hosts") {
				return errors.New(c.Message)
			}
			return nil
		})
		return messageOf(t, i, v1alpha1.ConditionRemoved)
	}
	calm := undisturbed(t, hosts[0].subject(), hosts[1].subject())
	for _, h := range hosts {
		asks(h)
	}

	// What confirms something else disappears, and nothing else happens.
	runAsShown(t, s.System, fmt.Sprintf("kubectl annotate wnp pool -n %s %s=true --overwrite", namespace, v1alpha1.ConfirmRemovalAnnotation))
	eventually(t, "the confirmation is taken off", func() error {
		pool, err := s.Windows.WindowsV1alpha1().WindowsNodePools(namespace).Get(t.Context(), "pool", metav1.GetOptions{})
		if err == nil && pool.Annotations[v1alpha1.ConfirmRemovalAnnotation] != "" {
			err = errors.New("it is still there")
		}
		return err
	})
	command := commandIn(t, asks(hosts[1]))
	calm.mustHold(t)
	runAsShown(t, s.System, command)
	for _, h := range hosts {
		h.waitGone(t)
		h.mustBeClean(t)
	}
}
