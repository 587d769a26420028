// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var stageNames = map[stage]string{
	stageWaiting: "waiting", stageAsking: "asking", stageLeaving: "leaving", stageRefused: "refused", stageAbandoned: "abandoned", stageGone: "gone",
}

func deletedAt(at time.Time) podChange {
	return func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: at} }
}

// What is seen of a pod changes how far it is, unless its answer is still to come.
func TestObserve(t *testing.T) {
	skip := Options{SkipWaitForDelete: 30 * time.Second}
	yes, no := func() bool { return true }, func() bool { return false }
	dead := Options{Dead: yes, Unreachable: no}
	blocked := &v1alpha1.BlockedPod{Name: "web"}
	ago := func(d time.Duration) podChange { return deletedAt(testNow.Add(-d)) }
	tests := []struct {
		name    string
		stage   stage
		options Options
		// deadFor is for how long its kubelet has been found dead. 0: it was not before.
		deadFor time.Duration
		pod     *corev1.Pod // nil: it is not there
		want    stage
		blocked bool // still
		deleted bool
	}{
		{name: "it waits", stage: stageWaiting, pod: newPod("web"), want: stageWaiting, blocked: true},
		{name: "it has gone", stage: stageWaiting, want: stageGone},
		{name: "it has gone while it is asked", stage: stageAsking, want: stageAsking, blocked: true},
		{name: "another has its name", stage: stageLeaving, pod: newPod("web", func(pod *corev1.Pod) { pod.UID = "another" }), want: stageGone},
		{name: "it is deleted by others", stage: stageWaiting, pod: newPod("web", ago(0)), want: stageLeaving, deleted: true},
		{name: "it is deleted, and is to be killed faster", stage: stageWaiting, options: Options{GracePeriodSeconds: new(int64(0))}, pod: newPod("web", ago(0)), want: stageWaiting, blocked: true, deleted: true},
		{name: "it is deleted while it is asked", stage: stageAsking, pod: newPod("web", ago(0)), want: stageAsking, blocked: true, deleted: true},
		{name: "it was refused, and is deleted", stage: stageRefused, pod: newPod("web", ago(0)), want: stageRefused, blocked: true, deleted: true},
		{name: "it takes long, and is waited for", stage: stageLeaving, pod: newPod("web", ago(time.Hour)), want: stageLeaving, blocked: true, deleted: true},
		{name: "it takes as long as it may", stage: stageLeaving, options: skip, pod: newPod("web", ago(30*time.Second)), want: stageLeaving, blocked: true, deleted: true},
		{name: "it takes too long", stage: stageLeaving, options: skip, pod: newPod("web", ago(31*time.Second)), want: stageAbandoned, deleted: true},
		{name: "it takes too long while it is asked", stage: stageAsking, options: skip, pod: newPod("web", ago(time.Hour)), want: stageAsking, blocked: true, deleted: true},
		{name: "its kubelet has just died", stage: stageLeaving, options: dead, pod: newPod("web", ago(time.Hour)), want: stageLeaving, blocked: true, deleted: true},
		{name: "its kubelet is dead", stage: stageLeaving, options: dead, deadFor: 61 * time.Second, pod: newPod("web", ago(time.Hour)), want: stageAbandoned, deleted: true},
		{name: "its kubelet is dead, and it may still end", stage: stageLeaving, options: dead, deadFor: time.Hour, pod: newPod("web", ago(time.Minute)), want: stageLeaving, blocked: true, deleted: true},
		{name: "its kubelet was dead and is not any more", stage: stageLeaving, options: Options{Dead: no}, deadFor: time.Hour, pod: newPod("web", ago(time.Hour)), want: stageLeaving, blocked: true, deleted: true},
		{name: "somebody has said how long a dead kubelet is waited for", stage: stageLeaving, options: Options{Dead: yes, SkipWaitForDelete: 2 * time.Hour}, deadFor: time.Hour, pod: newPod("web", ago(time.Hour)), want: stageLeaving, blocked: true, deleted: true},
		{name: "it is deleted where nobody can end it gracefully", stage: stageWaiting, options: Options{Unreachable: yes}, pod: newPod("web", ago(0)), want: stageWaiting, blocked: true, deleted: true},
		{name: "it is deleted where somebody can", stage: stageWaiting, options: Options{Unreachable: no}, pod: newPod("web", ago(0)), want: stageLeaving, deleted: true},
		{name: "it was let go where somebody could, and its kubelet is lost", stage: stageLeaving, options: Options{Unreachable: yes}, pod: newPod("web", ago(-time.Hour)), want: stageWaiting, blocked: true, deleted: true},
		{name: "it was let go, and ends as soon", stage: stageLeaving, options: Options{Unreachable: yes}, pod: newPod("web", ago(-time.Second)), want: stageLeaving, blocked: true, deleted: true},
		{name: "somebody has said how long it gets", stage: stageLeaving, options: Options{Unreachable: yes, GracePeriodSeconds: new(int64(3600))}, pod: newPod("web", ago(-time.Hour)), want: stageLeaving, blocked: true, deleted: true},
		{name: "it was given up, and has gone", stage: stageAbandoned, want: stageAbandoned, blocked: true},
		{name: "it had gone, and is there again", stage: stageGone, options: skip, pod: newPod("web", ago(time.Hour)), want: stageGone, blocked: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &tracked{namespace: "shop", name: "web", uid: "uid-of-web", stage: tt.stage, blocked: blocked}
			tr := &tracker{options: tt.options, pods: []*tracked{p}}
			if tt.deadFor > 0 {
				tr.deadSince = testNow.Add(-tt.deadFor)
			}
			tr.observe(testNow, func(string, string) *corev1.Pod { return tt.pod })
			if p.stage != tt.want || (p.blocked != nil) != tt.blocked || (p.deleted != nil) != tt.deleted {
				t.Errorf("it is %s, blocked %v, deleted %v; want %s", stageNames[p.stage], p.blocked, p.deleted, stageNames[tt.want])
			}
		})
	}
}

// TestHurry: a pod that got longer to end than it gets once the cluster has lost its kubelet is asked once more then, until it is let go.
func TestHurry(t *testing.T) {
	lost, asked := false, ""
	tr := &tracker{options: Options{Unreachable: func() bool { return lost }}}
	pod := newPod("web", deletedAt(testNow.Add(time.Hour)))
	tr.add([]corev1.Pod{*pod}, testNow)
	for n, step := range []struct {
		lost   bool
		answer stage
	}{
		{false, stageLeaving}, {true, stageWaiting}, {true, stageLeaving}, {true, stageLeaving}, // the informer has not seen yet that it ends sooner
		{false, stageLeaving}, {true, stageLeaving},
	} {
		now := testNow.Add(time.Duration(n) * time.Minute)
		lost = step.lost
		tr.observe(now, func(string, string) *corev1.Pod { return pod })
		asked += strconv.Itoa(len(tr.due(now, parallel)))
		if p := tr.pods[0]; p.stage == stageAsking {
			tr.answered(answer{pod: p, stage: step.answer}, now)
		}
	}
	if asked != "011000" {
		t.Errorf("it is asked %s times", asked)
	}
	// It was not let go before the kubelet was back, and is asked when that is lost again.
	tr.pods[0].stage = stageWaiting
	for _, lost = range []bool{false, true} {
		tr.observe(testNow, func(string, string) *corev1.Pod { return pod })
	}
	if got := len(tr.due(testNow, parallel)); got != 1 {
		t.Errorf("then it is asked %d times", got)
	}
}

// Pods are kept sorted, with what is known of them, and asked in that order when it is time.
func TestAddAndDue(t *testing.T) {
	tr := &tracker{}
	tr.add([]corev1.Pod{*newPod("c"), *newPod("a", deletedAt(testNow))}, testNow)
	tr.add([]corev1.Pod{*newPod("b")}, testNow.Add(time.Second))
	var got []string
	for _, p := range tr.pods {
		got = append(got, fmt.Sprintf("%s %s %v %v %s", p, p.uid, p.labels, p.deleted != nil, p.next.Sub(testNow)))
	}
	want := []string{"shop/a uid-of-a map[app:a] true 0s", "shop/b uid-of-b map[app:b] false 1s", "shop/c uid-of-c map[app:c] false 0s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	names := func(pods []*tracked) string {
		var out []string
		for _, p := range pods {
			out = append(out, p.name)
		}
		return strings.Join(out, " ")
	}
	if got := names(tr.due(testNow, 1)); got != "a" {
		t.Errorf("with room for one: %q", got)
	}
	if got := names(tr.due(testNow, 1)); got != "" {
		t.Errorf("while that is asked: %q", got)
	}
	if got := names(tr.due(testNow, 9)); got != "c" {
		t.Errorf("with room: %q", got)
	}
	if got := names(tr.due(testNow.Add(time.Second), 9)); got != "b" {
		t.Errorf("a second later: %q", got)
	}
}

// TestRetries: a pod that may not leave is asked often at first, and less often when that lasts.
func TestRetries(t *testing.T) {
	tr := &tracker{}
	tr.add([]corev1.Pod{*newPod("web")}, testNow)
	now, asked := testNow, 0
	for range 1000 {
		for _, p := range tr.due(now, parallel) {
			asked++
			tr.answered(answer{pod: p, stage: stageWaiting}, now)
		}
		if now = tr.next(); now.Sub(testNow) >= time.Hour {
			break
		}
	}
	if often, rarely := int(retryOften/RetryInterval), int((time.Hour-retryOften)/slowRetryInterval); asked != often+rarely {
		t.Errorf("in an hour it is asked %d times, want %d", asked, often+rarely)
	}
	// As long as others leave, its budget allows one after the other.
	tr.add([]corev1.Pod{*newPod("other")}, now)
	for _, p := range tr.due(now, parallel) {
		tr.answered(answer{pod: p, stage: map[string]stage{"web": stageWaiting, "other": stageLeaving}[p.name]}, now)
	}
	if next := tr.next(); next.Sub(now) > slowRetryInterval {
		t.Errorf("then it is asked after %s", next.Sub(now))
	}
	now = tr.next()
	for _, p := range tr.due(now, parallel) {
		tr.answered(answer{pod: p, stage: stageWaiting}, now)
	}
	if next := tr.next(); next.Sub(now) != RetryInterval {
		t.Errorf("after another one has left it is asked again after %s, want %s", next.Sub(now), RetryInterval)
	}
}

func TestNext(t *testing.T) {
	at := testNow.Add
	waiting := &tracked{stage: stageWaiting, next: at(5 * time.Second)}
	leaving := &tracked{stage: stageLeaving, next: at(time.Second), deleted: &metav1.Time{Time: at(3 * time.Second)}}
	slow := &tracked{stage: stageLeaving, deleted: &metav1.Time{Time: at(time.Hour)}}
	evicted := &tracked{stage: stageLeaving, next: at(time.Second)}
	asking := &tracked{stage: stageAsking, next: at(time.Second)}
	tests := []struct {
		name    string
		options Options
		pods    []*tracked
		want    time.Time
	}{
		{name: "nothing", pods: []*tracked{leaving, evicted, asking}},
		{name: "a pod that waits", pods: []*tracked{asking, {stage: stageWaiting, next: at(9 * time.Second)}, waiting, leaving}, want: at(5 * time.Second)},
		{name: "the deadline", options: Options{Deadline: at(time.Second)}, pods: []*tracked{waiting}, want: at(time.Second)},
		{name: "before the deadline", options: Options{Deadline: at(time.Minute)}, pods: []*tracked{waiting}, want: at(5 * time.Second)},
		{name: "a pod whose kubelet may die", options: Options{Dead: func() bool { return false }}, pods: []*tracked{leaving}, want: at(askDead)},
		{name: "a pod whose kubelet may be lost", options: Options{Unreachable: func() bool { return false }, SkipWaitForDelete: 30 * time.Second}, pods: []*tracked{slow}, want: at(askDead)},
		{name: "a pod that would not end sooner then", options: Options{Unreachable: func() bool { return false }, GracePeriodSeconds: new(int64(5))}, pods: []*tracked{slow}},
		{name: "a pod whose kubelet does not matter", options: Options{Dead: func() bool { return true }, SkipWaitForDelete: 30 * time.Second}, pods: []*tracked{leaving}, want: at(34 * time.Second)},
		{name: "a pod that is given up", options: Options{SkipWaitForDelete: 30 * time.Second}, pods: []*tracked{leaving, evicted}, want: at(34 * time.Second)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := &tracker{options: tt.options, pods: tt.pods, observed: testNow}
			if got := tr.next(); !got.Equal(tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// How far it is, and what is said at the end, by the stages of the pods.
func TestProgressAndErrors(t *testing.T) {
	blocked := func(name string) *v1alpha1.BlockedPod {
		return &v1alpha1.BlockedPod{Namespace: "shop", Name: name, Message: "no"}
	}
	deleted := &metav1.Time{Time: testNow}
	pods := []*tracked{
		{namespace: "shop", name: "abandoned", uid: "x", stage: stageAbandoned, deleted: deleted},
		{namespace: "shop", name: "fresh", stage: stageWaiting},
		{namespace: "shop", name: "gone", uid: "y", stage: stageGone, deleted: deleted},
		{namespace: "shop", name: "leaves", stage: stageLeaving, deleted: deleted},
		{namespace: "shop", name: "refused", stage: stageRefused, blocked: blocked("refused")},
		{namespace: "shop", name: "stuck", stage: stageWaiting, blocked: blocked("stuck"), deleted: deleted},
	}
	tr := &tracker{pods: pods, staying: []string{"shop/daemon"}}
	want := Progress{Total: 6, Gone: 1, Abandoned: 1, Terminating: 2, Blocked: []v1alpha1.BlockedPod{*blocked("refused"), *blocked("stuck")}, Staying: []string{"shop/daemon"}}
	if diff := cmp.Diff(want, tr.progress()); diff != "" {
		t.Errorf("progress (-want +got)\n%s", diff)
	}
	if got := want.Left(); got != 4 {
		t.Errorf("%d are left", got)
	}
	if !tr.abandoned("x") || tr.abandoned("y") || tr.abandoned("z") {
		t.Error("the wrong pods are taken for abandoned")
	}
	if tr.settled() {
		t.Error("it is settled")
	}
	const timeout = "timeout: 4 of 6 pods have not left: shop/fresh (its eviction was not requested yet), " +
		"shop/leaves (it is being deleted, and its kubelet has not said that it ended; its grace period ends at 2026-03-14T15:09:26Z), "
	if got := tr.timeout().Error(); !strings.HasPrefix(got, timeout) || !strings.Contains(got, "shop/refused") || !strings.HasSuffix(got, blocked("stuck").String()) {
		t.Errorf("got %s", got)
	}
	if got := tr.refused(); got == nil || got.Error() != "the API server refuses permanently: shop/refused (no)" {
		t.Errorf("got %v", got)
	}
	tr.pods = []*tracked{pods[0], pods[2], pods[4]}
	if !tr.settled() {
		t.Error("it is not settled")
	}
	tr.pods = tr.pods[:2]
	if got := tr.refused(); got != nil {
		t.Errorf("got %v", got)
	}
}
