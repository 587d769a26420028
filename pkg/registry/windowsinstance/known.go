// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// getKnown reads an instance for a request that is about its host. See [known].
func getKnown(ctx context.Context, instances rest.Getter, name string) (*v1alpha1.WindowsInstance, error) {
	instance, err := getServed(ctx, instances, name)
	if err != nil {
		return nil, err
	}
	return known(instance)
}

// known returns an instance as users may reach its host with it, or a Conflict.
//
// Whoever may write instances names any address and any host key, also those of a host of
// somebody else. So it is the controller that decides whose host it is: it has found no other
// instance that represents the host, and has logged in to it. That is in the status, which
// users cannot write, and holds while the instance is paused or deleted and no controller runs.
//
// What was changed in the spec since must not lead to another host: only keys that the host
// has proven to have are trusted, whatever else spec.hostKeys names, and an address at which, or a bastion through which,
// it was not found yet is refused. A name may lead elsewhere at any time; there it is the key
// alone that counts.
func known(instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsInstance, error) {
	if err := represented(instance); err != nil {
		return nil, err
	}
	switch {
	case !instance.Status.Identified():
		return nil, notKnown(instance, "")
	case moved(instance):
		return nil, notKnown(instance, fmt.Sprintf(" at spec.address (%s), but at %s", instance.Spec.Address, strings.Join(instance.Status.FoundAt(), ", ")))
	case rerouted(instance):
		return nil, notKnown(instance, fmt.Sprintf(" through spec.bastion (%s)", instance.Spec.Bastion.Endpoint()))
	case len(instance.Spec.HostKeys) == 0:
		return instance, nil
	}
	proven := provenKeys(instance)
	if len(proven) == 0 {
		return nil, notKnown(instance, " by a key of spec.hostKeys, but by another one")
	}
	instance = instance.DeepCopy()
	instance.Spec.HostKeys = proven
	return instance, nil
}

// represented returns a Conflict if the host is that of another instance, or was.
func represented(instance *v1alpha1.WindowsInstance) error {
	c := instance.Status.KeptOff()
	if c == nil {
		return nil
	}
	return apierrors.NewConflict(windows.Resource("windowsinstances"), instance.Name, errors.New(c.Message))
}

// moved says whether spec.address is an IP address at which the host was not found.
func moved(instance *v1alpha1.WindowsInstance) bool {
	address, err := netip.ParseAddr(instance.Spec.Address)
	known := instance.Status.FoundAt()
	return err == nil && len(known) > 0 && !slices.Contains(known, address.Unmap().String())
}

// rerouted says whether the instance has a bastion of its own through which its host was not found. That of a pool is said by
// those who may change the pool.
func rerouted(instance *v1alpha1.WindowsInstance) bool {
	return instance.Spec.Bastion != nil && instance.Spec.Bastion.Endpoint() != instance.Status.Bastion
}

// provenKeys are the keys recorded in the status that spec.hostKeys names, too: in the words of the
// status, so that nothing else of the lines in spec.hostKeys, which may have comments, is trusted.
func provenKeys(instance *v1alpha1.WindowsInstance) []string {
	var proven []string
	pinned := hostkey.Base64Of(instance.Spec.HostKeys)
	for _, key := range instance.Status.HostKeys {
		if slices.Contains(pinned, key.Key) {
			proven = append(proven, key.Type+" "+key.Key)
		}
	}
	return proven
}

// notKnown is the Conflict about a host that the controller has not logged in to as the spec says.
func notKnown(instance *v1alpha1.WindowsInstance, how string) error {
	text := fmt.Sprintf("the controller has not logged in to this host yet%s", how)
	if why := obstacle(&instance.Status); why != "" {
		text += ": " + strings.TrimRight(why, ".")
	}
	return apierrors.NewConflict(windows.Resource("windowsinstances"), instance.Name, fmt.Errorf(
		"%s; until it has, nobody else may; to try the way to the host: kubectl windows check %s -n %s", text, instance.Name, instance.Namespace))
}

// obstacle is the message of the first condition that says what keeps the controller from
// logging in, or from knowing which machine it has logged in to. Empty: none does.
func obstacle(status *v1alpha1.WindowsInstanceStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonPaused {
		return c.Message
	}
	for _, condition := range []string{v1alpha1.ConditionResolved, v1alpha1.ConditionReachable, v1alpha1.ConditionHostKeyTrusted, v1alpha1.ConditionAuthenticated, v1alpha1.ConditionPreflightPassed} {
		c := meta.FindStatusCondition(status.Conditions, condition)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		switch c.Reason {
		case v1alpha1.ReasonNotTried, v1alpha1.ReasonFindings, v1alpha1.ReasonHostnameTaken:
		default:
			return c.Message
		}
	}
	return ""
}
