// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/origin"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// ensureReachableForWMCO makes sure that WMCO gets to the host, which it dials itself, at port 22.
func (e *execution) ensureReachableForWMCO(ctx context.Context) error {
	if port := e.instance.Spec.Port; port != 0 && port != v1alpha1.DefaultPort {
		return fmt.Errorf("the Windows Machine Config Operator connects to port %d only, and spec.port is %d: have the SSH server of the host listen at port %[1]d as well, and set spec.port to it", v1alpha1.DefaultPort, port)
	}
	pool, err := e.pool(ctx)
	if err != nil {
		return fmt.Errorf("reading the pool: %w", err)
	}
	if bastion := e.instance.BastionWith(pool); bastion != nil {
		return fmt.Errorf("the Windows Machine Config Operator knows no bastions, and this host is reached through %s: have the network let the Windows Machine Config Operator connect to port %d of the host, and take the bastion out of the instance and its pool",
			bastion.Endpoint(), v1alpha1.DefaultPort)
	}
	return nil
}

// listedForWMCO returns the entry of the host in the ConfigMap of WMCO, empty if there is none, and fails where the host is no Machine either, or the
// entry is of no use to WMCO. Only what WMCO finds there, on a Node with its label, it takes on with a drain: a Node that gets an
// entry and not the label, has its containers killed, and one with the label and no entry is removed.
func (e *execution) listedForWMCO(ctx context.Context, node *corev1.Node) (entry string, err error) {
	var list *corev1.ConfigMap
	err = retryAPI(ctx, e.clock, "Reading the hosts of the Windows Machine Config Operator", isFinal, func() (err error) {
		list, err = e.Kube.CoreV1().ConfigMaps(wmco.Namespace).Get(ctx, wmco.InstancesConfigMap, metav1.GetOptions{})
		return err
	})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return "", fmt.Errorf("the hosts of the Windows Machine Config Operator are not known: reading ConfigMap %s/%s: %w", wmco.Namespace, wmco.InstancesConfigMap, err)
	}
	key, err := e.entryOf(ctx, node, list.Data)
	user := "username=" + e.instance.Spec.Username
	switch {
	case err != nil:
		return "", err
	case key == "" && origin.Machine(e.instance) != nil:
		return "", nil
	case key == "":
		key = cmp.Or(wmco.InternalIPv4(node.Status.Addresses), e.instance.Spec.Address)
		return "", fmt.Errorf("the Windows Machine Config Operator does not know the host, which is no Machine and has no entry in ConfigMap %s/%s: add one first: %s",
			wmco.Namespace, wmco.InstancesConfigMap, entryCommand(key, user, missing))
	case list.Data[key] != user: // all behind the first equals sign is the user, also further lines
		return "", fmt.Errorf("the Windows Machine Config Operator could not log in to the host by entry %s of ConfigMap %s/%s, which must be %s and nothing else: %s",
			key, wmco.Namespace, wmco.InstancesConfigMap, user, entryCommand(key, user, false))
	}
	return key, nil
}

// entryOf returns the entry of the ConfigMap of WMCO by which that finds a Node: with one of its addresses, or a name that stands for
// one. Empty: there is none.
func (e *execution) entryOf(ctx context.Context, node *corev1.Node, data map[string]string) (string, error) {
	has := func(address string) bool {
		return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == address })
	}
	keys := slices.Sorted(maps.Keys(data))
	if i := slices.IndexFunc(keys, func(key string) bool { _, err := netip.ParseAddr(key); return err == nil && has(key) }); i >= 0 {
		return keys[i], nil
	}
	// A name that cannot be looked up is that of another host, unless it is the one by which this host is known.
	for _, key := range keys {
		if _, err := netip.ParseAddr(key); err == nil {
			continue
		}
		named := e.instance.DeepCopy()
		named.Spec.Address = key
		addresses, err := e.Hosts.Resolve(ctx, named)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil && (strings.EqualFold(key, e.instance.Spec.Address) || has(key)):
			return "", fmt.Errorf("entry %s of ConfigMap %s/%s cannot be resolved: %s", key, wmco.Namespace, wmco.InstancesConfigMap, e.diagnose(err))
		case slices.ContainsFunc(addresses, func(a netip.Addr) bool { return has(a.String()) }):
			return key, nil
		}
	}
	return "", nil
}

// entryCommand is the command that writes an entry into the ConfigMap of WMCO.
func entryCommand(key, user string, missing bool) string {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	if missing {
		return fmt.Sprintf("oc create configmap %s -n %s --from-literal=%s", wmco.InstancesConfigMap, wmco.Namespace, quoted(key+"="+user))
	}
	patch, _ := json.Marshal(map[string]any{"data": map[string]string{key: user}}) // strings can be written
	return fmt.Sprintf("oc patch configmap %s -n %s --type=merge -p %s", wmco.InstancesConfigMap, wmco.Namespace, quoted(string(patch)))
}
