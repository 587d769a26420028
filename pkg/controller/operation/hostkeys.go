// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// recordedAddresses are those of a host for which WMCO may have a host key on record.
type recordedAddresses struct {
	// found are those at which the host was logged in to.
	found []string
	// used are the others by which WMCO goes to the host. The host that is there may be another one: it has to prove that it is not. A
	// host that does not, or is off, keeps nothing from going on.
	used []string
}

func (a recordedAddresses) all() []string { return slices.Concat(a.found, a.used) }

// correctHostKeys changes the host keys that WMCO has on record for addresses of a host: to the key that prove has the host prove, or to none if
// that is zero. With one that is stale WMCO would refuse the host, and each other one that gets the address. A key of another type may be
// right, as a host has several. It returns what it did, or what keeps it from that, as the end of a message.
func (e *execution) correctHostKeys(ctx context.Context, addresses recordedAddresses, prove func() (host.Key, error)) (note string, err error) {
	var has host.Key
	var changed, left []string
	var unproven error
	elsewhere := map[string]provenAt{} // each is asked once
	err = retryAPI(ctx, e.clock, "Correcting the host keys of the Windows Machine Config Operator", isFinal, func() error {
		list, err := e.Kube.CoreV1().ConfigMaps(wmco.Namespace).Get(ctx, wmco.HostKeysConfigMap, metav1.GetOptions{})
		if err != nil {
			return err
		}
		recorded := func(address string) bool { _, is := list.Data[address]; return is }
		if slices.ContainsFunc(addresses.found, recorded) {
			if has, unproven = prove(); unproven != nil {
				return finalError{unproven}
			}
		}
		data := staleHostKeys(list, addresses.found, has)
		left = nil
		for _, address := range addresses.used {
			if !recorded(address) || !has.IsZero() && len(staleHostKeys(list, []string{address}, has)) == 0 {
				continue
			}
			there, asked := elsewhere[address]
			if !asked {
				there = e.proveAt(ctx, address)
				elsewhere[address] = there
			}
			if there.key.IsZero() {
				left = append(left, fmt.Sprintf("%s (%s)", address, there.reason))
				continue
			}
			if has.IsZero() {
				has = there.key
			}
			maps.Copy(data, staleHostKeys(list, []string{address}, there.key))
		}
		if changed = slices.Sorted(maps.Keys(data)); len(changed) == 0 {
			return nil
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": list.ResourceVersion}, "data": data})
		if err != nil {
			return err
		}
		_, err = e.Kube.CoreV1().ConfigMaps(wmco.Namespace).Patch(ctx, list.Name, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case unproven != nil:
		return "", unproven
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return notCorrected(err), nil
	case len(changed) > 0 && has.IsZero():
		note = fmt.Sprintf(" Removed from ConfigMap %s/%s: %s.", wmco.Namespace, wmco.HostKeysConfigMap, words.Enumerate(changed, maxNamed))
	case len(changed) > 0:
		note = fmt.Sprintf(" ConfigMap %s/%s has the host key that the host has proved to have: %s.", wmco.Namespace, wmco.HostKeysConfigMap, words.Enumerate(changed, maxNamed))
	}
	if len(left) > 0 {
		note += fmt.Sprintf(" ConfigMap %s/%s has host keys for addresses at which the host has not proved its identity: %s. If the host is there, and has another key, the Windows Machine Config Operator refuses it: remove these entries then: oc edit configmap %[2]s -n %[1]s",
			wmco.Namespace, wmco.HostKeysConfigMap, words.Enumerate(left, maxNamed))
	}
	return note, nil
}

// notCorrected says that the keys were not corrected, as the end of a message.
func notCorrected(err error) string {
	return fmt.Sprintf(" ConfigMap %s/%s may have a former host key of the host, for which the Windows Machine Config Operator refuses it: %v. Remove the entries of its addresses: oc edit configmap %[2]s -n %[1]s",
		wmco.Namespace, wmco.HostKeysConfigMap, err)
}

// provenAt is the host key that a host has proved to have at another address than that of its instance. The zero key: it has not, for
// a reason as conditions have it.
type provenAt struct {
	key    host.Key
	reason string
}

// proveAt has the host prove at an address that it is there, to WMCO's key. Another host that is there is not logged in to, as
// it has another host key.
func (e *execution) proveAt(ctx context.Context, address string) provenAt {
	there := e.instance.DeepCopy()
	there.Spec.Address = address
	peer, err := ask(ctx, e.clock, e.clock.Now(), askTimeout, func(ctx context.Context) (*host.Peer, error) {
		return e.Hosts.LoginBare(ctx, there, keySecret)
	})
	switch {
	case err != nil:
		return provenAt{reason: diagnose.Diagnose(diagnose.StageLogin, err, there).Reason}
	case peer == nil:
		return provenAt{reason: v1alpha1.ReasonCredentialsRefused}
	}
	return provenAt{key: peer.Key}
}

// staleHostKeys are the changes of the ConfigMap of WMCO for addresses whose host has that key; zero: there is no host.
func staleHostKeys(list *corev1.ConfigMap, addresses []string, has host.Key) map[string]any {
	changes := map[string]any{}
	for _, address := range addresses {
		switch recorded, ok := list.Data[address]; {
		case !ok:
		case has.IsZero():
			changes[address] = nil
		case recorded != has.Base64() && (keyType(recorded) == "" || keyType(recorded) == has.Type()):
			changes[address] = has.Base64()
		}
	}
	return changes
}

// keyType is the type of a key in base64. Empty: it is no key.
func keyType(text string) string {
	key, err := hostkey.ParseBase64(strings.TrimSpace(text))
	if err != nil {
		return ""
	}
	return key.Type()
}

// correctHostKeysFor is correctHostKeys for all addresses by which WMCO goes to the host of a Node that is released, whose entry is that. The Machine
// is read for no more than a note: the host is released by then.
func (e *execution) correctHostKeysFor(ctx context.Context, node *corev1.Node, entry string, prove func() (host.Key, error)) (note string, err error) {
	addresses, unread := e.usedByWMCO(ctx, node, entry)
	if note, err = e.correctHostKeys(ctx, addresses, prove); err == nil && unread != nil {
		note += notCorrected(unread)
	}
	return note, err
}

// metByWMCO are the addresses by which WMCO may have met the host of an instance: those at which it was logged in to. WMCO goes to port 22
// itself, so that behind a bastion or at another port an address may be that of a host of WMCO; and a Node has whatever
// addresses its kubelet writes.
func metByWMCO(i *v1alpha1.WindowsInstance) []string {
	if !dialedByWMCO(i) {
		return nil
	}
	return i.Status.FoundAt()
}

// dialedByWMCO says whether WMCO comes to the host of an instance where it dials its addresses.
func dialedByWMCO(i *v1alpha1.WindowsInstance) bool {
	return i.Status.Bastion == "" && i.Spec.Port == v1alpha1.DefaultPort
}

// usedByWMCO are the addresses by which WMCO goes to the host of an instance that is released: besides those at which it was found that of its
// entry, or of its Machine, and that of its Node, by which it does what concerns all its hosts. With an error that of the Machine is missing.
func (e *execution) usedByWMCO(ctx context.Context, node *corev1.Node, entry string) (addresses recordedAddresses, err error) {
	if !dialedByWMCO(e.instance) {
		return addresses, nil
	}
	addresses.found = metByWMCO(e.instance)
	candidates := []string{entry, wmco.NodeAddress(node.Status.Addresses)}
	if machine := origin.Machine(e.instance); machine != nil {
		var address string
		address, err = e.MachineAddress(ctx, types.NamespacedName{Namespace: e.instance.Namespace, Name: machine.Name})
		candidates = append(candidates, address)
	}
	for _, address := range candidates {
		if address != "" && !slices.Contains(addresses.all(), address) {
			addresses.used = append(addresses.used, address)
		}
	}
	return addresses, err
}
