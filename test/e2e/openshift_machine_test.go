// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/test/openshift"
)

// askAsBootstrapper requests the client certificate of a node as new Linux nodes do, and returns the name of the request.
func (o *openShiftSite) askAsBootstrapper(t *testing.T, nodeName string) string {
	t.Helper()
	config, err := o.UserConfig(openshift.Bootstrapper, "system:serviceaccounts", "system:serviceaccounts:"+openshift.MachineConfigNamespace)
	if err != nil {
		t.Fatal(err)
	}
	bootstrapper, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return askForCertificate(t, bootstrapper, nodeName)
}

// rotateToken has an administrator rotate the token of the node-bootstrapper: the Secret is deleted, and there is another one.
func (o *openShiftSite) rotateToken(t *testing.T) {
	t.Helper()
	secrets := o.Kube.CoreV1().Secrets(openshift.MachineConfigNamespace)
	before, err := secrets.Get(t.Context(), openshift.BootstrapperToken, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is another token", func() error {
		now, err := secrets.Get(t.Context(), before.Name, metav1.GetOptions{})
		if err == nil && (now.UID == before.UID || len(now.Data[corev1.ServiceAccountTokenKey]) == 0) {
			err = errors.New("there is none")
		}
		return err
	})
}

// mustAgree fails the test if two approvers have contradicted each other about the certificates of a node, or one of the
// requests that neither of them may approve is anything but pending.
func (o *openShiftSite) mustAgree(t *testing.T, nodeName string, pending ...string) {
	t.Helper()
	eventually(t, "all requests are decided", func() error {
		requests, err := o.Kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		serving := 0
		for i := range requests.Items {
			r := &requests.Items[i]
			for _, c := range r.Status.Conditions {
				if c.Type != certificatesv1.CertificateApproved {
					t.Fatalf("%s of %s is %s: %s", r.Name, r.Spec.Username, c.Type, c.Message)
				}
			}
			if !strings.HasSuffix(r.Spec.Username, ":"+nodeName) {
				continue
			}
			if r.Spec.SignerName == certificatesv1.KubeletServingSignerName {
				serving++
			}
			if len(r.Status.Certificate) == 0 {
				return fmt.Errorf("%s for %s has conditions %+v", r.Name, r.Spec.SignerName, r.Status.Conditions)
			}
		}
		if serving == 0 {
			return errors.New("the kubelet has not asked for a certificate to serve with")
		}
		return nil
	})
	for _, name := range pending {
		r, err := o.Kube.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Status.Conditions) > 0 {
			t.Errorf("the request of %s has conditions %+v", r.Spec.Username, r.Status.Conditions)
		}
	}
}

// waitRunning waits until the Machine API knows that the Machine has its Node.
func (o *openShiftSite) waitRunning(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, "the Machine runs", func() error {
		machine := &machinev1beta1.Machine{}
		if err := o.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, machine); err != nil {
			return err
		}
		if ref := machine.Status.NodeRef; ptr.Deref(machine.Status.Phase, "") != machinev1beta1.PhaseRunning || ref == nil || ref.Name != name {
			return fmt.Errorf("it is %s with Node %+v", ptr.Deref(machine.Status.Phase, ""), ref)
		}
		return nil
	})
}

// deleteMachine deletes the Machine of a host, whose pods somebody keeps at first, and its virtual machine until the host is clean.
func (o *openShiftSite) deleteMachine(t *testing.T, h *siteHost, namespace string) {
	t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: h.name}
	keep := []machinev1beta1.LifecycleHook{{Name: "keep", Owner: "e2e"}}
	hook := func(preDrain, preTerminate []machinev1beta1.LifecycleHook) {
		t.Helper()
		eventually(t, "the hooks of the Machine are changed", func() error { // others write it, too
			machine := &machinev1beta1.Machine{}
			if err := o.client.Get(t.Context(), key, machine); err != nil {
				return err
			}
			machine.Spec.LifecycleHooks = machinev1beta1.LifecycleHooks{PreDrain: preDrain, PreTerminate: preTerminate}
			return o.client.Update(t.Context(), machine)
		})
	}
	hook(keep, keep)
	if err := o.client.Delete(t.Context(), &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: h.name}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Machine is being deleted", func() error {
		machine := &machinev1beta1.Machine{}
		if err := o.client.Get(t.Context(), key, machine); err != nil {
			return err
		}
		if phase := ptr.Deref(machine.Status.Phase, ""); phase != machinev1beta1.PhaseDeleting {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	if i := h.get(t); !i.DeletionTimestamp.IsZero() || h.node(t, h.name).Spec.Unschedulable {
		t.Errorf("the Machine must not be drained yet, and its host is removed: %s", describeConditions(i))
	}
	hook(nil, keep)
	h.waitGone(t)
	h.mustBeClean(t)
	if err := o.client.Get(t.Context(), key, &machinev1beta1.Machine{}); err != nil {
		t.Errorf("the virtual machine is kept, and the Machine is not: %v", err)
	}
	hook(nil, nil)
	eventually(t, "the Machine goes", func() error {
		return mustBeGone(o.client.Get(t.Context(), key, &machinev1beta1.Machine{}))
	})
}
