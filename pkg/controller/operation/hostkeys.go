// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// correctHostKeys changes the host keys that WMCO has on record for addresses of a host: to the key that prove has the host prove, or to none if
// that is zero. With one that is stale WMCO would refuse the host, and each other one that gets the address. A key of another type may be
// right, as a host has several. It returns what it did, or what keeps it from that, as the end of a message.
func (e *execution) correctHostKeys(ctx context.Context, addresses []string, prove func() (host.Key, error)) (note string, err error) {
	var has host.Key
	var changed []string
	var unproven error
	err = retryAPI(ctx, e.clock, "Correcting the host keys of the Windows Machine Config Operator", isFinal, func() error {
		list, err := e.Kube.CoreV1().ConfigMaps(wmco.Namespace).Get(ctx, wmco.HostKeysConfigMap, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(addresses, func(address string) bool { _, recorded := list.Data[address]; return recorded }) {
			return nil
		}
		if has, unproven = prove(); unproven != nil {
			return finalError{unproven}
		}
		data := staleHostKeys(list, addresses, has)
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
	case apierrors.IsNotFound(err), err == nil && len(changed) == 0:
		return "", nil
	case err != nil:
		return fmt.Sprintf(" ConfigMap %s/%s may have a former host key of the host, for which the Windows Machine Config Operator refuses it: %v. Remove the entries of its addresses: oc edit configmap %[2]s -n %[1]s",
			wmco.Namespace, wmco.HostKeysConfigMap, err), nil
	case has.IsZero():
		return fmt.Sprintf(" Removed from ConfigMap %s/%s: %s.", wmco.Namespace, wmco.HostKeysConfigMap, words.Enumerate(changed, maxNamed)), nil
	}
	return fmt.Sprintf(" ConfigMap %s/%s has the host key that the host has proved to have: %s.", wmco.Namespace, wmco.HostKeysConfigMap, words.Enumerate(changed, maxNamed)), nil
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

// keyType is the type of a key in base64, which begins with it. Empty: it is no key.
func keyType(text string) string {
	wire, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(wire) < 4 {
		return ""
	}
	n := binary.BigEndian.Uint32(wire)
	if uint64(n) > uint64(len(wire)-4) {
		return ""
	}
	name := string(wire[4 : 4+n])
	if _, err := host.ParseKey(name + " " + text); err != nil {
		return ""
	}
	return name
}

// metByWMCO are the addresses by which WMCO may have met the host of an instance: those at which it was logged in to. WMCO goes to port 22
// itself, so that behind a bastion or at another port an address may be that of a host of WMCO; and a Node has whatever
// addresses its kubelet writes.
func metByWMCO(i *v1alpha1.WindowsInstance) []string {
	if i.Status.Bastion != "" || i.Spec.Port != v1alpha1.DefaultPort {
		return nil
	}
	return i.Status.FoundAt()
}
