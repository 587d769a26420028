// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxMet bounds how many keys a message names: whoever has accounts of hosts says how many Nodes have an address.
const maxMet = 3

// metKey is a host key that WMCO has on record for an address.
type metKey struct {
	key host.Key
	// where it has it, for people.
	where string
}

// unlikeWMCOError means that a host whose key nobody trusts yet does not have one that WMCO has met it with.
type unlikeWMCOError struct {
	presented host.Key
	met       []metKey
}

func (e *unlikeWMCOError) Error() string {
	return fmt.Sprintf("the host presents %s and was met with %s", e.presented.Describe(), e.known())
}

// known says with which keys WMCO has met the host, and where it has them.
func (e *unlikeWMCOError) known() string {
	parts := make([]string, len(e.met))
	for i, m := range e.met {
		parts[i] = fmt.Sprintf("%s (%s)", m.key.Describe(), m.where)
	}
	return words.Enumerate(parts, maxMet)
}

// compareWithWMCO reads the key that the host presents, and fails if the host does not have one that WMCO has met it with. It is asked for
// each type of these by itself: a host has keys of several types, of which WMCO's client prefers another one than ours. That is a
// check, and nothing is trusted for it: accounts of hosts may write what their Nodes have.
func (a *attempt) compareWithWMCO(ctx context.Context, met []metKey) error {
	if len(met) == 0 {
		return a.askHostKey(ctx, a.instance)
	}
	for len(met) > 0 {
		var same, others []metKey
		for _, m := range met {
			if m.key.Type() == met[0].key.Type() {
				same = append(same, m)
			} else {
				others = append(others, m)
			}
		}
		as := a.instance.DeepCopy()
		as.Status.HostKeys = recordKeys(nil, []host.Key{same[0].key}, v1alpha1.TrustedOnFirstUse, metav1.Time{})
		if err := a.askHostKey(ctx, as); err != nil {
			return err
		}
		presented := a.seen.presented
		if differ := slices.DeleteFunc(same, func(m metKey) bool { return m.key == presented }); len(differ) > 0 {
			return &unlikeWMCOError{presented: presented, met: differ}
		}
		met = others
	}
	return nil
}

// metByWMCO returns the host keys that WMCO has on record for the addresses of the host. Those that cannot be read, or that no host
// presents to us, count for nothing. WMCO goes to port 22 itself: behind a bastion, or at another port, the address may be that of another host.
func (a *attempt) metByWMCO(ctx context.Context) ([]metKey, error) {
	if identity.Through(a.instance) != "" || a.instance.Spec.Port != v1alpha1.DefaultPort {
		return nil, nil
	}
	// WMCO knows a host by the address in its ConfigMap as it is written there, which may be a name.
	addresses := slices.Clone(a.seen.addresses)
	if !slices.Contains(addresses, a.instance.Spec.Address) {
		addresses = append(addresses, a.instance.Spec.Address)
	}
	list, err := a.keysMetByWMCO(ctx)
	if err != nil {
		return nil, err
	}
	var met []metKey
	add := func(text, where string) {
		key, err := host.ParsePresentable(strings.TrimSpace(text))
		if err == nil && !slices.ContainsFunc(met, func(m metKey) bool { return m.where == where }) {
			met = append(met, metKey{key, where})
		}
	}
	for _, address := range addresses {
		add(list[address], fmt.Sprintf("entry %s of ConfigMap %s/%s", address, wmco.Namespace, wmco.HostKeysConfigMap))
		nodes, err := identity.Nodes{Reader: a.client, Namespace: a.Namespace}.At(ctx, a.instance, address)
		if err != nil {
			return nil, err
		}
		for i := range nodes {
			if node := &nodes[i]; a.mayBeIts(node) {
				add(node.Annotations[takeover.HostKeyAnnotation], fmt.Sprintf("annotation %s of Node %s", takeover.HostKeyAnnotation, node.Name))
			}
		}
	}
	return met, nil
}

// sayUncompared records that the key of a host is trusted without having been compared with what WMCO has on record.
func (a *attempt) sayUncompared() {
	a.Recorder.Event(a.instance, corev1.EventTypeWarning, eventHostKeyNotCompared, fmt.Sprintf("The host key was not compared with those that the Windows Machine Config Operator has on record, because windows-controller may not read ConfigMap %s/%s. "+
		"Verify the fingerprint on the console of the host, and let it read that for the next ones: kubectl apply -k artifacts/openshift", wmco.Namespace, wmco.HostKeysConfigMap))
}

// mayBeIts says whether a Node that reports an address of the host may be its Node. One of another machine of the provider is not: the
// address may have been given to this one since.
func (a *attempt) mayBeIts(node *corev1.Node) bool {
	system := node.Status.NodeInfo.OperatingSystem
	return (system == "" || system == string(corev1.Windows)) && !v1alpha1.OtherProviderID(node.Spec.ProviderID, a.instance.Spec.ProviderID)
}

// keysMetByWMCO are the host keys in the ConfigMap of WMCO, by address. It is read at first contacts only, and by nobody else here, so
// that it is not kept.
func (a *attempt) keysMetByWMCO(ctx context.Context) (map[string]string, error) {
	list, err := object.Get(ctx, a.live, client.ObjectKey{Namespace: wmco.Namespace, Name: wmco.HostKeysConfigMap}, &corev1.ConfigMap{})
	switch {
	case apierrors.IsForbidden(err):
		a.uncompared = true
		return nil, nil //nolint:nilnil // whoever has taken that right away wants it so
	case err != nil:
		return nil, fmt.Errorf("the host keys that the Windows Machine Config Operator has on record cannot be read at present: %w", err)
	case list == nil:
		return nil, nil //nolint:nilnil // WMCO has met nobody
	}
	return list.Data, nil
}
