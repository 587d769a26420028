// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// former is what an API server is told that is to be as those of the version before, and formerKubelet a kubelet of that.
const former, formerKubelet = "--emulated-version=1.36", "v1.36.4"

// emulate restarts the API server as one of the version before, or as what it is.
func emulate(t *testing.T, s *site, before bool) {
	t.Helper()
	s.APIServer.Kill9() // it would wait for those that watch
	if err := s.APIServer.RestartWith(t.Context(), func(args []string) []string {
		args = slices.DeleteFunc(args, func(arg string) bool { return arg == former })
		if before {
			args = append(args, former)
		}
		return args
	}); err != nil {
		t.Fatal(err)
	}
	wantRefusedUntilNow(s.System)
	// Any change of an input has the version read, too, and not in a minute.
	touch := fmt.Sprintf(`{"metadata":{"annotations":{"emulates":"%t"}}}`, before)
	if _, err := s.Kube.CoreV1().ConfigMaps(metav1.NamespacePublic).Patch(t.Context(), "cluster-info", types.MergePatchType, []byte(touch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestPayloadsSideBySide: with payloads of two minor versions hosts follow the API server: they get the kubelet that it permits, a newer
// one when it is upgraded, and no older one again. If no payload fits, they stay as they are.
func TestPayloadsSideBySide(t *testing.T) {
	t.Parallel()
	const older, newer = formerKubelet, "v1.37.1"
	payloads := t.TempDir()
	for _, version := range []string{older, newer} {
		if err := standin.WritePayload(t.Context(), filepath.Join(payloads, version), standin.PayloadOptions{Version: version}); err != nil {
			t.Fatal(err)
		}
	}
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{signer: signer, payload: payloads, System: startSystem(t, system.Options{
		PrivateKey: key, Payload: payloads, ControlPlane: controlplane.Options{APIServerArgs: []string{former}},
		ControllerArgs: []string{"--dial-timeout=2s", "--recheck-interval=5s", "--api-server-settle-time=1s"},
	})}
	namespace := s.namespace(t, "minors")
	version, err := s.Kube.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Minor != "37" || !strings.HasPrefix(version.GitVersion, "v1.37.") || version.EmulationMinor != "36" {
		t.Fatalf("an API server that emulates a version calls itself %+v", version)
	}
	kubelet := func(h *siteHost, want string) {
		t.Helper()
		eventually(t, h.name+" has the kubelet "+want, func() error {
			i, err := h.instances(h.namespace).Get(t.Context(), h.name, metav1.GetOptions{}) // refused while an API server has just been started
			if err != nil {
				return err
			}
			if err := isSetUp(i); err != nil {
				return err
			}
			if got := h.node(t, h.name).Status.NodeInfo.KubeletVersion; got != want {
				return fmt.Errorf("it has %s", got)
			}
			return nil
		})
	}

	first := s.newHost(t, namespace, "minor-1", winhost.Options{})
	first.declare(t, nil)
	kubelet(first, older)

	emulate(t, s, false)
	kubelet(first, newer)

	// One API server that is not upgraded yet answers.
	emulate(t, s, true)
	first.wait(t, "our API is served again", func(*v1alpha1.WindowsInstance) error { return nil })
	second := s.newHost(t, namespace, "minor-2", winhost.Options{})
	second.declare(t, nil)
	kubelet(second, older)
	kubelet(first, newer)
	first.wait(t, "it is said that it is newer", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate); c == nil || !strings.Contains(c.Message, "kubelet 1.37.1 of the host is newer than the API server 1.36") {
			return errors.New(describeConditions(i))
		}
		return nil
	})

	// Without a payload that fits, nothing is configured.
	started := []int32{first.kubelets.Load(), second.kubelets.Load()}
	if err := errors.Join(s.Controller.Stop(), os.RemoveAll(filepath.Join(payloads, older)), s.StartController(t.Context())); err != nil {
		t.Fatal(err)
	}
	third := s.newHost(t, namespace, "minor-3", winhost.Options{})
	third.declare(t, nil)
	for h, condition := range map[*siteHost]string{first: v1alpha1.ConditionUpToDate, second: v1alpha1.ConditionUpToDate, third: v1alpha1.ConditionConfigured} {
		h.wait(t, "it is said that no payload fits", func(i *v1alpha1.WindowsInstance) error {
			c := meta.FindStatusCondition(i.Status.Conditions, condition)
			if c == nil || c.Reason != v1alpha1.ReasonInputsMissing || !strings.Contains(c.Message, "make payload KUBERNETES=1.36") {
				return errors.New(describeConditions(i))
			}
			return nil
		})
	}
	if now := []int32{first.kubelets.Load(), second.kubelets.Load()}; !slices.Equal(now, started) || third.kubelets.Load() > 0 {
		t.Errorf("kubelets were started %v times, before %v; that of a new host %d times", now, started, third.kubelets.Load())
	}
	if got := second.node(t, second.name).Status.NodeInfo.KubeletVersion; got != older {
		t.Errorf("%s has the kubelet %s", second.name, got)
	}
}
