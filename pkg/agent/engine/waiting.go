// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// awaited are networks that others make and the host does not have.
type awaited struct {
	missing map[string]bool
	// unready is one that the host has, without the endpoint whose address services need. Empty: none is.
	unready string
	// unwritten are services, by their names in lower case, with files that a repair cannot write yet: they would start with those of the boot before.
	unwritten map[string]bool
}

// stops says whether a service is not started because of what is awaited.
func (w awaited) stops(s *config.Service) bool {
	return w.unwritten[fold(s.Name)] || s.Network != "" && (w.missing[s.Network] || s.Network == w.unready)
}

// unwritten returns the services with files in which a value is missing, as that of a network that a service of the document makes again after a
// boot. Files that wait stay as they are.
func unwritten(d *config.Document, values map[string]string) map[string]bool {
	services := map[string]bool{}
	for _, f := range d.Files {
		if f.Waiting || f.Source.Text == nil || !f.Source.Expand || missingValue(values, *f.Source.Text) == "" {
			continue
		}
		for _, name := range f.OnChange.Services {
			services[fold(name)] = true
		}
	}
	return services
}

// services are those of a document that wait for networks, and for nothing else.
func (w awaited) services(d *config.Document) (waiting []api.Waiting) {
	for _, s := range d.Services {
		if w.missing[s.Network] && !s.Waiting {
			waiting = append(waiting, api.Waiting{Service: s.Name, Network: s.Network})
		}
	}
	return waiting
}

// missingNetworks says which networks of others the host does not have.
func (o *observer) missingNetworks(ctx context.Context, d *config.Document) (awaited, error) {
	w := awaited{missing: map[string]bool{}}
	if d.HNS == nil {
		return w, nil
	}
	for _, name := range d.HNS.Foreign {
		exists, err := o.system.HNSNetwork(ctx, name)
		if err != nil {
			return w, fmt.Errorf("inspect network %s: %w", name, err)
		}
		w.missing[name] = !exists
	}
	return w, nil
}

// networksAnswer is how long the Host Networking Service may take to say which networks it has to who does not need them.
const networksAnswer = 5 * time.Second

// missingNetworksSoon is missingNetworks for a process that ends soon, and must not wait for a Host Networking Service that hangs.
func (o *observer) missingNetworksSoon(ctx context.Context, d *config.Document) (awaited, error) {
	if d.HNS == nil || len(d.HNS.Foreign) == 0 {
		return awaited{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, networksAnswer)
	defer cancel()
	type answer struct {
		awaited
		err error
	}
	answers := make(chan answer, 1)
	// A call of Windows cannot be ended: one that hangs is abandoned, and ends with the process.
	go func() {
		w, err := o.missingNetworks(ctx, d)
		answers <- answer{w, err}
	}()
	select {
	case a := <-answers:
		return a.awaited, a.err
	case <-ctx.Done():
		return awaited{}, fmt.Errorf("inspect network %s: the Host Networking Service (%s) does not answer within %s: restart it, or the host", d.HNS.Foreign[0], hnsService, networksAnswer)
	}
}

// awaitedServices are the services that wait for networks of others. It does not start the Host Networking Service: while that does not
// run there is no network.
func (o *observer) awaitedServices(ctx context.Context, d *config.Document) ([]api.Waiting, error) {
	if d.HNS == nil || len(d.HNS.Foreign) == 0 {
		return nil, nil
	}
	hns, err := o.system.Service(hnsService)
	if err != nil {
		return nil, fmt.Errorf("inspect service %s: %w", hnsService, err)
	}
	if hns == nil || hns.State != ServiceRunning {
		w := awaited{missing: map[string]bool{}}
		for _, name := range d.HNS.Foreign {
			w.missing[name] = true
		}
		return w.services(d), nil
	}
	w, err := o.missingNetworksSoon(ctx, d)
	return w.services(d), err
}

// awaiting returns a document in which what needs a network that others make, and that the host does not have, is waiting, and
// what is awaited.
func (o *observer) awaiting(ctx context.Context, d *config.Document, repairing bool) (out config.Document, w awaited, err error) {
	if out = *d; d.HNS == nil || len(d.HNS.Foreign) == 0 {
		return out, w, nil
	}
	if w, err = o.missingNetworks(ctx, d); err != nil {
		return out, w, err
	}
	hns := *d.HNS
	out.HNS = &hns
	if e := hns.Endpoint; e != nil && w.missing[e.Network] {
		endpoint := *e
		endpoint.Waiting, hns.Endpoint = true, &endpoint
	} else if e != nil && repairing && hns.IsForeign(e.Network) {
		// A repair waits for nothing: it makes the endpoint, and the next one what needs its address.
		switch _, err := o.system.HNSEndpoint(ctx, e.Name); {
		case errors.Is(err, ErrNotYet):
			w.unready = e.Network
		case err != nil:
			return out, w, fmt.Errorf("inspect endpoint %s: %w", e.Name, err)
		}
	}
	out.Services = slices.Clone(d.Services)
	for i := range out.Services {
		s := &out.Services[i]
		s.Waiting = s.Waiting || w.stops(s)
	}
	out.Files = slices.Clone(d.Files)
	for i := range out.Files {
		out.Files[i].Waiting = out.Files[i].Waiting || w.missing[out.Files[i].Network]
	}
	return out, w, nil
}

// present returns a document without what waits and is not on the host. What waits and is there
// is desired as it is.
func present(d *config.Document, inv *inventory) config.Document {
	out := *d
	out.Services = slices.DeleteFunc(slices.Clone(d.Services), func(s config.Service) bool { return s.Waiting && !inv.hasService(s.Name) })
	out.Files = slices.DeleteFunc(slices.Clone(d.Files), func(f config.File) bool {
		_, ours := inv.Files[fold(f.Path)]
		return f.Waiting && !ours
	})
	if d.HNS != nil {
		hns := *d.HNS
		if e := hns.Endpoint; e != nil && (e.Waiting || hns.Waiting) {
			if _, ours := inv.Endpoints[e.Name]; !ours {
				hns.Endpoint = nil
			}
		}
		// The networks of a host with an endpoint may be those of others.
		if out.HNS = &hns; hns.Waiting && len(inv.Networks) == 0 && hns.Endpoint == nil {
			out.HNS = nil
		}
	}
	out.Variables = slices.DeleteFunc(slices.Clone(d.Variables), func(v config.Variable) bool {
		return v.Network != "" && out.HNS == nil || v.Source == config.SourceHNSEndpointAddress && out.HNS.Endpoint == nil
	})
	return out
}

// keptValue returns the value of a variable that is not known now, as the host last had it. A
// metadata service, or DNS, may be out of reach for a while, after a restart for example.
func keptValue(v config.Variable, inv *inventory) (value string, ok bool) {
	if v.Source == config.SourceKept || namesHosts(v.Source) {
		value, ok = inv.Values[v.Name]
	}
	return value, ok
}

// namesHosts says whether the value of a source is a name that others give a host.
func namesHosts(source config.VariableSource) bool {
	return source == config.SourceAWSLocalHostname || source == config.SourceGCPHostname || source == config.SourceFQDN
}

// isNodeAs says whether the host is a node by the value that a variable had before, which is what its node is called
// from then on, whatever a metadata service or DNS calls the host later: the API server takes nothing else from a
// kubelet than what its certificate says, and a Node cannot be renamed. The certificate of the kubelet tells; it
// is of no account on a host that was made from the disk of another one.
func (o *observer) isNodeAs(d *config.Document, v config.Variable, kept string, inv *inventory) (bool, error) {
	c := d.ClientCertificate
	if c == nil || !namesHosts(v.Source) || !strings.Contains(c.NodeName, "$("+v.Name+")") || inv.Machine != "" && inv.Machine != o.system.MachineID() {
		return false, nil
	}
	content, _, err := readIfExists(o.system, c.Path)
	if err != nil {
		return false, err
	}
	defer clear(content) // the key is in it
	name, err := config.Expand(c.NodeName, map[string]string{v.Name: kept})
	if err != nil {
		return false, nil // it has other variables, too, and is no name that was given
	}
	// Whether it is still good does not matter: another one will be for the same Node.
	problem := credentialRules{node: name}.judge(content).Problem
	return problem == "", nil
}

// keepValues records the values that [keptValue] returns later.
func (a *application) keepValues() {
	a.Values, a.Machine = nil, a.observer.system.MachineID()
	for _, v := range a.bundle.Document.Variables {
		switch v.Source {
		case config.SourceValue, config.SourceKept, config.SourceAWSLocalHostname, config.SourceGCPHostname, config.SourceFQDN:
			if value, ok := a.seen.values[v.Name]; ok {
				makeMap(&a.Values)
				a.Values[v.Name] = value
			}
		default:
		}
	}
}
