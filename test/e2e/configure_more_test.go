// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/agenthost"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// agentFiles is where the agent is put, as the state of a host names it.
const agentFiles = "Windows/windows-node-agent"

// configurePowerLoss takes the power from a host while files are sent to it, and again
// while it is being changed. Nobody has asked for that.
func configurePowerLoss(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-power")
	h := s.newHost(t, namespace, "cfg-power", winhost.Options{})
	h.declare(t, nil)
	for _, step := range []string{v1alpha1.StepTransfer, v1alpha1.StepApply} {
		h.waitStep(t, step)
		if err := errors.Join(h.host.PowerOff(), h.host.PowerOn()); err != nil {
			t.Fatal(err)
		}
	}
	h.settleFailed(t)
	h.waitReady(t)
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
}

// mustHaveOnlyTheAgent fails the test if there is anything new on the host but for the agent.
func (h *siteHost) mustHaveOnlyTheAgent(t *testing.T) {
	t.Helper()
	if difference := h.state(t).difference(h.before, agentFiles); difference != "" {
		t.Errorf("on a host that is not fit to be a node something was changed:\n%s", difference)
	}
	if n := h.kubelets.Load(); n > 0 {
		t.Errorf("the kubelet was started %d times", n)
	}
	if request := h.joinRequest(t); request != "" {
		t.Errorf("for a host that is not fit to be a node there is CertificateSigningRequest %s", request)
	}
}

// waitFinding waits until the host is told to be unfit, for the reason that want says.
func (h *siteHost) waitFinding(t *testing.T, want ...string) {
	t.Helper()
	i := h.wait(t, "the host is not fit to be a node", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionPreflightPassed); c == nil || c.Reason != v1alpha1.ReasonFindings {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	mustSay(t, messageOf(t, i, v1alpha1.ConditionPreflightPassed), want...)
}

// configureWrongClock has a host whose clock is wrong by more than an hour: its kubelet would
// find its certificates not valid yet, and its tokens over. When the clock of one that is a
// node goes wrong, that is told, and nothing is done to it; and it can be cleaned.
func configureWrongClock(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-clock")
	var wrong atomic.Int64
	wrong.Store(int64(-61 * time.Minute))
	h := s.newHost(t, namespace, "cfg-clock", winhost.Options{InProcess: winhost.InProcessOptions{
		Clock: func() time.Time { return time.Now().UTC().Add(time.Duration(wrong.Load())) },
	}})
	h.declare(t, nil)
	h.waitFinding(t, "the clock of the host is more than an hour behind")
	if op := h.get(t).Status.Operation; op != nil {
		t.Errorf("there is operation %s", op.Type)
	}
	op := h.waitOperation(t, h.reconfigure(t).ID) // somebody wants it all the same
	mustSay(t, op.Message, "not fit to be a node: the clock of the host is more than an hour behind")
	h.mustHaveOnlyTheAgent(t)

	wrong.Store(0)
	h.wait(t, "the clock is right", func(i *v1alpha1.WindowsInstance) error {
		if !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionPreflightPassed) {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationSucceeded { // by itself that takes a minute
		t.Errorf("with the right time it is %s: %s", op.Phase, op.Message)
	}
	ready, starts := h.waitReady(t), h.kubelets.Load()

	wrong.Store(int64(61 * time.Minute))
	h.waitFinding(t, "the clock of the host is more than an hour ahead")
	if i := h.get(t); i.Status.Operation.ID != ready.Status.Operation.ID || h.kubelets.Load() != starts || !nodeIsReady(h.node(t, h.name)) {
		t.Errorf("something was done about it: the kubelet was started %d times\n%s", h.kubelets.Load()-starts, describeOperation(i))
	}
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
}

// theirs is what the settings of a host say when somebody changes it by hand.
func (h *siteHost) theirs(t *testing.T) *agenthost.System {
	t.Helper()
	return agenthost.NewSystem(h.local(t, `C:\`), func() (string, error) { return "by hand", nil })
}

// configureForeignRuntime has a host on which somebody runs a containerd of their own: it is
// left alone, whether that is found before the host is judged or after.
func configureForeignRuntime(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-foreign")
	var hidden atomic.Bool
	hidden.Store(true)
	h := s.newHost(t, namespace, "cfg-foreign", winhost.Options{InProcess: winhost.InProcessOptions{Facts: func(f *api.Facts) {
		if hidden.Load() {
			f.Services = slices.DeleteFunc(f.Services, func(s api.Service) bool { return s.Name == wmco.ContainerdService })
		}
	}}})
	clean := h.before
	settings := config.ServiceSettings{CommandLine: `C:\theirs\containerd.exe`, Description: "of somebody else", StartType: config.StartAutomatic}
	if err := h.theirs(t).CreateService(wmco.ContainerdService, settings, nil); err != nil {
		t.Fatal(err)
	}
	h.before = h.state(t)
	h.declare(t, nil)
	h.waitFailed(t, "service containerd", "was not created by this agent")
	h.mustHaveOnlyTheAgent(t)
	if _, err := h.Kube.CoreV1().Nodes().Get(t.Context(), h.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a Node: %v", err)
	}

	hidden.Store(false)
	h.waitFinding(t, "service containerd was installed by somebody else", "remove it, or use another host")
	h.mustHaveOnlyTheAgent(t)

	if err := h.theirs(t).DeleteService(wmco.ContainerdService); err != nil {
		t.Fatal(err)
	}
	h.before = clean
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("without their containerd it is %s: %s", op.Phase, op.Message)
	}
	h.waitReady(t)
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
}

// shortLease has a controller take part in the election of a leader, which is replaced soon when it is killed, and does not end on a busy machine.
var shortLease = []string{"--leader-elect=true", "--leader-elect-lease-duration=40s", "--leader-elect-renew-deadline=30s", "--leader-elect-retry-period=2s"}

// candidate starts a controller that takes part in the election of a leader, beside that of
// the site. number tells its ports from those of others.
func (s *site) candidate(t *testing.T, path string, args []string, number int) *controlplane.Process {
	t.Helper()
	name := fmt.Sprintf("windows-controller-%d", number)
	health := fmt.Sprintf("%s:%d", s.HostIP(), 8081+number)
	p, err := controlplane.StartProcess(t.Context(), controlplane.Command{
		Name: name, Path: path, LogFile: filepath.Join(s.Dir(), "log", name+".log"),
		// The last of two values for a flag counts.
		Args: slices.Concat(args, shortLease, []string{
			"--health-probe-bind-address=" + health, fmt.Sprintf("--metrics-bind-address=%s:%d", s.HostIP(), 8443+number),
		}),
		Ready: func(ctx context.Context) error { return answersOK(ctx, "http://"+health+"/readyz") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_, _ = fmt.Fprintf(t.Output(), "%s (%v):\n%s\n", name, p.Err(), p.LogTail())
		}
		p.Kill9()
	})
	return p
}

func answersOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// leader is who holds the Lease of the controllers. Empty: nobody has.
func (s *site) leader(t *testing.T) string {
	t.Helper()
	lease, err := s.Kube.CoordinationV1().Leases(system.Namespace).Get(t.Context(), "windows-controller", metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && lease.Spec.HolderIdentity == nil {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// waitLeader waits until another one leads than before, and returns who does. Empty: nobody did.
func (s *site) waitLeader(t *testing.T, before string) (now string) {
	t.Helper()
	eventually(t, "another one leads", func() error {
		if now = s.leader(t); now == before || now == "" {
			return fmt.Errorf("%q does", now)
		}
		return nil
	})
	return now
}

// configureWithLostLeader stops the process that leads in the middle of its work, until
// another one leads, and then lets it go on: that is when there are two that think the
// hosts are theirs. The first one goes as soon as it notices, and no host is restarted, and
// no kubelet started, twice.
func configureWithLostLeader(t *testing.T, s *site) {
	path, args := commandOf(t, s.Controller)
	s.Controller.Kill9()
	first := s.candidate(t, path, args, 1)
	leader := s.waitLeader(t, "")
	second := s.candidate(t, path, args, 2)

	namespace := s.namespace(t, "cfg-leader")
	hosts := make([]*siteHost, 4)
	for n := range hosts {
		hosts[n] = s.newHost(t, namespace, fmt.Sprintf("cfg-leader-%d", n), winhost.Options{})
		// Long enough for the others to be in the middle when one is.
		setFault(t, hosts[n].host, winhost.Fault{Latency: time.Duration(20*n) * time.Millisecond})
	}
	for _, h := range hosts {
		h.declare(t, nil)
	}
	hosts[0].waitStep(t, v1alpha1.StepApply)
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.waitLeader(t, leader)
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Done():
	case <-time.After(patience):
		t.Errorf("the first one goes on:\n%s", first.LogTail())
	case <-t.Context().Done():
	}
	for _, h := range hosts {
		if i := h.waitReady(t); len(i.Status.History) > 0 {
			t.Errorf("%s was set up more than once: %v", h.name, i.Status.History)
		}
		if n := h.host.Restarts(); n != 1 {
			t.Errorf("%s was restarted %d times, want once", h.name, n)
		}
		if n := h.kubelets.Load(); n != 1 {
			t.Errorf("the kubelet of %s was started %d times, want once", h.name, n)
		}
	}
	if err := errors.Join(second.Stop(), s.Controller.Restart(t.Context())); err != nil {
		t.Error(err)
	}
}
