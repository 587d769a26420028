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
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

var procHNSCall = windows.NewLazySystemDLL("vmcompute.dll").NewProc("HNSCall")

// hnsRequest sends a request to the Host Networking Service, in its first schema, as hcsshim
// does. A nil request has no body.
func hnsRequest[T any](method, path string, request any) (out T, err error) {
	if err := procHNSCall.Find(); err != nil {
		return out, fmt.Errorf("finding the Host Networking Service: %w", err)
	}
	var body []byte
	if request != nil {
		if body, err = json.Marshal(request); err != nil {
			return out, err
		}
	}
	words, err := utf16Pointers(method, path, string(body))
	if err != nil {
		return out, err
	}
	var answer *uint16
	r, _, _ := procHNSCall.Call(uintptr(unsafe.Pointer(words[0])), uintptr(unsafe.Pointer(words[1])), uintptr(unsafe.Pointer(words[2])), uintptr(unsafe.Pointer(&answer)))
	if answer != nil {
		defer windows.CoTaskMemFree(unsafe.Pointer(answer))
	}
	if err := hresult(r); err != nil {
		return out, fmt.Errorf("calling the Host Networking Service: %w", err)
	}
	if answer == nil {
		return out, errors.New("the Host Networking Service does not answer")
	}
	return parseHNS[T]([]byte(windows.UTF16PtrToString(answer)))
}

// hnsCreated is the state of an endpoint that was never attached to anything.
const hnsCreated = 1

// hnsFind returns a network or endpoint by its name, or nil. On a host without the feature
// Containers the service does not exist, and so it has no networks and endpoints.
func hnsFind(kind, name string) (*hnsObject, error) {
	if err := procHNSCall.Find(); err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	list, err := hnsRequest[[]hnsObject]("GET", "/"+kind+"/", nil)
	if i := slices.IndexFunc(list, func(o hnsObject) bool { return strings.EqualFold(o.Name, name) }); i >= 0 {
		return &list[i], nil
	}
	return nil, err
}

// hnsRemove removes a network or endpoint.
func hnsRemove(kind, name string) error {
	object, err := hnsFind(kind, name)
	if err != nil || object == nil {
		return err
	}
	_, err = hnsRequest[json.RawMessage]("DELETE", "/"+kind+"/"+object.ID, nil)
	return err
}

// hnsValue returns a value of a network.
func hnsValue(v config.Variable) (string, error) {
	network, err := hnsFind("networks", v.Network)
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
func (s *windowsSystem) HNSNetwork(_ context.Context, name string) (bool, error) {
	network, err := hnsFind("networks", name)
	return network != nil, err
}

// HNSNetworks implements [engine.System].
func (s *windowsSystem) HNSNetworks(context.Context) ([]api.HNSNetwork, error) {
	list, err := hnsRequest[[]hnsObject]("GET", "/networks/", nil)
	return networkFacts(list), err
}

// RemoveHNSNetwork implements [engine.System].
func (s *windowsSystem) RemoveHNSNetwork(_ context.Context, name string) error {
	return hnsRemove("networks", name)
}

// HNSEndpoint implements [engine.System].
func (s *windowsSystem) HNSEndpoint(_ context.Context, name string) (string, error) {
	endpoint, err := hnsFind("endpoints", name)
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
func (s *windowsSystem) MakeHNSEndpoint(_ context.Context, e config.HNSEndpoint) error {
	endpoint, err := hnsFind("endpoints", e.Name)
	if err != nil {
		return err
	}
	if endpoint == nil {
		network, err := hnsFind("networks", e.Network)
		if err != nil {
			return err
		}
		if network == nil {
			return fmt.Errorf("network %s: %w", e.Network, engine.ErrNotYet)
		}
		endpoint, err = hnsRequest[*hnsObject]("POST", "/endpoints/", map[string]any{"Name": e.Name, "VirtualNetwork": network.ID})
		if err != nil {
			return fmt.Errorf("creating endpoint %s: %w", e.Name, err)
		}
	}
	// Compartment 1 is that of the host itself.
	if _, err := hnsRequest[json.RawMessage]("POST", "/endpoints/"+endpoint.ID+"/attach", map[string]any{"SystemType": "Host", "CompartmentId": 1}); err != nil {
		return fmt.Errorf("attaching endpoint %s to the host: %w", e.Name, err)
	}
	return nil
}

// RemoveHNSEndpoint implements [engine.System].
func (s *windowsSystem) RemoveHNSEndpoint(_ context.Context, name string) error {
	return hnsRemove("endpoints", name)
}
