// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// hns takes seconds for what it is asked when it has much to do, and half a minute for a network. It is known to hang for good, and
// its calls with it. A change of the host that does not wait long enough fails half way; whoever has less time, as a plan has, bounds its context.
var hns = &answerer{name: "Host Networking Service (hns)", limit: 3 * time.Minute}

var procHNSCall = windows.NewLazySystemDLL("vmcompute.dll").NewProc("HNSCall")

// hnsRequest sends a request to the Host Networking Service, in its first schema, as hcsshim
// does. A nil request has no body.
func hnsRequest[T any](ctx context.Context, method, path string, request any) (out T, err error) {
	if err := procHNSCall.Find(); err != nil {
		return out, fmt.Errorf("finding the Host Networking Service: %w", err)
	}
	var body []byte
	if request != nil {
		if body, err = json.Marshal(request); err != nil {
			return out, err
		}
	}
	answer, err := within(ctx, hns, func() (string, error) { return hnsCall(method, path, string(body)) })
	if err != nil {
		return out, fmt.Errorf("calling the Host Networking Service: %w", err)
	}
	return parseHNS[T]([]byte(answer))
}

// hnsCall returns when the service has answered.
func hnsCall(method, path, body string) (string, error) {
	words, err := utf16Pointers(method, path, body)
	if err != nil {
		return "", err
	}
	var answer *uint16
	r, _, _ := procHNSCall.Call(uintptr(unsafe.Pointer(words[0])), uintptr(unsafe.Pointer(words[1])), uintptr(unsafe.Pointer(words[2])), uintptr(unsafe.Pointer(&answer)))
	if answer != nil {
		defer windows.CoTaskMemFree(unsafe.Pointer(answer))
	}
	if err := hresult(r); err != nil {
		return "", err
	}
	if answer == nil {
		return "", errors.New("it does not answer")
	}
	return windows.UTF16PtrToString(answer), nil
}

// hnsCreated is the state of an endpoint that was never attached to anything.
const hnsCreated = 1

// hnsFind returns a network or endpoint by its name, or nil. On a host without the feature
// Containers the service does not exist, and so it has no networks and endpoints.
func hnsFind(ctx context.Context, kind, name string) (*hnsObject, error) {
	if err := procHNSCall.Find(); err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	list, err := hnsRequest[[]hnsObject](ctx, "GET", "/"+kind+"/", nil)
	if i := slices.IndexFunc(list, func(o hnsObject) bool { return strings.EqualFold(o.Name, name) }); i >= 0 {
		return &list[i], nil
	}
	return nil, err
}

// hnsRemove removes a network or endpoint.
func hnsRemove(ctx context.Context, kind, name string) error {
	object, err := hnsFind(ctx, kind, name)
	if err != nil || object == nil {
		return err
	}
	_, err = hnsRequest[json.RawMessage](ctx, "DELETE", "/"+kind+"/"+object.ID, nil)
	return err
}

// hnsValue returns a value of a network.
func hnsValue(ctx context.Context, v config.Variable) (string, error) {
	network, err := hnsFind(ctx, "networks", v.Network)
	if err != nil {
		return "", err
	}
	switch {
	case network == nil:
	case v.Source == config.SourceHNSManagementAddress && network.ManagementIP != "":
		return network.ManagementIP, nil
	case v.Source == config.SourceHNSSubnet && len(network.Subnets) > 0:
		return network.Subnets[0].AddressPrefix, nil
	}
	return "", fmt.Errorf("network %s: %w", v.Network, engine.ErrNotYet)
}

// HNSNetwork implements [engine.System].
func (s *windowsSystem) HNSNetwork(ctx context.Context, name string) (bool, error) {
	network, err := hnsFind(ctx, "networks", name)
	return network != nil, err
}

// HNSNetworks implements [engine.System].
func (s *windowsSystem) HNSNetworks(ctx context.Context) ([]api.HNSNetwork, error) {
	list, err := hnsRequest[[]hnsObject](ctx, "GET", "/networks/", nil)
	return networkFacts(list), err
}

// RemoveHNSNetwork implements [engine.System].
func (s *windowsSystem) RemoveHNSNetwork(ctx context.Context, name string) error {
	return hnsRemove(ctx, "networks", name)
}

// RemoveHNSPolicyLists implements [engine.System]. See kube-proxy, pkg/proxy/winkernel, which makes them.
func (s *windowsSystem) RemoveHNSPolicyLists(ctx context.Context, network string) error {
	object, err := hnsFind(ctx, "networks", network)
	if err != nil || object == nil {
		return err
	}
	endpoints, err := hnsRequest[[]hnsObject](ctx, "GET", "/endpoints/", nil)
	if err != nil {
		return err
	}
	lists, err := hnsRequest[[]hnsPolicyList](ctx, "GET", "/policylists/", nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range policyListsOf(lists, endpoints, object.ID) {
		_, err := hnsRequest[json.RawMessage](ctx, "DELETE", "/policylists/"+id, nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// HNSEndpoint implements [engine.System].
func (s *windowsSystem) HNSEndpoint(ctx context.Context, name string) (string, error) {
	endpoint, err := hnsFind(ctx, "endpoints", name)
	if err != nil {
		return "", err
	}
	if endpoint == nil || endpoint.State == hnsCreated || endpoint.IPAddress == "" {
		return "", fmt.Errorf("endpoint %s: %w", name, engine.ErrNotYet)
	}
	return endpoint.IPAddress, nil
}

// MakeHNSEndpoint implements [engine.System]. One that was created before a crash and not
// attached is attached.
func (s *windowsSystem) MakeHNSEndpoint(ctx context.Context, e config.HNSEndpoint) error {
	endpoint, err := hnsFind(ctx, "endpoints", e.Name)
	if err != nil {
		return err
	}
	if endpoint == nil {
		network, err := hnsFind(ctx, "networks", e.Network)
		if err != nil {
			return err
		}
		if network == nil {
			return fmt.Errorf("network %s: %w", e.Network, engine.ErrNotYet)
		}
		endpoint, err = hnsRequest[*hnsObject](ctx, "POST", "/endpoints/", map[string]any{"Name": e.Name, "VirtualNetwork": network.ID})
		if err != nil {
			return fmt.Errorf("creating endpoint %s: %w", e.Name, err)
		}
	}
	// Compartment 1 is that of the host itself.
	if _, err := hnsRequest[json.RawMessage](ctx, "POST", "/endpoints/"+endpoint.ID+"/attach", map[string]any{"SystemType": "Host", "CompartmentId": 1}); err != nil {
		return fmt.Errorf("attaching endpoint %s to the host: %w", e.Name, err)
	}
	return nil
}

// RemoveHNSEndpoint implements [engine.System].
func (s *windowsSystem) RemoveHNSEndpoint(ctx context.Context, name string) error {
	return hnsRemove(ctx, "endpoints", name)
}
