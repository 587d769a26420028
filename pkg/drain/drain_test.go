// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

const (
	testNode = "win-1"
	// testDeadline ends a test that waits for something that does not happen.
	testDeadline = 10 * time.Second
)

var podsGVR = corev1.SchemeGroupVersion.WithResource("pods")

var testNow = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// fixture is a Drainer with a fake cluster whose API server answers as it is told.
type fixture struct {
	t      *testing.T
	client *fake.Clientset
	clock  *testingclock.FakeClock
	d      *Drainer

	// pace is how much time goes by while a test waits for the end of a drain.
	pace time.Duration

	mu sync.Mutex
	// answers are what asking a pod to leave gives, by its name. A pod that is let go is
	// then removed, unless it lingers.
	answers map[string]error
	lingers map[string]bool
	asked   []string
	options []Options
	running int
	most    int
	seen    []Progress
}

func newFixture(t *testing.T, objects ...kruntime.Object) *fixture {
	t.Helper()
	f := &fixture{
		t: t, client: fake.NewClientset(objects...), clock: testingclock.NewFakeClock(testNow),
		answers: map[string]error{}, lingers: map[string]bool{},
	}
	f.d = New(f.client)
	f.d.clock = f.clock
	f.d.ask = f.ask
	return f
}

func (f *fixture) ask(ctx context.Context, p *tracked, o Options) error {
	f.mu.Lock()
	f.running++
	f.most = max(f.most, f.running)
	f.asked = append(f.asked, p.name)
	f.options = append(f.options, o)
	err, lingers := f.answers[p.name], f.lingers[p.name]
	f.mu.Unlock()
	for range 100 {
		runtime.Gosched() // so that others come at the same time
	}
	f.mu.Lock()
	f.running--
	f.mu.Unlock()
	if err == nil && !lingers {
		f.remove(ctx, p.name)
	}
	return err
}

func (f *fixture) remove(ctx context.Context, name string) {
	if err := f.client.CoreV1().Pods("shop").Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		f.t.Error(err)
	}
}

func (f *fixture) answer(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[name] = err
}

// askedFor returns how often a pod was asked to leave.
func (f *fixture) askedFor(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, asked := range f.asked {
		if asked == name {
			n++
		}
	}
	return n
}

// last is what was reported last.
func (f *fixture) last() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) == 0 {
		return Progress{}
	}
	return f.seen[len(f.seen)-1]
}

// run starts a drain; wait waits for its end.
func (f *fixture) run(ctx context.Context, o Options) (wait func() error) {
	done := make(chan error, 1)
	go func() {
		done <- f.d.Run(ctx, testNode, o, func(p Progress) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen = append(f.seen, p)
		})
	}()
	return func() error {
		f.t.Helper()
		for deadline := time.Now().Add(testDeadline); time.Now().Before(deadline); {
			select {
			case err := <-done:
				return err
			case <-time.After(time.Millisecond):
				// Again and again: the drain may have read the clock just before a step.
				f.clock.Step(f.pace)
			}
		}
		f.t.Fatal("the drain does not end")
		return nil
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testDeadline); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func TestRunEvictsWhatKubectlWould(t *testing.T) {
	f := newFixture(t,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "owner"}},
		newPod("web"),
		newPod("daemon", owned("DaemonSet", "apps/v1")),
		newPod("mirror", func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		newPod("done", alone, inPhase(corev1.PodSucceeded)))
	if err := f.run(t.Context(), Options{IgnoreDaemonSets: true})(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(f.asked)
	if diff := cmp.Diff([]string{"done", "web"}, f.asked); diff != "" {
		t.Errorf("asked to leave (-want +got)\n%s", diff)
	}
	if got := f.last(); got.Total != 2 || got.Gone != 2 || got.Left() != 0 {
		t.Errorf("got %+v", got)
	}
	if f.options[0].GracePeriodSeconds != nil {
		t.Errorf("the pods do not get the grace period that they ask for")
	}
}

func TestRunNamesEverythingThatIsNotAllowed(t *testing.T) {
	f := newFixture(t,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "owner"}},
		newPod("web"), newPod("scratch", alone, withEmptyDir), newPod("daemon", owned("DaemonSet", "apps/v1")))
	err := f.run(t.Context(), Options{})()
	var notAllowed *NotAllowedError
	if !errors.As(err, &notAllowed) || len(f.asked) > 0 {
		t.Fatalf("got %v, and asked %q to leave", err, f.asked)
	}
	for _, want := range []string{
		"pods of DaemonSets (ignoreDaemonSets: true lets them stay): shop/daemon", "deleteEmptyDirData: true", "shop/scratch", "no controller recreates (force: true",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

// A pod that its budget keeps is named, and asked again every five seconds, no more often.
func TestRunWaitsForABudget(t *testing.T) {
	f := newFixture(t, newPod("web-1"), newPod("web-2"))
	f.answer("web-2", overBudget("web"))
	wait := f.run(t.Context(), Options{})
	eventually(t, "the pod to be reported", func() bool { p := f.last(); return len(p.Blocked) == 1 && p.Gone == 1 })
	want := v1alpha1.BlockedPod{Namespace: "shop", Name: "web-2", Budget: "web", Message: "The disruption budget web needs 2 healthy pods and has 2 currently"}
	if diff := cmp.Diff(want, f.last().Blocked[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for attempt := 2; attempt <= 4; attempt++ {
		eventually(t, "the drain to wait", f.clock.HasWaiters)
		f.clock.Step(RetryInterval - time.Millisecond)
		if got := f.askedFor("web-2"); got != attempt-1 {
			t.Fatalf("it was asked %d times before the interval was over", got)
		}
		eventually(t, "the next attempt", func() bool {
			f.clock.Step(time.Millisecond)
			return f.askedFor("web-2") == attempt
		})
	}
	f.answer("web-2", nil)
	eventually(t, "the drain to wait", func() bool {
		f.clock.Step(RetryInterval)
		return f.last().Gone == 2
	})
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := f.last(); len(got.Blocked) > 0 {
		t.Errorf("what was in the way is still reported: %+v", got)
	}
}

func TestRunGivesUpAtTheDeadline(t *testing.T) {
	f := newFixture(t, newPod("gone"), newPod("kept"), newPod("lingers"))
	f.answer("kept", overBudget("web"))
	f.lingers["lingers"] = true
	wait := f.run(t.Context(), Options{Deadline: testNow.Add(time.Minute)})
	eventually(t, "the drain to get as far as it can", func() bool { p := f.last(); return len(p.Blocked) == 1 && p.Gone == 1 })
	f.pace = time.Minute
	err := wait()
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || timeout.Total != 3 || len(timeout.Pods) != 2 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"2 of 3 pods", "shop/kept (PodDisruptionBudget web): ", "shop/lingers ("} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

// awayFrom has the API server list no pods for a while in the time of a bubble, and never say that one has changed. From the beginning it answers only
// the first list, and others at the end.
func (f *fixture) awayFrom(from, until time.Duration) {
	began, lists := time.Now(), 0
	f.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) {
		lists++
		switch at := time.Since(began); {
		case lists == 1 || at < from || at >= until:
			return false, nil, nil
		case from == 0:
			time.Sleep(until - at) //nolint:forbidigo // the time of the bubble
			return false, nil, nil
		}
		return true, nil, apierrors.NewServiceUnavailable("etcd has no leader")
	})
	f.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
}

// TestRunAtTheDeadlineInAnOutage: at the deadline the API server says which pods have left, not what was known before it was away.
func TestRunAtTheDeadlineInAnOutage(t *testing.T) {
	const (
		timeout = 10 * time.Minute
		before  = timeout - time.Minute
		after   = timeout + 70*time.Second
	)
	for name, tt := range map[string]struct {
		from, until time.Duration
		stays       bool // pod b does; a leaves
		hangs       bool // no request to leave is answered
		want, again string
	}{
		"it is away":                            {from: before, until: after, want: "which pods have left"},
		"it is away, and a pod is there":        {from: before, until: after, stays: true, want: "which pods have left", again: "timeout: 1 of 1 pods"},
		"it is back":                            {from: before, until: timeout - time.Second},
		"it is back, and a pod is there":        {from: before, until: timeout - time.Second, stays: true, want: "timeout: 1 of 2 pods have not left: shop/b ("},
		"it is back, and gives no answers":      {from: before, until: timeout - time.Second, hangs: true},
		"it was away all the time":              {until: after},
		"it was away all the time, a pod stays": {until: after, stays: true, want: "did not list the pods", again: "timeout: 1 of 1 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, newPod("a"), newPod("b"))
				f.d.clock = clock.RealClock{}
				f.d.ask = func(ctx context.Context, p *tracked, _ Options) error {
					if tt.hangs {
						<-ctx.Done()
					}
					return ctx.Err()
				}
				f.awayFrom(tt.from, tt.until)
				drain := func() error {
					return f.d.Run(t.Context(), testNode, Options{IgnoreDaemonSets: true, Deadline: time.Now().Add(timeout)}, func(p Progress) { f.seen = append(f.seen, p) })
				}
				time.AfterFunc(before+time.Second, func() {
					for _, name := range []string{"a", "b"} {
						if tt.stays && name == "b" {
							continue
						}
						if err := f.client.Tracker().Delete(podsGVR, "shop", name); err != nil {
							t.Error(err)
						}
					}
				})
				check := func(want string, err error) {
					t.Helper()
					var late *TimeoutError
					if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || errors.As(err, &late) != strings.HasPrefix(want, "timeout") {
						t.Errorf("got %v, want %q", err, want)
					}
				}
				err := drain()
				if check(tt.want, err); err == nil {
					if got := f.last(); got.Gone != 2 {
						t.Errorf("got %+v", got)
					}
					return
				}
				if until := tt.until - timeout; until > 0 {
					time.Sleep(until + time.Second) //nolint:forbidigo // the time of the bubble
					check(tt.again, drain())
				}
			})
		})
	}
}

// A deadline may be put off, and what was evicted once and came back is left alone all the same.
func TestRunIsExtended(t *testing.T) {
	f := newFixture(t, newPod("kept"))
	f.answer("kept", overBudget("web"))
	asked := 0
	wait := f.run(t.Context(), Options{Deadline: testNow.Add(time.Minute), Extend: func() time.Time {
		if asked++; asked == 3 {
			return time.Time{}
		}
		return f.clock.Now().Add(time.Minute)
	}})
	eventually(t, "the pod to be asked", func() bool { return f.askedFor("kept") == 1 })
	f.pace = time.Minute
	err := wait()
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || asked != 3 {
		t.Errorf("it ended after it was asked %d times: %v", asked, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	f := newFixture(t, newPod("kept"))
	f.answer("kept", overBudget("web"))
	ctx, cancel := context.WithCancelCause(t.Context())
	wait := f.run(ctx, Options{})
	eventually(t, "the pod to be asked", func() bool { return f.askedFor("kept") == 1 })
	cause := errors.New("somebody canceled it")
	cancel(cause)
	if err := wait(); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestRunEndsWhatIsPossibleBeforeItFails(t *testing.T) {
	f := newFixture(t, newPod("a"), newPod("b"), newPod("c"))
	f.answer("b", apierrors.NewForbidden(podsResource, "b", errors.New("a webhook says no")))
	err := f.run(t.Context(), Options{})()
	var refusedErr *RefusedError
	if !errors.As(err, &refusedErr) || !strings.Contains(err.Error(), "shop/b") || !strings.Contains(err.Error(), "a webhook says no") {
		t.Errorf("got %v", err)
	}
	if got := f.last(); got.Gone != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestRunWhileTheAPIServerStarts: kube-apiserver that has just started refuses what it allows as soon as it has read the roles. A
// right that is missing is told after half a minute, and what an admission policy denies at once.
func TestRunWhileTheAPIServerStarts(t *testing.T) {
	denied := apierrors.NewForbidden(podsResource, "b", errors.New("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: never"))
	for _, tt := range []struct {
		name string
		// refused is for how long evictions are refused, and refusal how.
		refused time.Duration
		refusal error
		lasts   time.Duration
		fails   bool
	}{
		{"for a moment", 5 * time.Second, withoutRight("b"), 5 * time.Second, false},
		{"for long", 26 * time.Second, withoutRight("b"), 30 * time.Second, false},
		{"for good", time.Hour, withoutRight("b"), 30 * time.Second, true},
		{"by a policy", time.Hour, denied, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, newPod("a"), newPod("b"))
				f.d.clock = clock.RealClock{} // that of the bubble
				began := time.Now()
				f.d.ask = func(ctx context.Context, p *tracked, o Options) error {
					f.answer("b", nil)
					if time.Since(began) < tt.refused {
						f.answer("b", tt.refusal)
					}
					return f.ask(ctx, p, o)
				}
				err := f.d.Run(t.Context(), testNode, Options{IgnoreDaemonSets: true}, func(p Progress) { f.seen = append(f.seen, p) })
				var refused *RefusedError
				if errors.As(err, &refused) != tt.fails || tt.fails == (err == nil) || tt.fails && !strings.Contains(err.Error(), tt.refusal.Error()) {
					t.Errorf("got %v", err)
				}
				if !slices.ContainsFunc(f.seen, func(p Progress) bool { return len(p.Blocked) == 1 && p.Blocked[0].Message == tt.refusal.Error() }) {
					t.Errorf("it is not said meanwhile: %+v", f.seen)
				}
				if took := time.Since(began); took < tt.lasts || took > tt.lasts+time.Second || f.askedFor("a") != 1 {
					t.Errorf("it took %s, and asked %q", took, f.asked)
				}
			})
		})
	}
}

func TestRunBoundsRequests(t *testing.T) {
	var pods []kruntime.Object
	for i := range 60 {
		pods = append(pods, newPod(fmt.Sprintf("web-%d", i)))
	}
	f := newFixture(t, pods...)
	if err := f.run(t.Context(), Options{IgnoreDaemonSets: true})(); err != nil {
		t.Fatal(err)
	}
	if f.most > parallel || len(f.asked) != 60 {
		t.Errorf("%d requests, %d at a time", len(f.asked), f.most)
	}
	lists, gets := 0, 0
	for _, action := range f.client.Actions() {
		switch action.GetVerb() {
		case "list", "watch":
			lists++
		case "get":
			gets++
		}
	}
	if lists > 4 || gets > 0 {
		t.Errorf("%d lists and watches and %d gets for 60 pods", lists, gets)
	}
}

// A pod of the same name that has come instead is not the one that was to leave, and stays.
func TestRunTakesAReplacementForGone(t *testing.T) {
	f := newFixture(t, newPod("db-0"))
	f.lingers["db-0"] = true
	wait := f.run(t.Context(), Options{})
	eventually(t, "the pod to be asked", func() bool { return f.askedFor("db-0") == 1 })
	replacement := newPod("db-0", func(pod *corev1.Pod) {
		pod.UID = "another"
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	if _, err := f.client.CoreV1().Pods("shop").Update(t.Context(), replacement, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := f.last(); got.Gone != 1 || !slices.Equal(got.Staying, []string{"shop/db-0"}) || f.askedFor("db-0") != 1 {
		t.Errorf("got %+v", got)
	}
}

// The scheduler may have put a pod on the Node just before the cordon.
func TestRunEvictsLatecomers(t *testing.T) {
	f := newFixture(t, newPod("web"))
	f.lingers["web"] = true
	wait := f.run(t.Context(), Options{})
	eventually(t, "the pod to be asked", func() bool { return f.askedFor("web") == 1 })
	if _, err := f.client.CoreV1().Pods("shop").Create(t.Context(), newPod("late"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.remove(t.Context(), "web")
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := f.last(); got.Total != 2 || got.Gone != 2 {
		t.Errorf("got %+v", got)
	}
}

// TestRunOfAnotherNode: pods are found by the name of their Node. If another one has got it, those stay, in each round.
func TestRunOfAnotherNode(t *testing.T) {
	node := func(uid types.UID) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: uid}}
	}
	for name, tt := range map[string]struct {
		uid types.UID
		// is the Node of the name, and becomes what it is once a pod was asked. Nil: there is none.
		is, becomes *corev1.Node
		replaced    bool
		asked       int
	}{
		"the same":             {"one", node("one"), node("one"), false, 2},
		"another":              {"one", node("two"), node("two"), true, 0},
		"another meanwhile":    {"one", node("one"), node("two"), true, 1},
		"gone meanwhile":       {"one", node("one"), nil, false, 2},
		"whichever has a name": {"", node("one"), node("two"), false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newPod("web"), tt.is)
			f.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, kruntime.Object, error) {
				if action.(clienttesting.DeleteAction).GetName() != "web" {
					return false, nil, nil
				}
				nodes, tracker := corev1.SchemeGroupVersion.WithResource("nodes"), f.client.Tracker()
				if err := tracker.Delete(nodes, "", testNode); err != nil {
					return true, nil, err
				}
				if tt.becomes != nil {
					if err := tracker.Add(tt.becomes); err != nil {
						return true, nil, err
					}
				}
				return false, nil, tracker.Add(newPod("late"))
			})
			err := f.run(t.Context(), Options{NodeUID: tt.uid})()
			if errors.Is(err, ErrNodeReplaced) != tt.replaced || (err != nil) != tt.replaced || len(f.asked) != tt.asked {
				t.Errorf("it asked %v to leave: %v", f.asked, err)
			}
		})
	}
}

// TestRunPausesBetweenRounds: who makes pods on the cordoned Node as fast as they leave does not make the drain busy. It ends at its deadline, or
// with its context, also in a pause.
func TestRunPausesBetweenRounds(t *testing.T) {
	for _, canceled := range []bool{false, true} {
		t.Run(fmt.Sprintf("canceled: %v", canceled), func(t *testing.T) {
			f := newFixture(t, newPod("web-0"))
			made := 0
			f.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) {
				made++
				return false, nil, f.client.Tracker().Add(newPod(fmt.Sprintf("web-%d", made)))
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := Options{Deadline: testNow.Add(3 * RetryInterval)}
			wait := f.run(ctx, o)
			eventually(t, "the first two rounds", func() bool { return f.askedFor("web-1") == 1 && f.clock.HasWaiters() })
			if canceled {
				cancel()
				if err := wait(); !errors.Is(err, context.Canceled) || f.askedFor("web-2") > 0 {
					t.Errorf("got %v; asked %v", err, f.asked)
				}
				return
			}
			f.pace = RetryInterval / 100
			var timeout *TimeoutError
			if err := wait(); !errors.As(err, &timeout) {
				t.Errorf("got %v", err)
			}
			if n := len(f.asked); n < 2 || n > 6 {
				t.Errorf("%d pods were asked to leave: %v", n, f.asked)
			}
		})
	}
}

func TestRunAbandonsPodsOfADeadKubelet(t *testing.T) {
	deleted := metav1.NewTime(time.Now().Add(-10 * time.Second))
	f := newFixture(t, newPod("dying", func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.Finalizers = &deleted, []string{"x/y"}
	}))
	f.clock.SetTime(time.Now()) // the filters of kubectl use the real one
	wait := f.run(t.Context(), Options{SkipWaitForDelete: 30 * time.Second})
	eventually(t, "the pod to be seen", func() bool { return f.last().Terminating == 1 })
	if f.askedFor("dying") > 0 {
		t.Errorf("a pod that is being deleted was asked to leave")
	}
	f.pace = 21 * time.Second
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := f.last(); got.Abandoned != 1 || got.Left() != 0 {
		t.Errorf("got %+v", got)
	}
}

// A kubelet may die while its pods are waited for, and nothing happens to them when it does.
func TestRunNoticesThatAKubeletDies(t *testing.T) {
	deleted := metav1.NewTime(time.Now())
	f := newFixture(t, newPod("dying", func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.Finalizers = &deleted, []string{"x/y"}
	}))
	f.clock.SetTime(time.Now()) // the filters of kubectl use the real one
	var died atomic.Bool
	wait := f.run(t.Context(), Options{Dead: died.Load})
	eventually(t, "the pod to be seen", func() bool { return f.last().Terminating == 1 })
	for range 5 { // it ends when it ends
		eventually(t, "the drain to wait", f.clock.HasWaiters)
		f.clock.Step(time.Hour)
	}
	if got := f.last(); got.Abandoned > 0 {
		t.Fatalf("while its kubelet lives: %+v", got)
	}
	died.Store(true)
	f.pace = askDead + time.Second
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := f.last(); got.Abandoned != 1 || got.Left() != 0 {
		t.Errorf("got %+v", got)
	}
}

// Where the cluster has lost the kubelet, nobody can end pods gracefully: they get a second, also those that are being deleted already, unless
// somebody has said what they get. They get what they ask for as soon as it is back.
func TestRunOnAnUnreachableNode(t *testing.T) {
	for name, tt := range map[string]struct {
		grace *int64
		back  bool
		want  []int64 // of the pod that is being deleted, and the other one; negative: what it asks for
	}{
		"unreachable":         {nil, false, []int64{1, 1}},
		"somebody has said 7": {new(int64(7)), false, []int64{7, 7}},
		"it is back":          {nil, true, []int64{-1}},
	} {
		t.Run(name, func(t *testing.T) {
			deleted := metav1.NewTime(time.Now().Add(time.Hour))
			f := newFixture(t, newPod("web"), newPod("dying", func(pod *corev1.Pod) {
				pod.DeletionTimestamp, pod.Finalizers = &deleted, []string{"x/y"}
			}))
			f.clock.SetTime(time.Now()) // the filters of kubectl use the real one
			f.lingers["dying"] = true
			wait := f.run(t.Context(), Options{GracePeriodSeconds: tt.grace, Unreachable: func() bool { return !tt.back }})
			eventually(t, "the pods to be asked", func() bool { return f.askedFor("dying")+f.askedFor("web") == len(tt.want) })
			if err := f.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "shop", "dying"); err != nil {
				t.Fatal(err)
			}
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, o := range f.options {
				if o.GracePeriodSeconds == nil {
					o.GracePeriodSeconds = new(int64(-1))
				}
				got = append(got, *o.GracePeriodSeconds)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A Node may be lost while its pods leave: those that got longer to end are asked once more.
func TestRunNoticesThatANodeIsLost(t *testing.T) {
	f := newFixture(t, newPod("web"))
	f.clock.SetTime(time.Now()) // the filters of kubectl use the real one
	f.lingers["web"] = true
	var lost atomic.Bool
	wait := f.run(t.Context(), Options{Unreachable: lost.Load})
	eventually(t, "the pod to be asked", func() bool { return f.askedFor("web") == 1 })
	deleted := metav1.NewTime(f.clock.Now().Add(time.Hour))
	if _, err := f.client.CoreV1().Pods("shop").Update(t.Context(), newPod("web", func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.Finalizers = &deleted, []string{"x/y"}
	}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod to be deleted", func() bool { return f.last().Terminating == 1 })
	lost.Store(true)
	for range 5 { // nothing else happens
		eventually(t, "the drain to wait", f.clock.HasWaiters)
		f.clock.Step(askDead)
	}
	eventually(t, "the pod to be asked again", func() bool { return f.askedFor("web") == 2 })
	if err := f.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "shop", "web"); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if first, second := f.options[0].GracePeriodSeconds, f.options[1].GracePeriodSeconds; len(f.options) != 2 || first != nil || second == nil || *second != 1 {
		t.Errorf("it was asked with %+v", f.options)
	}
}

// Only the pods of the Node are read, and of them those that are to leave.
func TestRunReadsTheNode(t *testing.T) {
	f := newFixture(t, newPod("web"), newPod("db"), newPod("daemon", owned("Job", "batch/v1")))
	if err := f.run(t.Context(), Options{PodSelector: "app in (web,db)"})(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(f.asked)
	if diff := cmp.Diff([]string{"db", "web"}, f.asked); diff != "" {
		t.Errorf("asked to leave (-want +got)\n%s", diff)
	}
	reads, selected := 0, 0
	for _, action := range f.client.Actions() {
		var fields, labels string
		switch action := action.(type) {
		case clienttesting.ListActionImpl:
			fields, labels = action.ListRestrictions.Fields.String(), action.ListRestrictions.Labels.String()
		case clienttesting.WatchActionImpl:
			fields, labels = action.WatchRestrictions.Fields.String(), action.WatchRestrictions.Labels.String()
		default:
			continue
		}
		if reads++; action.GetResource().Resource != "pods" || fields != "spec.nodeName=win-1" {
			t.Errorf("%s of %s with %q", action.GetVerb(), action.GetResource().Resource, fields)
		}
		if labels == "app in (db,web)" {
			selected++
		}
	}
	// Twice the pods and those of DaemonSets, before and after; and the informer.
	if reads < 5 || selected != 4 {
		t.Errorf("%d reads, %d of them with the selector", reads, selected)
	}
}

// A pod of a DaemonSet that cannot stay is named once, whether its DaemonSet is there or not.
func TestDaemonPods(t *testing.T) {
	orphan := newPod("orphan", owned("DaemonSet", "apps/v1"))
	f := newFixture(t, newPod("web"), newPod("daemon", owned("DaemonSet", "apps/v1")), orphan)
	got, err := f.d.daemonPods(t.Context(), testNode, Options{}, []corev1.Pod{*orphan})
	if err != nil || len(got) != 1 || got[0].Name != "daemon" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRunFails(t *testing.T) {
	cause := errors.New("no server")
	f := newFixture(t, newPod("web"))
	f.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, kruntime.Object, error) { return true, nil, cause })
	if err := f.run(t.Context(), Options{IgnoreDaemonSets: true})(); !errors.Is(err, cause) || len(f.asked) > 0 {
		t.Errorf("got %v, asked %q", err, f.asked)
	}
	cause = apierrors.NewForbidden(podsResource, "", errors.New("no"))
	if err := f.run(t.Context(), Options{IgnoreDaemonSets: true})(); !apierrors.IsForbidden(err) {
		t.Errorf("what the API server has said cannot be told from %v", err)
	}
}

// With a context that has ended nobody is asked.
func TestRunAfterItsEnd(t *testing.T) {
	f := newFixture(t, newPod("web"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("this process does not lead any more")
	cancel(cause)
	if err := f.run(ctx, Options{IgnoreDaemonSets: true})(); !errors.Is(err, cause) || len(f.asked) > 0 {
		t.Errorf("got %v, asked %q", err, f.asked)
	}
}

// Of pods the cache keeps what a drain needs.
func TestPodsOf(t *testing.T) {
	pod := newPod("web", func(pod *corev1.Pod) { pod.ResourceVersion = "41" }, deletedAt(testNow), func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/f"} })
	f := newFixture(t, pod)
	changed := make(chan struct{}, 1)
	informer := f.d.podsOf(testNode, changed)
	go informer.RunWithContext(t.Context())
	eventually(t, "the pod", func() bool { return len(informer.GetStore().List()) == 1 })
	select {
	case <-changed:
	case <-t.Context().Done():
	}
	want := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "uid-of-web", ResourceVersion: "41", DeletionTimestamp: pod.DeletionTimestamp,
	}}
	if diff := cmp.Diff(any(want), informer.GetStore().List()[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAlarm(t *testing.T) {
	f := newFixture(t)
	for _, tt := range []struct {
		at   time.Time
		step time.Duration
	}{{testNow.Add(time.Minute), time.Minute}, {testNow, 0}, {testNow.Add(-time.Hour), 0}, {time.Time{}, 24 * time.Hour}} {
		f.clock.SetTime(testNow)
		timer := f.d.alarm(tt.at, testNow)
		if tt.step > 0 {
			f.clock.Step(tt.step - time.Second)
			select {
			case <-timer.C():
				t.Errorf("%s: it goes off too early", tt.at)
			default:
			}
			f.clock.Step(time.Second)
		}
		f.clock.Step(0)
		select {
		case <-timer.C():
		default:
			t.Errorf("%s: it does not go off", tt.at)
		}
	}
}
