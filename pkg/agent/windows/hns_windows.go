// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// hnsRequest asks the Host Networking Service, in its first schema, as hcsshim does.
func hnsRequest(method, path, body string) ([]byte, error) {
	if err := procHNSCall.Find(); err != nil {
		return nil, fmt.Errorf("finding the Host Networking Service: %w", err)
	}
	var words [3]*uint16
	for i, text := range []string{method, path, body} {
		p, err := windows.UTF16PtrFromString(text)
		if err != nil {
			return nil, err
		}
		words[i] = p
	}
	var answer *uint16
	r, _, _ := procHNSCall.Call(uintptr(unsafe.Pointer(words[0])), uintptr(unsafe.Pointer(words[1])), uintptr(unsafe.Pointer(words[2])), uintptr(unsafe.Pointer(&answer)))
	if answer != nil {
		defer windows.CoTaskMemFree(unsafe.Pointer(answer))
	}
	if hr := int32(r); hr < 0 {
		return nil, fmt.Errorf("asking the Host Networking Service: HRESULT %#x", uint32(hr))
	}
	if answer == nil {
		return nil, errors.New("the Host Networking Service does not answer")
	}
	return []byte(windows.UTF16PtrToString(answer)), nil
}

// hnsThing is what networks and endpoints have in common, and what of each matters.
type hnsThing struct {
	ID           string
	Name         string
	ManagementIP string
	IPAddress    string
	// State of an endpoint; not every version tells it.
	State   int
	Subnets []struct{ AddressPrefix string }
}

// hnsCreated is the state of an endpoint that was never attached to anything.
const hnsCreated = 1

// hnsFind returns a network or endpoint by its name, or nil. On a host without the feature
// Containers the service is not there, and so nothing of it is.
func hnsFind(kind, name string) (*hnsThing, error) {
	if err := procHNSCall.Find(); err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	answer, err := hnsRequest("GET", "/"+kind+"/", "")
	if err != nil {
		return nil, err
	}
	list, err := parseHNS[[]hnsThing](answer)
	if err != nil {
		return nil, err
	}
	for _, thing := range list {
		if strings.EqualFold(thing.Name, name) {
			return &thing, nil
		}
	}
	return nil, nil
}

// hnsRemove removes a network or endpoint.
func hnsRemove(kind, name string) error {
	thing, err := hnsFind(kind, name)
	if err != nil || thing == nil {
		return err
	}
	answer, err := hnsRequest("DELETE", "/"+kind+"/"+thing.ID, "")
	if err != nil {
		return err
	}
	_, err = parseHNS[json.RawMessage](answer)
	return err
}

// hnsValue is a value of a network.
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

// MakeHNSEndpoint implements [engine.System]. One that was made and not attached, before a
// crash, is attached.
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
		endpoint, err = hnsPost[*hnsThing]("/endpoints/", map[string]any{"Name": e.Name, "VirtualNetwork": network.ID})
		if err != nil {
			return fmt.Errorf("making endpoint %s: %w", e.Name, err)
		}
	}
	// Compartment 1 is that of the host itself.
	if _, err := hnsPost[json.RawMessage]("/endpoints/"+endpoint.ID+"/attach", map[string]any{"SystemType": "Host", "CompartmentId": 1}); err != nil {
		return fmt.Errorf("attaching endpoint %s to the host: %w", e.Name, err)
	}
	return nil
}

// RemoveHNSEndpoint implements [engine.System].
func (s *windowsSystem) RemoveHNSEndpoint(_ context.Context, name string) error {
	return hnsRemove("endpoints", name)
}

func hnsPost[T any](path string, request any) (out T, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return out, err
	}
	answer, err := hnsRequest("POST", path, string(body))
	if err != nil {
		return out, err
	}
	return parseHNS[T](answer)
}
