// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// testDeadline ends a test that waits for something that does not happen.
const testDeadline = 20 * time.Second

// receive waits for a value.
func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(testDeadline):
		t.Fatalf("waited for %s", what)
	}
	panic("not reached")
}

// fakeClock is the fake clock, but runs functions in a goroutine of their own, as
// real clocks do. The fake clock calls them with its lock held.
type fakeClock struct{ *testingclock.FakeClock }

func newFakeClock() fakeClock { return fakeClock{testingclock.NewFakeClock(testNow)} }

func (c fakeClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.FakeClock.AfterFunc(d, func() { go f() })
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testDeadline); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// startProber runs a prober until the test ends, and makes sure that it then stops.
func startProber(t *testing.T, o proberOptions) (p *prober, stop func()) {
	t.Helper()
	if o.record == nil {
		o.record = func(types.NamespacedName, *observation) {}
	}
	if o.notify == nil {
		o.notify = func(context.Context, types.NamespacedName) {}
	}
	o.timeout = time.Hour
	if o.patience == 0 {
		o.patience = time.Minute
	}
	if o.clock == nil {
		o.clock = newFakeClock()
	}
	p = newProber(o)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- p.Start(ctx) }()
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		cancel()
		if err := receive(t, stopped, "the prober to stop"); err != nil {
			t.Errorf("Start: %v", err)
		}
	}
	t.Cleanup(stop)
	return p, stop
}

// hostKeyOf is a host of one of several namespaces: one alone does not get all workers.
func hostKeyOf(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i%5), Name: fmt.Sprintf("win-%d", i)}
}

// hang is a probe of a host that does not answer.
func hang(entered chan<- string, name string) probeFunc {
	return func(ctx context.Context) *observation {
		entered <- name
		<-ctx.Done()
		return &observation{finished: testNow, failed: diagnose.StageHostKey, err: ctx.Err()}
	}
}

func TestProberBoundsEachLane(t *testing.T) {
	entered := make(chan string, 100)
	p, _ := startProber(t, proberOptions{workers: map[lane]int{laneFast: 3, laneSlow: 2}})
	for i := range 20 {
		p.probe(hostKeyOf(i), laneSlow, hang(entered, "slow"))
	}
	for i := range 20 {
		p.probe(hostKeyOf(100+i), laneFast, hang(entered, "fast"))
	}
	got := map[string]int{}
	for range 5 {
		got[receive(t, entered, "five probes")]++
	}
	if got["fast"] != 3 || got["slow"] != 2 {
		t.Errorf("got %v", got)
	}
	for _, want := range []struct {
		lane             lane
		running, waiting int
	}{{laneFast, 3, 17}, {laneSlow, 2, 18}} {
		if running, waiting := p.load(want.lane); running != want.running || waiting != want.waiting {
			t.Errorf("%s: %d run and %d wait, want %d and %d", want.lane, running, waiting, want.running, want.waiting)
		}
	}
	if len(entered) > 0 {
		t.Errorf("more probes run than there are workers")
	}
}

// However many hosts are known to hang, the others do not wait for them.
func TestProberHangingHostsDoNotDelayOthers(t *testing.T) {
	const hanging, good = 20, 180
	entered, finished := make(chan string, hanging), make(chan types.NamespacedName, good)
	p, _ := startProber(t, proberOptions{
		workers: map[lane]int{laneFast: 4, laneSlow: 4},
		notify:  func(_ context.Context, key types.NamespacedName) { finished <- key },
	})
	for i := range hanging {
		p.probe(hostKeyOf(i), laneSlow, hang(entered, "hanging"))
	}
	for i := range good {
		p.probe(hostKeyOf(1000+i), laneFast, func(context.Context) *observation { return &observation{finished: testNow} })
	}
	for range good {
		receive(t, finished, "every good host")
	}
}

// Hosts that are not known to hang give their workers back when they turn out to.
func TestProberDemotesHostsThatTurnOutToHang(t *testing.T) {
	const hanging, good, workers = 20, 180, 4
	clock := newFakeClock()
	entered, finished := make(chan string, hanging), make(chan types.NamespacedName, good)
	p, _ := startProber(t, proberOptions{
		workers: map[lane]int{laneFast: workers, laneSlow: 1}, clock: clock, patience: 3 * time.Second,
		notify: func(_ context.Context, key types.NamespacedName) { finished <- key },
	})
	for i := range hanging {
		p.probe(hostKeyOf(i), laneFast, hang(entered, "hanging"))
	}
	for i := range good {
		p.probe(hostKeyOf(1000+i), laneFast, func(context.Context) *observation { return &observation{finished: testNow} })
	}
	for range hanging / workers {
		for range workers {
			receive(t, entered, "a full lane")
		}
		clock.Step(3 * time.Second)
	}
	for range good {
		receive(t, finished, "every good host")
	}
	eventually(t, "all that hang to be out of the fast lane", func() bool {
		running, _ := p.load(laneSlow)
		return running == hanging
	})
}

func TestProberNeverHasMoreHangingProbesThanItMay(t *testing.T) {
	const workers = 2
	clock := newFakeClock()
	entered := make(chan string, 100)
	p, _ := startProber(t, proberOptions{workers: map[lane]int{laneFast: workers, laneSlow: 1}, clock: clock, patience: time.Second})
	for i := range 50 {
		p.probe(hostKeyOf(i), laneFast, hang(entered, "hanging"))
	}
	const most = workers + demotedPerWorker*workers
	for range most {
		eventually(t, "the next probe", func() bool {
			clock.Step(time.Second)
			return len(entered) > 0
		})
		<-entered
	}
	for range 3 {
		clock.Step(time.Second)
	}
	fast, _ := p.load(laneFast)
	slow, _ := p.load(laneSlow)
	if fast != workers || slow != demotedPerWorker*workers || len(entered) > 0 {
		t.Errorf("%d run in the fast lane and %d besides, and %d more have begun", fast, slow, len(entered))
	}
}

func TestProberProbesAHostOnceAtATime(t *testing.T) {
	entered, finished := make(chan string, 10), make(chan types.NamespacedName, 10)
	p, _ := startProber(t, proberOptions{
		workers: map[lane]int{laneFast: 8, laneSlow: 8},
		notify:  func(_ context.Context, key types.NamespacedName) { finished <- key },
	})
	leave := make(chan struct{})
	stubborn := func(context.Context) *observation { // does not look at its context
		entered <- "first"
		<-leave
		return &observation{finished: testNow}
	}
	second := func(context.Context) *observation {
		entered <- "second"
		return &observation{finished: testNow}
	}
	p.probe(hostKeyOf(1), laneFast, stubborn)
	if got := receive(t, entered, "the first probe"); got != "first" {
		t.Fatalf("got %s", got)
	}
	p.probe(hostKeyOf(1), laneFast, second)
	p.Cancel(hostKeyOf(1))
	if p.Busy(hostKeyOf(1)) {
		t.Error("a canceled probe keeps the host busy")
	}
	p.probe(hostKeyOf(1), laneFast, second) // waits for the first to end
	if !p.Busy(hostKeyOf(1)) || len(entered) > 0 {
		t.Error("the second probe does not wait")
	}
	close(leave)
	if got := receive(t, entered, "the second probe"); got != "second" {
		t.Fatalf("got %s", got)
	}
	receive(t, finished, "the end of the second probe")
	if len(finished) > 0 {
		t.Error("the canceled probe told of its end")
	}
}

func TestProberCancel(t *testing.T) {
	entered := make(chan string, 10)
	causes := make(chan error, 1)
	recorded := make(chan types.NamespacedName, 10)
	p, _ := startProber(t, proberOptions{
		workers: map[lane]int{laneFast: 1, laneSlow: 1},
		record:  func(key types.NamespacedName, _ *observation) { recorded <- key },
	})
	p.probe(hostKeyOf(1), laneFast, func(ctx context.Context) *observation {
		entered <- "running"
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return &observation{finished: testNow, err: ctx.Err()}
	})
	receive(t, entered, "the first probe")
	p.probe(hostKeyOf(2), laneFast, hang(entered, "waiting"))
	p.probe(hostKeyOf(3), laneFast, func(context.Context) *observation { return &observation{finished: testNow} })

	p.Cancel(hostKeyOf(2)) // never runs
	p.Cancel(hostKeyOf(1))
	p.Cancel(hostKeyOf(9)) // is not known

	if cause := receive(t, causes, "the end of the first probe"); !errors.Is(cause, context.Canceled) {
		t.Errorf("got cause %v", cause)
	}
	if got := receive(t, recorded, "the third probe"); got != hostKeyOf(3) {
		t.Errorf("%s was recorded", got)
	}
	if len(entered) > 0 || len(recorded) > 0 {
		t.Error("a canceled probe ran or was recorded")
	}
}

func TestProberStopWaitsForItsProbes(t *testing.T) {
	entered, left := make(chan string, 1), make(chan struct{})
	told := make(chan types.NamespacedName, 10)
	p, stop := startProber(t, proberOptions{
		workers: map[lane]int{laneFast: 1, laneSlow: 1},
		record:  func(key types.NamespacedName, _ *observation) { told <- key },
	})
	p.probe(hostKeyOf(1), laneFast, func(ctx context.Context) *observation {
		entered <- "running"
		<-ctx.Done()
		close(left)
		return &observation{finished: testNow}
	})
	p.probe(hostKeyOf(2), laneFast, hang(entered, "waiting"))
	receive(t, entered, "the first probe")
	stop()
	select {
	case <-left:
	default:
		t.Error("Start returned before its probe had ended")
	}
	p.probe(hostKeyOf(3), laneFast, hang(entered, "late"))
	if len(entered) > 0 || len(told) > 0 {
		t.Error("a probe ran or was recorded after the stop")
	}
}

func TestProberKeepsProbesUntilItIsStarted(t *testing.T) {
	finished := make(chan types.NamespacedName, 1)
	clock := newFakeClock()
	p := newProber(proberOptions{
		workers: map[lane]int{laneFast: 1}, timeout: time.Hour, patience: time.Minute, clock: clock,
		record: func(types.NamespacedName, *observation) {},
		notify: func(_ context.Context, key types.NamespacedName) { finished <- key },
	})
	p.probe(hostKeyOf(1), laneFast, func(context.Context) *observation { return &observation{finished: testNow} })
	if running, waiting := p.load(laneFast); running != 0 || waiting != 1 {
		t.Fatalf("%d run and %d wait", running, waiting)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- p.Start(ctx) }()
	receive(t, finished, "the probe")
	cancel()
	if err := receive(t, stopped, "the stop"); err != nil {
		t.Error(err)
	}
	if p.Busy(hostKeyOf(1)) {
		t.Error("the host is still busy")
	}
}
