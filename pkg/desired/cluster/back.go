// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// kubeletPath is where the kubelet is on hosts.
const kubeletPath = wmco.KubernetesDir + `\kubelet.exe`

// Back is a revision of a pool that a host has, or gets, in place of the one that the pool has now.
type Back struct {
	// Name of its ControllerRevision.
	Name string
	// Revision is what is in that. Required.
	Revision *revision.Revision
	// has: the host works with it, as far as is known. It may keep the kubelet that it runs whatever API servers there are.
	has bool
	// onHost has the programs that the host has, as far as is known: those of what it worked with last, and before that.
	onHost revision.Revision
}

// backTo returns the revision that the host has, or goes back to, while the one of its pool now is rolled back or undone. node is its Node, nil
// if it has none. Nil: it is to have that of now. One that somebody has made or changed by hand is not used: it says which programs run
// as administrators of hosts.
//
// Somebody may have undone a revision in favor of one that a host cannot have, as its kubelet does not suit the API servers any more. It
// stays with what it worked with last then, and if it cannot have that either, it gets the one of now: nobody has tried the template of
// one with the programs of another.
func (l *Live) backTo(ctx context.Context, s *Snapshot, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (*Back, error) {
	if pool == nil || pool.Status.RolledBack == nil {
		return nil, nil //nolint:nilnil // that of now is an ordinary answer
	}
	newest, err := revision.NameOf(pool, s.common.Payload)
	if err != nil {
		return nil, err
	}
	name, had := revision.BackTo(instance, pool, newest), revision.Had(instance, pool)
	if name == "" {
		return nil, nil //nolint:nilnil // likewise
	}
	for {
		to, err := l.keptFor(ctx, instance, pool, name)
		if err != nil || !pool.RolledBack(newest).ByPerson() {
			return to, err
		}
		if _, _, ok := s.backPayload(to, node); ok || len(to.Revision.Programs) == 0 {
			return to, nil
		}
		if had == "" || had == newest || had == name {
			return nil, nil //nolint:nilnil // likewise
		}
		name = had
	}
}

// keptFor reads the revision of a pool that a host is to have.
func (l *Live) keptFor(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, name string) (*Back, error) {
	switch found, err := l.kept(ctx, pool, name); {
	case err != nil:
		return nil, err
	case found != nil:
		has := revision.Had(instance, pool) == name && instance.Status.CurrentRevision != "" && !pool.Status.RolledBack.Broke(instance.Name)
		onHost, err := l.onHost(ctx, instance, pool)
		return &Back{Name: name, Revision: found, has: has, onHost: onHost}, err
	}
	return nil, &InputError{Findings: []Finding{{
		Problem: fmt.Sprintf("the host goes back to ControllerRevision %s of pool %s, which no longer exists as it was kept", name, pool.Name),
		Remedy:  fmt.Sprintf("change spec.template of the pool, or have it rolled out again: kubectl windows rollout resume %s -n %s", pool.Name, pool.Namespace),
	}}}
}

// onHost has the programs that the host of an instance has of the revisions of its pool that it worked with. It keeps those of the last one
// as long as another one may break it, and those of the one before if there was room. None: it never worked, or was installed again since.
func (l *Live) onHost(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) (has revision.Revision, err error) {
	for _, name := range []string{revision.Had(instance, pool), revision.HadBefore(instance, pool)} {
		if name == "" {
			continue
		}
		kept, err := l.kept(ctx, pool, name)
		if err != nil {
			return has, err
		}
		if kept != nil {
			has.Programs = append(has.Programs, kept.Programs...)
		}
	}
	return has, nil
}

// kept is a revision of a pool. Nil: there is none of that name any more, or not as it was kept.
func (l *Live) kept(ctx context.Context, pool *v1alpha1.WindowsNodePool, name string) (*revision.Revision, error) {
	reader := l.Revisions
	if reader == nil {
		reader = l.Cluster
	}
	kept, _, err := revision.Read(ctx, reader, pool, name)
	return kept, err
}

// programsToKeep are the digests of the programs that the host would go back to if the revision of its pool now broke
// it. If those are among the ones that it is sent, as after another template, it keeps those of the last revision before with others. Nil:
// that is not known, as of hosts in no pool and of revisions of earlier releases.
func (l *Live) programsToKeep(ctx context.Context, s *Snapshot, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, sent *config.Document) ([]string, error) {
	if pool == nil {
		return nil, nil
	}
	newest, err := revision.NameOf(pool, s.common.Payload)
	if err != nil {
		return nil, err
	}
	digests, err := l.digestsOf(ctx, s, pool, revision.WouldGoBackTo(instance, pool, newest))
	if err != nil || slices.ContainsFunc(digests, func(digest string) bool {
		return !slices.ContainsFunc(sent.Files, func(f config.File) bool { return f.Source.Payload != "" && f.Digest == digest })
	}) {
		return digests, err
	}
	before, err := l.digestsOf(ctx, s, pool, revision.HadBefore(instance, pool))
	if len(before) > 0 || err != nil {
		return before, err
	}
	return digests, nil
}

// digestsOf are those of the programs that hosts have of a revision of a pool, which has those for other platforms as well. Empty: there
// is none of that name, or they are not known.
func (l *Live) digestsOf(ctx context.Context, s *Snapshot, pool *v1alpha1.WindowsNodePool, name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	kept, err := l.kept(ctx, pool, name)
	if kept == nil || err != nil {
		return nil, err
	}
	var digests []string
	for _, f := range kept.Payload().For(s.common.Cluster.Platform).Files {
		digests = append(digests, "sha256:"+f.SHA256)
	}
	return digests, nil
}

// backPayload is the payload of a host that has, or goes back to, a revision. It reports false if the host gets that of now. The warning says what
// is wrong with either; empty: nothing is.
func (s *Snapshot) backPayload(to *Back, node *corev1.Node) (p document.Payload, warning string, ok bool) {
	if len(to.Revision.Programs) == 0 {
		return p, "", false
	}
	p = to.Revision.Payload()
	kubelet := kubeletOf(p)
	switch suits := s.suits(kubelet); {
	case !suits && to.has && sameMinor(kubelet, runningOn(node)): // to move it is for those who can say to what
		return p, fmt.Sprintf("the host keeps the kubelet %s, which does not suit the API server %s, because the newest revision of its pool is rolled back or was undone (status.rolledBack)", kubelet, s.servers.Lowest), true
	case !suits:
		return p, fmt.Sprintf("the host does not go back to the programs that it had: the kubelet %s does not suit the API server %s", kubelet, s.servers.Lowest), false
	case s.lacks(p, &to.onHost):
		return p, "the host gets the programs of now, as neither it nor this controller has those that the pool was rolled back to", false
	}
	return p, "", true
}

// kubeletOf is the version of the kubelet of a payload. Nil: it has none, or one that does not say it.
func kubeletOf(p document.Payload) (kubelet *utilversion.Version) {
	for _, f := range p.Files {
		if f.Path == kubeletPath {
			kubelet = release(f.Version)
		}
	}
	return kubelet
}

// suits says whether a kubelet may run with the API servers.
func (s *Snapshot) suits(kubelet *utilversion.Version) bool {
	return !newer(kubelet, s.servers.Lowest) && skewWarning(kubelet, s.servers, newest) == ""
}

// GoesBack says why hosts must not go back to programs that they had, empty if they may, and whether this process can send all of
// them. It reports false for ok while the cluster was not read, or has not what hosts need.
func (s *Source) GoesBack(p document.Payload) (why string, ships, ok bool) {
	snapshot, err := s.latest()
	if snapshot == nil || err != nil {
		return "", false, false
	}
	if kubelet := kubeletOf(p); !snapshot.suits(kubelet) {
		return fmt.Sprintf("its kubelet %s does not suit the API server %s", kubelet, snapshot.servers.Lowest), false, true
	}
	return "", snapshot.ships(p), true
}

// ships says whether each program of a payload is in one of those of this process.
func (s *Snapshot) ships(p document.Payload) bool {
	return !slices.ContainsFunc(p.Files, func(f document.PayloadFile) bool { return !s.sends(f) })
}

// sends says whether a program is in a payload of this process.
func (s *Snapshot) sends(f document.PayloadFile) bool {
	return slices.ContainsFunc(s.candidates, func(c candidate) bool {
		return slices.ContainsFunc(c.payload.Files, func(other document.PayloadFile) bool { return other.Name == f.Name && other.SHA256 == f.SHA256 })
	})
}

// lacks says whether a host cannot get a payload: one of the programs is neither on it nor in a payload of this process. A host that joins
// has the same answer before and after that, as it works with none yet.
func (s *Snapshot) lacks(p document.Payload, onHost *revision.Revision) bool {
	return slices.ContainsFunc(p.For(s.common.Cluster.Platform).Files, func(f document.PayloadFile) bool {
		return !s.sends(f) && !onHost.Has([]revision.Program{{SHA256: f.SHA256}})
	})
}

// SamePrograms says whether a revision of a pool has the same programs as one that hosts had. False: it has not, or that is not
// kept any more. It reports false for known if the revision itself is not kept, say because it is not yet.
func (s *Source) SamePrograms(ctx context.Context, pool *v1alpha1.WindowsNodePool, name, had string) (same, known bool, err error) {
	if name == "" {
		return false, false, nil
	}
	one, err := s.o.Live.kept(ctx, pool, name)
	if one == nil || err != nil {
		return false, false, err
	}
	if had == "" {
		return false, true, nil
	}
	other, err := s.o.Live.kept(ctx, pool, had)
	if other == nil || err != nil {
		return false, err == nil, err
	}
	return len(one.Programs) > 0 && one.Has(other.Programs) && other.Has(one.Programs), true, nil
}

// Payload is what new hosts get. It reports false while the cluster was not read, or has not what hosts need.
func (s *Source) Payload() (document.Payload, bool) {
	snapshot, err := s.latest()
	if snapshot == nil || err != nil {
		return document.Payload{}, false
	}
	return snapshot.common.Payload, true
}

// PoolRevision names the ControllerRevision that the desired configuration of a host is of, see Revision. Pool and node are nil
// when there is none. Empty: it is not known, or it is of none, as the host gets the template of one with the programs of now.
func (s *Source) PoolRevision(ctx context.Context, instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, node *corev1.Node) (string, error) {
	snapshot, err := s.latest()
	if snapshot == nil || err != nil || pool == nil {
		return "", nil //nolint:nilerr // what is wrong with the cluster is said by Revision
	}
	back, err := s.o.Live.backTo(ctx, snapshot, instance, pool, node)
	if err != nil {
		return "", err
	}
	return s.o.Live.revisionOf(ctx, snapshot, Host{Instance: instance, Pool: pool, Node: node, Back: back})
}

// revisionOf names the revision of its pool that the desired configuration of a host is of, which may be in none. Empty: as with
// [Source.PoolRevision].
func (l *Live) revisionOf(ctx context.Context, s *Snapshot, h Host) (string, error) {
	if h.Pool == nil {
		return "", nil
	}
	if h.Back != nil {
		if _, _, ok := s.backPayload(h.Back, h.Node); ok || len(h.Back.Revision.Programs) == 0 {
			return h.Back.Name, nil
		}
	}
	own := s.common
	if _, err := s.choosePayload(&own, h.Node, nil); err != nil {
		return "", nil //nolint:nilerr // what is wrong with the payload is said by Revision
	}
	if h.Back == nil {
		return revision.NameOf(h.Pool, own.Payload)
	}
	with := *h.Pool
	with.Spec.Template = h.Back.Revision.Template
	name, err := revision.NameOf(&with, own.Payload)
	if err != nil {
		return "", err
	}
	if kept, err := l.kept(ctx, h.Pool, name); kept == nil || err != nil {
		return "", err
	}
	return name, nil
}
