// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// kubeletFile is a configuration of the kubelet with as many pods.
func kubeletFile(maxPods int, rest string) config.File {
	f := textFile(`C:\k\kubelet.conf`, kubeletText(maxPods, rest), config.OnChange{Impact: config.ImpactDrain, Services: []string{"kubelet"}})
	f.Format = config.FormatKubelet
	return f
}

func kubeletText(maxPods int, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":%d%s}`, maxPods, rest)
}

// TestImpactOfTheConfigurationOfTheKubelet: the Node is drained for it only where the kubelet could reject pods that it runs.
func TestImpactOfTheConfigurationOfTheKubelet(t *testing.T) {
	const path = `c:\k\kubelet.conf`
	first, _ := bundles(t)
	with := func(f config.File) config.Bundle {
		b := first
		b.Document.Files = slices.Clone(b.Document.Files)
		b.Document.Files[4] = f
		return b
	}
	theirs := func(content string) func(f *fake) {
		return func(f *fake) { f.files[path] = fakeFile{Content: content, changed: f.ticks} }
	}
	tests := []struct {
		name   string
		change func(f *fake) // the host, which has 100 pods. Nil: nobody has changed it.
		want   config.File
		impact config.Impact
		reason string // part of it
	}{
		{name: "the same", want: kubeletFile(100, ""), impact: config.ImpactNone},
		{name: "another setting", want: kubeletFile(100, `,"clusterDomain":"x"`), impact: config.ImpactRestart, reason: "the content differs"},
		{name: "more pods", want: kubeletFile(101, ""), impact: config.ImpactRestart, reason: "the content differs"},
		{name: "fewer pods", want: kubeletFile(99, ""), impact: config.ImpactDrain, reason: "pods may get less than before: maxPods"},
		{name: "less memory", want: kubeletFile(100, `,"systemReserved":{"memory":"1Gi"}`), impact: config.ImpactDrain, reason: "systemReserved.memory"},
		{name: "what costs less by the document", want: textFile(`C:\k\kubelet.conf`, kubeletText(99, ""), restarts("kubelet")), impact: config.ImpactRestart},
		{name: "somebody has raised it", change: theirs(kubeletText(110, "")), want: kubeletFile(105, ""), impact: config.ImpactDrain, reason: "maxPods"},
		{name: "somebody has lowered it, and not restarted the kubelet", change: theirs(kubeletText(90, "")), want: kubeletFile(95, ""), impact: config.ImpactDrain, reason: "maxPods"},
		{name: "somebody has lowered it", change: theirs(kubeletText(90, "")), want: kubeletFile(100, ""), impact: config.ImpactRestart},
		{name: "somebody has made it YAML", change: theirs("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n"), want: kubeletFile(100, ""), impact: config.ImpactDrain, reason: "cannot be compared"},
		{name: "somebody has made it a large one", change: theirs(strings.Repeat(" ", maxStateFile+1)), want: kubeletFile(100, ""), impact: config.ImpactDrain, reason: "cannot be compared"},
		{name: "removed", change: func(f *fake) { delete(f.files, path) }, want: kubeletFile(100, ""), impact: config.ImpactRestart, reason: "is missing"},
		{name: "removed, and fewer pods", change: func(f *fake) { delete(f.files, path) }, want: kubeletFile(99, ""), impact: config.ImpactDrain, reason: "is missing; pods may get less than before: maxPods"},
		{name: "removed, and what was applied is not known", change: func(f *fake) {
			delete(f.files, path)
			f.files[fold(appliedPath)] = fakeFile{Content: "{}"}
		}, want: kubeletFile(101, ""), impact: config.ImpactDrain, reason: "is not known"},
		{name: "what was applied is not known", change: func(f *fake) { f.files[fold(appliedPath)] = fakeFile{Content: "{}"} }, want: kubeletFile(101, ""), impact: config.ImpactRestart},
		{name: "the kubelet is stopped", change: func(f *fake) {
			f.changeSettings("kubelet", func(s *fakeService) { s.state = ServiceStopped })
		}, want: kubeletFile(99, ""), impact: config.ImpactDrain, reason: "maxPods"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := with(kubeletFile(100, "")), with(tt.want)
			f := usedHost(t, before)
			if p, err := engineOf(f).Plan(t.Context(), &before); err != nil || slices.ContainsFunc(p.Items, func(i api.Item) bool { return i.Name == after.Document.Files[4].Path && i.Reason != "is missing" }) {
				t.Errorf("a host without a kubelet: %+v, %v", p, err)
			}
			converge(t, f, before)
			if tt.change != nil {
				tt.change(f)
			}
			p, err := engineOf(f).Plan(t.Context(), &after)
			if err != nil {
				t.Fatal(err)
			}
			if p.Impact != tt.impact {
				t.Errorf("the impact is %s, want %s: %+v", p.Impact, tt.impact, p.Items)
			}
			at := slices.IndexFunc(p.Items, func(i api.Item) bool { return i.Name == after.Document.Files[4].Path })
			switch {
			case at < 0 && tt.impact != config.ImpactNone:
				t.Error("it is not in the plan")
			case at >= 0 && !strings.Contains(p.Items[at].Reason, tt.reason), at >= 0 && tt.impact == config.ImpactRestart && strings.Contains(p.Items[at].Reason, ";"):
				t.Errorf("the reason is %q, want %q", p.Items[at].Reason, tt.reason)
			}
			if p.Impact == config.ImpactDrain {
				if r := engineOf(f).Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactRestart, Bundle: after}); r.Outcome != api.OutcomeImpactExceeded {
					t.Errorf("without a drain: %+v", r)
				}
			}
			converge(t, f, after)
			if got := f.files[path].Content; got != *tt.want.Source.Text {
				t.Errorf("the host has %q", got)
			}
		})
	}
}

// TestRepairOfTheConfigurationOfTheKubelet: the service repairs it where no pod is at risk.
func TestRepairOfTheConfigurationOfTheKubelet(t *testing.T) {
	const path = `c:\k\kubelet.conf`
	b, _ := bundles(t)
	b.Document.Files = slices.Clone(b.Document.Files)
	b.Document.Files[4] = kubeletFile(100, "")
	for content, repaired := range map[string]bool{kubeletText(90, ""): true, kubeletText(110, ""): false, "": true, "\x00\x00\x00\x00": true, kubeletText(110, "")[:60]: true} {
		f := usedHost(t, b)
		converge(t, f, b)
		if delete(f.files, path); content != "" {
			f.files[path] = fakeFile{Content: content, changed: f.ticks}
		}
		drift, err := keeperOf(f).repair(t.Context())
		if err != nil || len(drift.Repaired) == 1 != repaired || len(drift.Left) == 0 != repaired {
			t.Errorf("%q: got %+v, %v", content, drift, err)
		}
		if is := f.files[path].Content == kubeletText(100, ""); is != repaired {
			t.Errorf("%q: repaired is %t, want %t", content, is, repaired)
		}
	}
}
