// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// formerPayload is the version of the payload that the hosts of TestProgramsGoBack work with before they get that of the stand-ins.
const formerPayload = "v1.37.0"

// programs are those of a payload of stand-ins.
type programs struct {
	version string
	// kubelet is the digest of kubelet.exe.
	kubelet [sha256.Size]byte
}

// programsOf reads the directory of a payload.
func programsOf(t *testing.T, payload, version string) programs {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(payload, "files", "kubelet.exe"))
	if err != nil {
		t.Fatal(err)
	}
	return programs{version, sha256.Sum256(content)}
}

// mustRun fails the test unless the host has the kubelet of a payload, and its Node says so.
func (p programs) mustRun(t *testing.T, h *siteHost) {
	t.Helper()
	if sha256.Sum256([]byte(h.read(t, wmco.KubernetesDir+`\kubelet.exe`))) != p.kubelet {
		t.Errorf("%s does not have kubelet.exe of payload %s, but %q", h.name, p.version, h.read(t, wmco.KubernetesDir+`\kubelet.exe`))
	}
	if got := h.node(t, h.name).Status.NodeInfo.KubeletVersion; got != p.version {
		t.Errorf("the kubelet of %s is %s, want %s", h.name, got, p.version)
	}
}

// TestProgramsGoBack: the controller is replaced by one with another payload, whose kubelet does not start on a host. The pool is rolled back, and
// the host gets back the programs that it has kept, which the controller does not have any more. When somebody resumes the rollout, all hosts get the
// new ones.
func TestProgramsGoBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, standin.PayloadOptions{Version: formerPayload})
	f := &fleet{site: s, namespace: s.namespace(t, "programs"), name: "fleet"}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}}}
	pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds = new(int32(1))
	pool.Spec.UpdateStrategy.RollingUpdate.OnFailure = v1alpha1.FailureRollback
	if _, err := s.Windows.WindowsV1alpha1().WindowsNodePools(f.namespace).Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		h := s.newHost(t, f.namespace, fmt.Sprintf("programs-%d", n), winhost.Options{})
		h.declare(t, inPool(f.name))
		f.hosts = append(f.hosts, h)
	}
	former := programsOf(t, s.payload, formerPayload)
	f.waitUpdated(t)
	worked := f.wait(t, "all hosts work with the first revision", func(p *v1alpha1.WindowsNodePool) error {
		if p.Status.CurrentRevision == "" || p.Status.CurrentRevision != p.Status.UpdateRevision {
			return fmt.Errorf("current revision %q, update revision %q", p.Status.CurrentRevision, p.Status.UpdateRevision)
		}
		return nil
	}).Status.CurrentRevision
	for _, h := range f.hosts {
		former.mustRun(t, h)
	}

	broken := f.hosts[1]
	setFault(t, broken.host, winhost.Fault{FailStart: wmco.KubeletService})
	if err := errors.Join(s.Controller.Stop(), os.RemoveAll(s.payload), standin.WritePayload(t.Context(), s.payload, standin.PayloadOptions{}), s.StartController(t.Context())); err != nil {
		t.Fatal(err)
	}
	newest := programsOf(t, s.payload, standin.Version)
	back := f.wait(t, "it goes back", func(p *v1alpha1.WindowsNodePool) error {
		if p.Status.RolledBack == nil {
			return fmt.Errorf("blocked by %q", p.Status.BlockedBy)
		}
		return nil
	}).Status.RolledBack
	if !slices.Equal(back.Instances, []string{broken.name}) || back.To != worked || back.Revision == worked {
		t.Errorf("it goes back from %s to %s because of %v, want to %s because of %s", back.Revision, back.To, back.Instances, worked, broken.name)
	}
	s.Controller.Kill9()
	setFault(t, broken.host, winhost.Fault{})
	if err := s.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	wentBack := broken.wait(t, "it works with what it had", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.PoolRevision != back.To {
			return fmt.Errorf("revision %s, want %s\n%s", i.Status.PoolRevision, back.To, describeOperation(i))
		}
		return isSetUp(i)
	})
	former.mustRun(t, broken)
	if broken.node(t, broken.name).Spec.Unschedulable {
		t.Errorf("%s is cordoned", broken.name)
	}
	if got := wentBack.Status.PreviousPoolRevision; got != "" {
		t.Errorf("%s is said to have the programs of %s besides", broken.name, got)
	}
	for _, h := range f.hosts {
		// Who had got the new ones works with them, and keeps them; the others do not get them.
		has := map[string]programs{back.To: former, back.Revision: newest}[h.waitReady(t).Status.PoolRevision]
		has.mustRun(t, h)
	}
	f.wait(t, "it says that it was rolled back", func(p *v1alpha1.WindowsNodePool) error {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonRolledBack {
			return fmt.Errorf("%+v", c)
		}
		return mustHave(c.Message, "Revision "+back.Revision+" broke "+broken.name+": ", "kubectl windows rollout resume "+f.name+" -n "+f.namespace)
	})

	stdout, stderr, code := plugin(t, s.System, "rollout", "-n", f.namespace, "resume", f.name)
	if code != 0 {
		t.Fatalf("code %d\n%s%s", code, stdout, stderr)
	}
	mustSay(t, stdout, "windowsnodepool/fleet resumed\nHosts get revision "+back.Revision+" again, which was rolled back because it broke hosts.\n")
	f.wait(t, "the rollback is over", func(p *v1alpha1.WindowsNodePool) error {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded)
		if p.Status.RolledBack != nil || p.Status.CurrentRevision != back.Revision || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("%+v\n%+v", c, p.Status)
		}
		return nil
	})
	f.waitUpdated(t)
	for _, h := range f.hosts {
		newest.mustRun(t, h)
	}
}
