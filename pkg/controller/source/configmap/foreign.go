// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// reasonForeignEntry is the reason of the event about an entry whose host is that of an instance that does not come from the ConfigMap.
const reasonForeignEntry = "ForeignEntry"

// leaveOthers takes the entries off the plan whose hosts are configured, or were released, by instances that do not come from the
// ConfigMap: such an entry is there for WMCO, and a second instance would compete for the host once that is released. As long as there are
// such hosts, one whose name leads to no address waits: it may be theirs. An entry that has an instance keeps it, also one that was put back.
func (r *Reconciler) leaveOthers(ctx context.Context, p *plan) error {
	isNew := func(e Entry) bool { return p.ours[e.Name] == nil && !e.Resolution.Pending }
	if !slices.ContainsFunc(p.apply, isNew) {
		return nil
	}
	var all v1alpha1.WindowsInstanceList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	has := hostsOfOthers(r.configMap, all.Items)
	p.apply = slices.DeleteFunc(p.apply, func(e Entry) bool {
		if !isNew(e) {
			return false
		}
		if other := has.anyOf(e.Port); e.nowhere() && other != "" && r.predecessor(&e) == nil {
			p.waiting = append(p.waiting, e)
			p.foreign = append(p.foreign, Problem{Key: e.Key, Message: fmt.Sprintf("no instance is made for it yet, because its name leads to no address: %s. "+
				"Its host may be one that has an instance which does not come from this ConfigMap, as WindowsInstance %s; correct the entry, or DNS", e.whyNowhere(), other)})
			return true
		}
		for _, address := range e.Resolution.Addresses {
			if other, ok := has[netip.AddrPortFrom(address.Unmap(), uint16(e.Port))]; ok {
				p.foreign = append(p.foreign, Problem{Key: e.Key, Message: fmt.Sprintf("no instance is made for it, because its host is that of WindowsInstance %s, which does not come from this ConfigMap", other)})
				return true
			}
		}
		return false
	})
	return nil
}

// foreignHosts are instances by where their hosts were found.
type foreignHosts map[netip.AddrPort]types.NamespacedName

// anyOf names one whose host has that port, the same each time. Empty: there is none.
func (h foreignHosts) anyOf(port int32) string {
	first := ""
	for at, instance := range h {
		if name := instance.String(); int32(at.Port()) == port && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// hostsOfOthers are the instances that do not come from the ConfigMap and have configured their hosts, or released them, by where these
// were found. Those of its pool are not among them: they hand their hosts over. Nor are those behind a bastion, where an address may be that of another host.
func hostsOfOthers(configMap types.NamespacedName, instances []v1alpha1.WindowsInstance) foreignHosts {
	out := foreignHosts{}
	for i := range instances {
		other := &instances[i]
		s := &other.Status
		if !other.DeletionTimestamp.IsZero() || inPool(other, configMap) || other.Namespace == configMap.Namespace && belongs(other, configMap) ||
			s.KeptOff() != nil || s.Bastion != "" || other.Spec.Bastion != nil || !s.ChangedHost() && s.ReleasedBy() == nil {
			continue
		}
		for _, text := range s.FoundAt() {
			if address, err := netip.ParseAddr(text); err == nil {
				out[netip.AddrPortFrom(address.Unmap(), uint16(other.Spec.Port))] = client.ObjectKeyFromObject(other)
			}
		}
	}
	return out
}

// describeForeign says which entries have no instance on purpose, as the end of a message. Empty: none.
func describeForeign(foreign []Problem) string {
	if len(foreign) == 0 {
		return ""
	}
	return "\n" + problemLines(sortProblems(foreign))
}
