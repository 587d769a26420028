// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/winhost"
)

var (
	chaosSeed  = flag.Uint64("chaos.seed", 1, "what TestChaos does, and when")
	chaosSteps = flag.Int("chaos.steps", 40, "how many things TestChaos does")
)

// chaosPool is the pool of the hosts of TestChaos.
const chaosPool = "p"

// chaos is a fleet to which anything may happen at any moment.
type chaos struct {
	*site
	random    *rand.Rand
	namespace string
	hosts     []*chaosHost
	pods      int64
}

// chaosHost is a host of it.
type chaosHost struct {
	*siteHost
	// reboots is how many restarts were asked for.
	reboots int
}

// TestChaos kills, cuts, deletes, cancels and changes in an order that its seed decides.
// Whatever it was: once it is over, every host is Ready or clean, no Node is cordoned, no
// host was restarted more often than asked for, and no token or finalizer is left.
// To repeat or to lengthen a run: go test ./test/e2e -run TestChaos -chaos.seed=7 -chaos.steps=400
func TestChaos(t *testing.T) {
	t.Parallel()
	c := &chaos{
		site:   newSite(t, standin.PayloadOptions{}),
		random: rand.New(rand.NewPCG(*chaosSeed, 0)),
	}
	c.namespace = c.site.namespace(t, "chaos")
	c.newPool(t, c.namespace, chaosPool, v1alpha1.PoolTemplate{})
	for n := range 4 {
		h := &chaosHost{siteHost: c.newHost(t, c.namespace, fmt.Sprintf("chaos-%d", n), winhost.Options{})}
		c.hosts = append(c.hosts, h)
		c.declareAgain(t, h)
	}
	c.hosts[0].waitReady(t) // the others may be anywhere

	for step := range *chaosSteps {
		h := c.hosts[c.random.IntN(len(c.hosts))]
		what := c.anything(t, h)
		t.Logf("%d: %s", step, what)
		// Any moment will do for what comes next.
		pause(t.Context(), time.Duration(c.random.IntN(2000))*time.Millisecond)
	}
	c.calm(t)
	c.mustBeWell(t)

	for _, h := range c.hosts {
		h.remove(t)
	}
	eventually(t, "all instances go", func() error {
		list, err := c.instances(c.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			err = errors.Join(err, fmt.Errorf("%s is there\n%s", list.Items[i].Name, describeConditions(&list.Items[i])), c.confirm(t.Context(), &list.Items[i]))
		}
		return err
	})
	for _, h := range c.hosts {
		h.waitGone(t)
		h.mustBeClean(t)
	}
}

// anything does one thing, and says what.
func (c *chaos) anything(t *testing.T, h *chaosHost) string {
	t.Helper()
	type act struct {
		name   string
		weight int
		// fleet: it concerns all hosts.
		fleet bool
		do    func(*testing.T, *chaosHost) error
	}
	acts := []act{
		{"windows-controller is killed", 4, true, func(t *testing.T, _ *chaosHost) error {
			c.Controller.Kill9()
			return c.Controller.Restart(t.Context())
		}},
		{"windows-apiserver is killed", 2, true, func(t *testing.T, _ *chaosHost) error {
			c.Server.Kill9()
			return c.Server.Restart(t.Context())
		}},
		{"misbehaves", 3, false, c.misbehave},
		{"behaves", 3, false, c.behave},
		{"loses its power", 2, false, func(_ *testing.T, h *chaosHost) error { return h.host.PowerOff() }},
		{"has power", 3, false, func(_ *testing.T, h *chaosHost) error { return h.host.PowerOn() }},
		{"is no instance any more", 2, false, c.undeclare},
		{"is made an instance", 4, false, func(t *testing.T, h *chaosHost) error { c.declareAgain(t, h); return nil }},
		{"loses its Node", 2, false, func(t *testing.T, h *chaosHost) error {
			return c.Kube.CoreV1().Nodes().Delete(t.Context(), h.name, metav1.DeleteOptions{})
		}},
		{"has its operation canceled", 3, false, c.cancel},
		{"is paused", 1, false, func(t *testing.T, h *chaosHost) error { return c.setPaused(t.Context(), h, true) }},
		{"is not paused", 2, false, func(t *testing.T, h *chaosHost) error { return c.setPaused(t.Context(), h, false) }},
		{"is rebooted", 2, false, c.askReboot},
		{"the kubelets of all hosts are changed", 2, true, func(t *testing.T, _ *chaosHost) error {
			c.pods++
			return c.changePool(t.Context(), `{"spec":{"template":{"kubelet":{"maxPods":%d}}}}`, 250+c.pods)
		}},
		{"the runtimes of all hosts are changed", 1, true, func(t *testing.T, _ *chaosHost) error {
			c.pods++
			return c.changePool(t.Context(), `{"spec":{"template":{"containerd":{"sandboxImage":"registry.example.com/pause:%d"}}}}`, c.pods)
		}},
	}
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	pick := c.random.IntN(total)
	for _, a := range acts {
		if pick -= a.weight; pick >= 0 {
			continue
		}
		text := a.name
		if !a.fleet {
			text = h.name + " " + text
		}
		if err := a.do(t, h); err != nil {
			// Much of it is refused, as an operation runs or nothing is there: that is right.
			text += " (refused: " + strings.SplitN(err.Error(), "\n", 2)[0] + ")"
		}
		return text
	}
	panic("the weights do not add up")
}

// changePool changes the pool of all hosts. It is refused while kube-apiserver has not noticed yet that windows-apiserver is there again.
func (c *chaos) changePool(ctx context.Context, format string, args ...any) error {
	_, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.namespace).Patch(ctx, chaosPool, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
	return err
}

func (c *chaos) misbehave(_ *testing.T, h *chaosHost) error {
	faults := []winhost.Fault{
		{RefuseTCP: true}, {HangAtAccept: true}, {Freeze: true}, {CutAfterBytes: 20 << 10}, {Latency: 40 * time.Millisecond},
	}
	return h.host.SetFault(faults[c.random.IntN(len(faults))])
}

func (c *chaos) behave(_ *testing.T, h *chaosHost) error {
	return h.host.SetFault(winhost.Fault{})
}

func (c *chaos) undeclare(t *testing.T, h *chaosHost) error {
	return c.instances(c.namespace).Delete(t.Context(), h.name, metav1.DeleteOptions{})
}

// declareAgain makes the instance of a host, unless the former one is still there.
func (c *chaos) declareAgain(t *testing.T, h *chaosHost) {
	t.Helper()
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: h.name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.host.Address(), Port: int32(h.host.Port()), Username: h.host.User()},
	}
	inPool(chaosPool)(&instance.Spec)
	_, err := c.instances(c.namespace).Create(t.Context(), instance, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Logf("%s: its instance cannot be made: %v", h.name, err)
	}
}

func (c *chaos) setPaused(ctx context.Context, h *chaosHost, paused bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused)
	_, err := c.instances(c.namespace).Patch(ctx, h.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (c *chaos) askReboot(t *testing.T, h *chaosHost) error {
	_, err := c.instances(c.namespace).Reboot(t.Context(), h.name, &v1alpha1.WindowsInstanceReboot{}, metav1.CreateOptions{})
	if err == nil || !apierrors.IsConflict(err) { // an answer that was lost may have been a yes
		h.reboots++
	}
	return err
}

// cancel asks for the end of the operation of a host. A removal that somebody cancels is tried again
// after ten minutes, which is longer than all of the test.
func (c *chaos) cancel(t *testing.T, h *chaosHost) error {
	i, err := c.instances(c.namespace).Get(t.Context(), h.name, metav1.GetOptions{})
	if err != nil || i.Status.Operation == nil {
		return err
	}
	if i.Status.Operation.Type == v1alpha1.OperationRemove {
		return errors.New("a removal is not canceled")
	}
	_, err = c.instances(c.namespace).Cancel(t.Context(), h.name, &v1alpha1.WindowsInstanceCancel{
		Spec: v1alpha1.WindowsInstanceCancelSpec{OperationID: i.Status.Operation.ID},
	}, metav1.CreateOptions{})
	return err
}

// confirm confirms that the host of an instance is to be removed, if it waits for that: more than
// one within an hour.
func (c *chaos) confirm(ctx context.Context, i *v1alpha1.WindowsInstance) error {
	value := confirmationOf(i.Status.Conditions, v1alpha1.ConditionRemoved)
	if value == "" {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ConfirmRemovalAnnotation, value)
	_, err := c.Windows.WindowsV1alpha1().WindowsNodePools(c.namespace).Patch(ctx, chaosPool, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// calm puts right what the test did: hosts are on and behave, each has an instance, and
// nothing is paused. What somebody canceled, and what failed, is asked for once more, as
// that is what a person would do.
func (c *chaos) calm(t *testing.T) {
	t.Helper()
	for _, h := range c.hosts {
		if err := errors.Join(c.behave(t, h), h.host.PowerOn()); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range c.hosts {
		eventually(t, h.name+": it has an instance that stays", func() error {
			i, err := c.instances(c.namespace).Get(t.Context(), h.name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				c.declareAgain(t, h)
				return errors.New("it is made")
			case err != nil:
				return err
			case i.DeletionTimestamp != nil:
				// A host that is paused is not cleaned.
				return errors.Join(c.setPaused(t.Context(), h, false), c.confirm(t.Context(), i), fmt.Errorf("the one that was deleted goes: %s\n%s", describeConditions(i), describeOperation(i)))
			}
			return c.setPaused(t.Context(), h, false)
		})
	}
}

// mustBeWell waits until all hosts are ready, and fails the test unless they are in good order.
func (c *chaos) mustBeWell(t *testing.T) {
	t.Helper()
	for _, h := range c.hosts {
		asked := map[string]bool{}
		h.wait(t, "the host is ready", func(i *v1alpha1.WindowsInstance) error {
			err := isSetUp(i)
			op := i.Status.Operation
			if op.Active() || op == nil {
				return errors.Join(err, c.mustTakePods(t, h, i))
			}
			if err == nil {
				if err = c.mustTakePods(t, h, i); err == nil {
					return nil
				}
			}
			// A reboot that failed leaves the Node cordoned until one succeeds; what failed
			// or was canceled is tried again by itself, but not at once. A reboot after it is no
			// configuration.
			configured := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured)
			canceled := configured != nil && configured.Reason == v1alpha1.ReasonConfigurationFailed
			if (op.Phase != v1alpha1.OperationSucceeded || canceled) && !asked[op.ID] {
				asked[op.ID] = true
				if op.Type == v1alpha1.OperationReboot && !canceled {
					return errors.Join(err, c.askReboot(t, h))
				}
				_, again := c.instances(c.namespace).Reconfigure(t.Context(), h.name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{})
				return errors.Join(err, again)
			}
			return err
		})
	}
	for _, h := range c.hosts {
		// The first configuration of a host restarts it for the features of Windows, which stay.
		if n := h.host.Restarts(); n > h.reboots+1 {
			t.Errorf("%s was restarted %d times, asked for were %d and the one of its first configuration", h.name, n, h.reboots)
		}
		if h.read(t, `C:\k\bootstrap-kubeconfig`) != "" {
			t.Errorf("%s has joined, and still has the credentials for that", h.name)
		}
	}
}

// mustTakePods returns why the Node of a host takes no pods.
func (c *chaos) mustTakePods(t *testing.T, h *chaosHost, i *v1alpha1.WindowsInstance) error {
	t.Helper()
	node, err := c.Kube.CoreV1().Nodes().Get(t.Context(), h.name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case node.Spec.Unschedulable:
		return fmt.Errorf("the Node is cordoned\n%s", describeOperation(i))
	case !nodeIsReady(node):
		return errors.New("the Node is not ready")
	}
	return nil
}
