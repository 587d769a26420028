// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package revision is what is kept of a pool, so that its hosts can go back: its template, and the programs that they
// were to have with it. It is kept as a ControllerRevision, whose name tells one from the other. Nothing in it is secret.
//
// The package must not import controllers.
package revision

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
)

// Revision is what hosts of a pool have in common and can go back to.
type Revision struct {
	// Template of the pool. With what, and through what, the controller logs in to hosts is no part of it: going back to an
	// earlier template must not bring back a key that somebody has replaced, and hosts are not updated for it.
	Template v1alpha1.PoolTemplate
	// Programs of its hosts. Empty: it is not known which those were, as of revisions of earlier releases.
	Programs []Program
}

// Program is a file of the payload. See [document.PayloadFile] for its fields.
type Program struct {
	Name      string `json:"name"`
	Component string `json:"component,omitempty"`
	Version   string `json:"version,omitempty"`
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
}

// content is how a revision is encoded: as that of a DaemonSet, with the programs besides.
type content struct {
	Spec     spec      `json:"spec"`
	Programs []Program `json:"programs,omitempty"`
}

type spec struct {
	Template v1alpha1.PoolTemplate `json:"template"`
}

// Of is the revision of a pool whose hosts are to have the programs of a payload. Pool is nil for hosts in none.
func Of(pool *v1alpha1.WindowsNodePool, p document.Payload) Revision {
	r := Revision{Programs: make([]Program, len(p.Files))}
	if pool != nil {
		r.Template = pool.Spec.Template
		r.Template.CredentialsSecretRef, r.Template.Bastion = nil, nil
	}
	for i, f := range p.Files {
		r.Programs[i] = Program{Name: f.Name, Component: f.Component, Version: f.Version, Path: f.Path, Size: f.Size, SHA256: f.SHA256}
	}
	return r
}

// Payload is the payload that has the programs.
func (r *Revision) Payload() document.Payload {
	p := document.Payload{Files: make([]document.PayloadFile, len(r.Programs))}
	for i, f := range r.Programs {
		p.Files[i] = document.PayloadFile{Name: f.Name, Component: f.Component, Version: f.Version, Path: f.Path, Size: f.Size, SHA256: f.SHA256}
	}
	return p
}

// Encode returns the data of the ControllerRevision.
func (r *Revision) Encode() ([]byte, error) {
	data, err := json.Marshal(content{Spec: spec{r.Template}, Programs: r.Programs})
	if err != nil {
		return nil, fmt.Errorf("encoding the template of the pool: %w", err)
	}
	return data, nil
}

// Decode is the inverse of Encode.
func Decode(data []byte) (*Revision, error) {
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("decoding a revision: %w", err)
	}
	return &Revision{Template: c.Spec.Template, Programs: c.Programs}, nil
}

// MaxBytes is how long the data of a ControllerRevision may be. The longest template that the API takes is 40 KiB, nearly all of it labels and
// taints, and the programs of a payload are 4 KiB.
const MaxBytes = 64 << 10

// Kept is what a ControllerRevision of a pool has. It reports false for one that is not of this pool, is longer than the controller makes them,
// as it is or encoded by the controller, or has another name than the controller gave it for what is in it.
func Kept(pool *v1alpha1.WindowsNodePool, kept *appsv1.ControllerRevision) (*Revision, bool) {
	if len(kept.Data.Raw) > MaxBytes || !metav1.IsControlledBy(kept, pool) {
		return nil, false
	}
	r, err := Decode(kept.Data.Raw)
	if err != nil {
		return nil, false
	}
	data, err := r.Encode() // which may be many times as long: an empty program takes two bytes, and is encoded with all its fields
	return r, err == nil && len(data) <= MaxBytes && Name(pool, data) == kept.Name
}

// Made says whether the controller has made a ControllerRevision of a pool, as far as its name says so. The name fits the data as it is,
// which another release may have encoded in another way, or the data encoded again, because a backup sorts its keys.
func Made(pool *v1alpha1.WindowsNodePool, kept *appsv1.ControllerRevision) bool {
	_, ok := Kept(pool, kept)
	return ok || len(kept.Data.Raw) <= MaxBytes && metav1.IsControlledBy(kept, pool) && Name(pool, kept.Data.Raw) == kept.Name
}

// Read reads what the ControllerRevision of a pool with a name has, and its number. Nil: there is none, or none that is [Kept].
func Read(ctx context.Context, reader client.Reader, pool *v1alpha1.WindowsNodePool, name string) (r *Revision, number int64, err error) {
	kept := &appsv1.ControllerRevision{}
	switch err := reader.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: name}, kept); {
	case apierrors.IsNotFound(err):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("reading ControllerRevision %s: %w", name, err)
	}
	if r, ok := Kept(pool, kept); ok {
		return r, kept.Revision, nil
	}
	return nil, 0, nil
}

// Name is the name of the ControllerRevision of a pool with encoded data: another one for each pool, template and
// programs.
func Name(pool *v1alpha1.WindowsNodePool, data []byte) string {
	sum := sha256.Sum256(append([]byte(pool.UID+"\n"), data...))
	return prefix(pool) + hex.EncodeToString(sum[:digestLength/2])
}

// digestLength is that of the end of a name.
const digestLength = 32

// prefix is how the names of the revisions of a pool begin. One that is cut off must not end in what no digest may follow.
func prefix(pool *v1alpha1.WindowsNodePool) string {
	return strings.TrimRight(pool.Name[:min(len(pool.Name), 200)], ".-") + "-"
}

// NameOf is the name of the revision of a pool whose hosts are to have the programs of a payload.
func NameOf(pool *v1alpha1.WindowsNodePool, p document.Payload) (string, error) {
	r := Of(pool, p)
	data, err := r.Encode()
	if err != nil {
		return "", err
	}
	return Name(pool, data), nil
}

// BackTo is the name of the revision that the host of an instance has or gets in place of newest, which is that of its
// pool now, because that was rolled back or undone. Empty: the host is to have newest.
func BackTo(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, newest string) string {
	if pool == nil {
		return ""
	}
	back := pool.RolledBack(newest)
	switch {
	case back == nil:
		return ""
	case back.Keeps(instance.Name):
		if had := Had(instance, pool); had != newest { // it must not get what was undone either
			return had
		}
		return ""
	case back.ByPerson():
		return back.To
	case Had(instance, pool) == newest && !back.Broke(instance.Name):
		return ""
	}
	return WouldGoBackTo(instance, pool, newest)
}

// WouldGoBackTo is the name of the revision that the host of an instance goes back to if newest, which is that of its pool now,
// breaks it or is undone: the one that it worked with, or the last that all hosts of the pool worked with. Empty: there is none.
func WouldGoBackTo(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, newest string) string {
	back := pool.RolledBack(newest)
	if back.ByPerson() {
		return back.To
	}
	if had := Had(instance, pool); had != "" && had != newest {
		return had
	}
	if back != nil {
		return back.To
	}
	if pool.Status.CurrentRevision == newest { // all hosts work with it: whoever undoes it has this one go back to what it had before
		return HadBefore(instance, pool)
	}
	return pool.Status.CurrentRevision
}

// Had is the revision of its pool that the host of an instance worked with last. Empty: none, or one of another pool.
func Had(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) string {
	return ofPool(instance.Status.PoolRevision, pool)
}

// HadBefore is the one that it worked with before that. Empty: likewise.
func HadBefore(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) string {
	return ofPool(instance.Status.PreviousPoolRevision, pool)
}

// ofPool is a name if it is one of a revision of a pool.
func ofPool(name string, pool *v1alpha1.WindowsNodePool) string {
	if len(name) <= digestLength || name[:len(name)-digestLength] != prefix(pool) {
		return ""
	}
	return name
}

// Has says whether each program of a revision is one of another's.
func (r *Revision) Has(programs []Program) bool {
	return !slices.ContainsFunc(programs, func(p Program) bool {
		return !slices.ContainsFunc(r.Programs, func(own Program) bool { return own.SHA256 == p.SHA256 })
	})
}
