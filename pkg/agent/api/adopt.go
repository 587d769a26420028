// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// AdoptRequest requests that what another program has configured on a host becomes ours as it is: it is recorded in
// the inventory, as if an earlier document had put it there. The next document that is applied changes what differs from
// it. It is encoded by [AdoptRequest.Encode] and decoded by [DecodeAdoptRequest].
type AdoptRequest struct {
	// Adoption says what there may be besides what the bundle has.
	Adoption Adoption
	// Bundle is the desired configuration. What it has and the host has, too, is ours whatever it is like.
	Bundle config.Bundle
}

// Adoption is what another program may have left on a host. What of it does not exist is passed over.
type Adoption struct {
	// Revision is what the host is said to have from then on. It is that of no document.
	Revision string `json:"revision"`
	// NodeName is the name of the node that the kubelet of the host runs as.
	NodeName string `json:"nodeName"`
	// Manager is the service of the other program, which would undo what we do. It is removed before anything
	// is recorded.
	Manager string `json:"manager"`
	// NetworkService is the service that connects pods. A host that has it is not adopted unless the bundle has it, too: the first update
	// would take their network from pods that run. Empty: none of its services does.
	NetworkService string `json:"networkService,omitempty"`
	// Requires are services that have to run, with texts that their command lines have to contain. A host that lacks
	// one is not adopted.
	Requires []RequiredService `json:"requires"`
	// Services are its other ones, in the order in which they start. Windows is told to start them with the host, before
	// Manager is removed, which may have started them.
	Services []string `json:"services,omitempty"`
	// Files are single ones.
	Files []string `json:"files,omitempty"`
	// Directories are those that it has made, which others may have files in.
	Directories []string `json:"directories,omitempty"`
	// Trees are directories in which everything is its own, links included, and which documents may have something in.
	Trees []string `json:"trees,omitempty"`
	// Whole are those that no document has anything in: each is removed as one, with what is in it by then, however much that is.
	Whole []string `json:"whole,omitempty"`
	// Environment are variables of the machine that nobody else sets on its hosts: it removes those that it does not want.
	Environment []string `json:"environment,omitempty"`
	// Imported is the path of the file, in PEM, in which it has on record the certificates that it has imported into the store
	// [config.StoreRoot], to remove them itself. Empty: it imports none.
	Imported string `json:"imported,omitempty"`
}

// FormerTrees are those of [Adoption.Whole] that earlier releases have requested as [Adoption.Trees], so that hosts which they adopted have a
// record of each file in them.
func FormerTrees() []string { return []string{`C:\k\wicd-certs`, `C:\var\log\wicd`} }

// AdoptionPlan is what the first update of a host would do once it is adopted.
type AdoptionPlan struct {
	// Plan of the update. Nil: the host cannot be adopted, or could not be updated then.
	Plan *Plan `json:"plan,omitempty"`
	// Error says why not. Empty: it can.
	Error string `json:"error,omitempty"`
}

// RequiredService is a service without which a host is not adopted.
type RequiredService struct {
	Name string `json:"name"`
	// Contains are texts that its command line contains, whatever their case. Empty: any one will do.
	Contains []string `json:"contains,omitempty"`
}

// encodedAdopt is an [AdoptRequest] as it travels.
type encodedAdopt struct {
	Adoption Adoption        `json:"adoption"`
	Bundle   json.RawMessage `json:"bundle"`
}

// DecodeAdoptRequest reads one request and validates it.
func DecodeAdoptRequest(r io.Reader) (*AdoptRequest, error) {
	var encoded encodedAdopt
	bundle, err := decodeRequest(r, &encoded, &encoded.Bundle)
	if err != nil {
		return nil, err
	}
	if err := encoded.Adoption.validate(); err != nil {
		return nil, err
	}
	return &AdoptRequest{Adoption: encoded.Adoption, Bundle: *bundle}, nil
}

func (a *Adoption) validate() error {
	if a.Revision == "" || a.NodeName == "" || a.Manager == "" || len(a.Requires) == 0 {
		return errors.New("an adoption needs a revision, the name of the node, a manager and required services")
	}
	paths := slices.Concat(a.Files, a.Directories, a.Trees, a.Whole)
	if a.Imported != "" {
		paths = append(paths, a.Imported)
	}
	for _, path := range paths {
		if err := config.CheckPath(path); err != nil {
			return err
		}
	}
	return nil
}

// Encode returns the request as it travels.
func (r *AdoptRequest) Encode() ([]byte, error) {
	bundle, err := r.Bundle.Encode()
	if err != nil {
		return nil, err
	}
	return json.Marshal(encodedAdopt{r.Adoption, bundle})
}
