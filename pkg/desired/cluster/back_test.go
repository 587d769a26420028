// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestBack: a host that a revision broke gets back the template and the programs that it had, and everything else as it is
// now. Programs that do not suit the API server stay away, and so do those that a new host could not be sent.
func TestBack(t *testing.T) {
	undone := func(p *v1alpha1.WindowsNodePool, had string, i *v1alpha1.WindowsInstance) {
		i.Status.PoolRevision, p.Status.RolledBack.Instances, p.Status.RolledBack.RequestedBy = had, nil, "alice"
	}
	const third = "what the pool had in between"
	likeNow := func(p *v1alpha1.WindowsNodePool) {
		p.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(66))}
		newest, err := revision.NameOf(p, document.Payload{Files: payloadFiles(manifest())})
		if err != nil {
			t.Fatal(err)
		}
		p.Status.RolledBack.Revision = newest
	}
	for _, tt := range []struct {
		name, kubelet string
		// runs is the version of the kubelet that the Node says it has.
		runs string
		// edit changes the pool and the host, which was broken.
		edit func(pool *v1alpha1.WindowsNodePool, host *v1alpha1.WindowsInstance)
		// back: it gets the template that it had, and programs: the programs as well.
		back, programs bool
		// between: it gets what the pool had in between.
		between bool
		// newest: what it has then is the newest revision of its pool, which differs from the other one in the programs only.
		newest bool
		warns  string
	}{
		{name: "broken", kubelet: "v1.36.1", back: true, programs: true},
		{name: "works", kubelet: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision, p.Status.RolledBack.Instances = p.Status.RolledBack.Revision, nil
		}},
		{name: "works, and it is undone", kubelet: "v1.36.1", back: true, programs: true, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.Revision, i)
			i.Status.PreviousPoolRevision = p.Status.RolledBack.To
		}},
		{name: "works and never had another one, and it is undone", kubelet: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.Revision, i)
		}},
		{name: "worked, and was broken later", kubelet: "v1.36.1", back: true, programs: true, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision, i.Status.PreviousPoolRevision = p.Status.RolledBack.Revision, p.Status.RolledBack.To
		}},
		{name: "worked and never had another one, and was broken later", kubelet: "v1.36.1", back: true, warns: "gets the programs of now", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision = p.Status.RolledBack.Revision
		}},
		{name: "broken before it ever worked", kubelet: "v1.36.1", back: true, warns: "gets the programs of now", edit: func(_ *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision = ""
		}},
		{name: "it is undone, and it has no programs", kubelet: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision, p.Status.RolledBack.RequestedBy, p.Status.RolledBack.WithoutPrograms = p.Status.RolledBack.Revision, "alice", []string{i.Name}
		}},
		{name: "somebody has resumed", kubelet: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, _ *v1alpha1.WindowsInstance) {
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = &p.Status.RolledBack.Time
		}},
		{name: "another template", kubelet: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, _ *v1alpha1.WindowsInstance) {
			p.Spec.Template.NodeLabels = map[string]string{"rack": "7"}
		}},
		{name: "too old", kubelet: "v1.32.9", back: true, warns: "the kubelet 1.32.9 does not suit the API server 1.36.0"},
		{name: "oldest", kubelet: "v1.33.0", back: true, programs: true},
		{name: "too new", kubelet: "v1.37.0", back: true, warns: "the kubelet 1.37.0 does not suit the API server 1.36.0"},
		{name: "too old, and it was broken by another one", kubelet: "v1.32.9", runs: "v1.32.9", back: true, warns: "the kubelet 1.32.9 does not suit the API server 1.36.0"},
		{name: "too old, and the rollback keeps it from another one", kubelet: "v1.32.9", runs: "v1.32.1", back: true, programs: true, warns: "the host keeps the kubelet 1.32.9, which does not suit the API server 1.36.0", edit: func(p *v1alpha1.WindowsNodePool, _ *v1alpha1.WindowsInstance) {
			p.Status.RolledBack.Instances = nil
		}},
		{name: "it is undone and too old, and the host works with another one", kubelet: "v1.32.9", runs: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.Revision, i)
		}},
		{name: "it is undone and too old, and the host is on its way back", kubelet: "v1.32.9", runs: "v1.32.9", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.Revision, i)
		}},
		{name: "it is undone and too old, and the host works with what was in between", kubelet: "v1.32.9", runs: "v1.36.1", between: true, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, third, i)
		}},
		{name: "it is undone and too old, and the host is back", kubelet: "v1.32.9", runs: "v1.32.9", back: true, programs: true, warns: "the host keeps the kubelet 1.32.9, which does not suit the API server 1.36.0", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.To, i)
		}},
		{name: "it is undone and too new, and the host is back", kubelet: "v1.37.0", runs: "v1.37.0", back: true, programs: true, warns: "the host keeps the kubelet 1.37.0, which does not suit the API server 1.36.0", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.To, i)
		}},
		{name: "it is undone and too old, and the host was back", kubelet: "v1.32.9", runs: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.To, i)
		}},
		{name: "it is undone and too old, and the host is no node any more", kubelet: "v1.32.9", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, p.Status.RolledBack.To, i)
			i.Status.Node = nil
		}},
		{name: "it is undone and too old, and the host never worked", kubelet: "v1.32.9", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, "", i)
		}},
		{name: "it is undone, and the host is new", kubelet: "v1.36.1", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			undone(p, "", i)
			i.Status.Node, i.Status.CurrentRevision = nil, ""
		}},
		{name: "new host", kubelet: "v1.36.1", back: true, warns: "gets the programs of now", edit: func(_ *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.Node, i.Status.PoolRevision, i.Status.CurrentRevision = nil, "", ""
		}},
		{name: "new host that has joined", kubelet: "v1.36.1", back: true, warns: "gets the programs of now", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision, p.Status.RolledBack.Instances = "", nil
		}},
		{name: "new host, after an update of the programs only", kubelet: "v1.36.1", back: true, newest: true, warns: "gets the programs of now", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.PoolRevision, p.Status.RolledBack.Instances = "", nil
			likeNow(p)
		}},
		{name: "new host, after an update of the programs only, which works", kubelet: "v1.36.1", back: true, newest: true, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			likeNow(p)
			i.Status.PoolRevision, p.Status.RolledBack.Instances = p.Status.RolledBack.Revision, nil
		}},
		{name: "its Node is gone", kubelet: "v1.36.1", back: true, programs: true, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.Node, p.Status.RolledBack.Instances = nil, nil
		}},
		{name: "broken, and its Node is gone", kubelet: "v1.36.1", back: true, programs: true, edit: func(_ *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance) {
			i.Status.Node = nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "pool", UID: "uid"}}
			pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(66))}
			now := document.Payload{Files: payloadFiles(manifest())}
			earlier := document.Payload{Files: slices.Clone(now.Files)}
			for i := range earlier.Files {
				if f := &earlier.Files[i]; f.Path == kubeletPath {
					f.Version, f.SHA256 = tt.kubelet, strings.Repeat("cd", 32)
				}
			}
			keep := func(p document.Payload) *appsv1.ControllerRevision {
				r := revision.Of(pool, p)
				data, err := r.Encode()
				if err != nil {
					t.Fatal(err)
				}
				return &appsv1.ControllerRevision{
					ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: revision.Name(pool, data), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "p", Name: "pool", UID: "uid", Controller: new(true)}}},
					Data:       runtime.RawExtension{Raw: data},
				}
			}
			kept := keep(earlier)
			pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(55))}
			between := keep(now)
			pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(77))}
			newest, err := revision.NameOf(pool, now)
			if err != nil {
				t.Fatal(err)
			}
			host := instance()
			host.Spec.PoolRef = &v1alpha1.PoolReference{Name: "pool"}
			host.Status.Node, host.Status.PoolRevision = &v1alpha1.NodeReference{Name: "win-1", UID: "node-1"}, kept.Name
			host.Status.CurrentRevision = "what it has"
			pool.Status.RolledBack = &v1alpha1.PoolRollback{Revision: newest, To: kept.Name, Time: metav1.Unix(1_700_000_000, 0), Instances: []string{host.Name}}
			if tt.edit != nil {
				tt.edit(pool, host)
			}
			if host.Status.PoolRevision == third {
				host.Status.PoolRevision = between.Name
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "node-1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: tt.runs}}}
			live, c := newLive(t, pool, node, kept, between, keep(now))
			live.Settings.ServerVersion = func(context.Context) (Servers, error) {
				return Servers{Lowest: utilversion.MustParseGeneric("1.36.0"), Settled: true}, nil
			}
			result, _, err := live.Build(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			pods := `"maxPods":77`
			switch {
			case tt.back:
				pods = `"maxPods":66`
			case tt.between:
				pods = `"maxPods":55`
			}
			for _, file := range result.Bundle.Document.Files {
				switch {
				case file.Path == wmco.KubeletConfigPath && !strings.Contains(*file.Source.Text, pods):
					t.Errorf("the kubelet has no %s: %s", pods, *file.Source.Text)
				case file.Path == kubeletPath && (file.Digest == "sha256:"+strings.Repeat("cd", 32)) != tt.programs:
					t.Errorf("the kubelet is %s", file.Digest)
				}
			}
			if got := strings.Join(result.Warnings, "\n"); !strings.Contains(got, tt.warns) || (tt.warns == "") != (got == "") {
				t.Errorf("warnings %q", got)
			}
			hostNode := node
			if host.Status.Node == nil {
				hostNode = nil
			}
			source := newSource(t, c, &issuer{})
			source.o.Live.Settings = live.Settings
			built, err := source.Build(t.Context(), host, hostNode, "")
			if err != nil || built.Revision != result.Revision {
				t.Errorf("the controller builds something else: %v", err)
			}
			if newest, err = revision.NameOf(pool, now); err != nil { // it may have another template
				t.Fatal(err)
			}
			want := newest
			switch {
			case tt.between:
				want = between.Name
			case tt.back && tt.programs:
				want = kept.Name
			case tt.back && !tt.newest: // it is of none
				want = ""
			}
			if got, err := source.PoolRevision(t.Context(), host, pool, hostNode); err != nil || got != want || built.PoolRevision != want {
				t.Errorf("it is of %s, and what is built of %s, want %s: %v", got, built.PoolRevision, want, err)
			}

			if tt.between { // what its pool was taken back to is none of its business
				kept = between
			}
			if err := c.Delete(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
			back := revision.BackTo(host, pool, newest) != ""
			var missing *InputError
			if _, _, err := live.Build(t.Context(), host); errors.As(err, &missing) != back || back && !strings.Contains(err.Error(), "kubectl windows rollout resume pool -n hosts") {
				t.Errorf("what it goes back to is gone: %v", err)
			}
		})
	}
}

// TestProgramsToKeep: a host keeps the programs of what it worked with, however many revisions its pool had since; one that works
// with the newest keeps those of the last that all hosts of the pool worked with.
func TestProgramsToKeep(t *testing.T) {
	const earlier, other, onlyElsewhere = "cd", "ef", "the programs of now, and another one for another platform"
	for _, tt := range []struct {
		name string
		edit func(pool *v1alpha1.WindowsNodePool, host *v1alpha1.WindowsInstance, newest string)
		gone bool
		// elsewhere: the payload has a program that only hosts of another platform get.
		elsewhere bool
		want      string // the kubelet that is kept; empty: nobody says which
	}{
		{name: "it worked with another one", want: earlier},
		{name: "it works with the newest", want: other, edit: func(_ *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, newest string) {
			i.Status.PoolRevision = newest
		}},
		{name: "it never worked", want: other, edit: func(_ *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, _ string) {
			i.Status.PoolRevision = ""
		}},
		{name: "it goes back", want: earlier, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, newest string) {
			p.Status.RolledBack = &v1alpha1.PoolRollback{Revision: newest, To: p.Status.CurrentRevision, Instances: []string{i.Name}}
		}},
		{name: "it works with what is rolled back", want: other, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, newest string) {
			p.Status.RolledBack = &v1alpha1.PoolRollback{Revision: newest, To: p.Status.CurrentRevision}
			p.Status.CurrentRevision, i.Status.PoolRevision = "", newest
		}},
		{name: "it gets another template with the programs that it has", want: other, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, newest string) {
			i.Status.PoolRevision, i.Status.PreviousPoolRevision = newest, p.Status.CurrentRevision
			p.Spec.Template.NodeLabels = map[string]string{"rack": "7"}
		}},
		{name: "likewise, and a program of the payload is not for its platform", elsewhere: true, want: other, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, newest string) {
			i.Status.PoolRevision, i.Status.PreviousPoolRevision = newest, p.Status.CurrentRevision
			p.Spec.Template.NodeLabels = map[string]string{"rack": "7"}
		}},
		{name: "it gets a payload that is another one only on other platforms", elsewhere: true, want: other, edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, _ string) {
			i.Status.PoolRevision, i.Status.PreviousPoolRevision = onlyElsewhere, p.Status.CurrentRevision
		}},
		{name: "the pool is new", edit: func(p *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, _ string) {
			p.Status.CurrentRevision, i.Status.PoolRevision = "", ""
		}},
		{name: "it is in no pool", edit: func(_ *v1alpha1.WindowsNodePool, i *v1alpha1.WindowsInstance, _ string) {
			i.Spec.PoolRef = nil
		}},
		{name: "the revision is gone", gone: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "pool", UID: "uid"}}
			shipped := manifest()
			if tt.elsewhere {
				shipped.Files = append(shipped.Files, payload.File{
					Slot:    payload.Slot{Name: "ecr-credential-provider.exe", Path: `C:\k\ecr-credential-provider.exe`},
					Content: payload.Content{Size: 1, SHA256: strings.Repeat("12", 32)},
				})
			}
			now := document.Payload{Files: payloadFiles(shipped)}
			newest, err := revision.NameOf(pool, now)
			if err != nil {
				t.Fatal(err)
			}
			keep := func(kubelet, provider string) *appsv1.ControllerRevision {
				p := document.Payload{Files: slices.Clone(now.Files)}
				for i := range p.Files {
					if f := &p.Files[i]; f.Path == kubeletPath && kubelet != "" {
						f.SHA256 = strings.Repeat(kubelet, 32)
					}
					if f := &p.Files[i]; f.Name == "ecr-credential-provider.exe" && provider != "" {
						f.SHA256 = strings.Repeat(provider, 32)
					}
				}
				r := revision.Of(pool, p)
				data, err := r.Encode()
				if err != nil {
					t.Fatal(err)
				}
				return &appsv1.ControllerRevision{
					ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: revision.Name(pool, data), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "p", Name: "pool", UID: "uid", Controller: new(true)}}},
					Data:       runtime.RawExtension{Raw: data},
				}
			}
			worked, all, sameAsNow, alsoSame := keep(earlier, ""), keep(other, ""), keep("", ""), keep("", "34")
			host := instance()
			host.Spec.PoolRef, host.Status.PoolRevision, pool.Status.CurrentRevision = &v1alpha1.PoolReference{Name: "pool"}, worked.Name, all.Name
			if tt.edit != nil {
				tt.edit(pool, host, newest)
			}
			if host.Status.PoolRevision == onlyElsewhere {
				host.Status.PoolRevision = alsoSame.Name
			}
			objects := []client.Object{pool, worked, all, sameAsNow}
			if tt.elsewhere {
				objects = append(objects, alsoSame)
			}
			live, c := newLive(t, objects...)
			live.Settings.Payloads[0] = shipped
			for _, with := range []struct {
				a, b        string
				same, known bool
			}{
				{worked.Name, all.Name, false, true},
				{worked.Name, worked.Name, true, true},
				{worked.Name, "pool-" + strings.Repeat("0", 32), false, true},
				{worked.Name, "", false, true},
				{"pool-" + strings.Repeat("0", 32), worked.Name, false, false}, // it is not kept yet
				{"", worked.Name, false, false},
			} {
				if same, known, err := newSource(t, c, &issuer{}).SamePrograms(t.Context(), pool, with.a, with.b); err != nil || same != with.same || known != with.known {
					t.Errorf("the programs of %q and %q are the same: %t, %t, %v", with.a, with.b, same, known, err)
				}
			}
			if tt.gone {
				if err := c.Delete(t.Context(), worked); err != nil {
					t.Fatal(err)
				}
			}
			source := newSource(t, c, &issuer{})
			source.o.Live.Settings = live.Settings
			built, err := source.Build(t.Context(), host, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, digest := range built.Keep {
				if err := config.CheckDigest(digest); err != nil {
					t.Error(err)
				}
				if text := strings.TrimPrefix(digest, "sha256:"); text == strings.Repeat(text[:2], 32) && (text[:2] == earlier || text[:2] == other) {
					got = text[:2]
				}
			}
			if got != tt.want || tt.want != "" && len(built.Keep) != len(payloadFiles(manifest())) || tt.want == "" && built.Keep != nil {
				t.Errorf("it keeps %q of %d, want %q", got, len(built.Keep), tt.want)
			}
		})
	}
}
